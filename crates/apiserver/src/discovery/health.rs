//! `/livez`, `/readyz` and the older `/healthz`: whether to talk to this server at all.

use std::collections::BTreeSet;

use super::Answer;
use crate::app::App;
use crate::http::Query;

/// What is looked at. A server that answers can do the first ones; the names are those probes know.
const ALIVE: [&str; 3] = ["ping", "log", "etcd"];
/// What only readiness asks: whether everything that belongs to this server has started.
const READY: [&str; 2] = ["informer-sync", "shutdown"];
const PROBES: [&str; 3] = ["healthz", "livez", "readyz"];

fn checks(probe: &str) -> impl Iterator<Item = &'static str> {
    let more: &[&str] = if probe == "readyz" { &READY } else { &[] };
    ALIVE.iter().chain(more).copied()
}

/// Every page about health.
pub(super) fn paths() -> impl Iterator<Item = String> {
    PROBES.into_iter().flat_map(|probe| {
        let parts = checks(probe).map(move |check| format!("/{probe}/{check}"));
        std::iter::once(format!("/{probe}")).chain(parts)
    })
}

/// The answer to a probe, or to one check of it; nothing when there is no such check.
pub(super) fn answer(app: &App, probe: &str, check: Option<&str>, query: &Query) -> Option<Answer> {
    let failed = |check: &str| if check == "informer-sync" { (app.ready)().err() } else { None };
    if let Some(check) = check {
        checks(probe).find(|known| *known == check)?;
        return Some(match failed(check) {
            None => Answer::Well,
            Some(why) => Answer::Health { well: false, text: format!("internal server error: {why}\n") },
        });
    }
    let mut unknown: BTreeSet<&str> = query.all("exclude").collect();
    let (mut well, mut text) = (true, String::new());
    for check in checks(probe) {
        let line = if unknown.remove(check) {
            format!("[+]{check} excluded: ok\n")
        } else if let Some(why) = failed(check) {
            well = false;
            // Unlike a real server this one says what is missing: whoever reads it sits in front of it.
            format!("[-]{check} failed: {why}\n")
        } else {
            format!("[+]{check} ok\n")
        };
        text.push_str(&line);
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.into_iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(",");
        text.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    if !well {
        text.push_str(&format!("{probe} check failed\n"));
    } else if query.has("verbose") {
        text.push_str(&format!("{probe} check passed\n"));
    } else {
        text = "ok".into();
    }
    Some(Answer::Health { well, text })
}
