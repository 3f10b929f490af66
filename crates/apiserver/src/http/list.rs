//! GET of a collection.

use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

use super::Call;
use super::continued::Token;
use super::negotiate::Encoding;
use super::reply::{self, Render};
use super::select::Selection;
use crate::app::App;
use crate::failure::{Cause, Failure};
use crate::registry::Served;
use crate::store::{Gone, Page, Range, Stored};
use crate::tables;

/// How long a request waits for a revision that is still to come.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many objects are looked at in one step when a selector decides which count.
const STEP: usize = 1000;

/// Which state a list shows.
enum At {
    Current,
    Revision(u64),
}

/// Waits until a revision is published.
pub(crate) async fn reach(app: &App, revision: u64) -> Result<(), Failure> {
    let mut progress = app.store.progress();
    let arrived = async {
        while app.store.revision() < revision {
            if progress.changed().await.is_err() {
                break;
            }
        }
    };
    match tokio::time::timeout(PATIENCE, arrived).await {
        Ok(()) => Ok(()),
        Err(_) => Err(Failure::too_new(revision, app.store.revision())),
    }
}

pub(crate) async fn list(call: &Call) -> Result<Response, Failure> {
    let selection = Selection::of(call)?;
    let limit = call.query.integer("limit")?.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    if call.query.has("sendInitialEvents") {
        let cause = Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        return Err(Failure::list_options(cause));
    }
    let token = match call.query.get("continue") {
        "" => None,
        text => Some(Token::read(text)?),
    };
    let at = state(call, token.as_ref(), limit.is_some()).await?;
    let range = Range {
        prefix: &selection.prefix,
        after: token.as_ref().map(|t| &*t.after),
        limit: limit.unwrap_or(usize::MAX),
    };
    let page = collect(call, &selection, range, &at).map_err(|Gone(_)| gone(token.as_ref(), &at))?;
    let mut metadata = metadata(call, page.revision);
    if let (true, Some(last)) = (page.more, page.items.last()) {
        let left = left(call, range, token.as_ref(), &page);
        let next = Token { revision: page.revision, left, after: last.key.path().to_owned() };
        if let Some(map) = metadata.as_object_mut() {
            map.insert("continue".into(), next.write().into());
            if selection.is_everything() {
                map.insert("remainingItemCount".into(), left.into());
            }
        }
    }
    answer(call, &metadata, &page.items)
}

/// The metadata of a list that has no further page.
pub(crate) fn metadata(call: &Call, revision: u64) -> Value {
    let revision = revision.to_string();
    if call.served.custom && call.render == Render::Object {
        json!({"resourceVersion": revision, "continue": ""})
    } else {
        json!({"resourceVersion": revision})
    }
}

fn gone(token: Option<&Token>, at: &At) -> Failure {
    match (token, at) {
        (Some(token), _) => {
            Failure::expired_list(Token { revision: 0, left: token.left, after: token.after.clone() }.write())
        }
        (None, At::Revision(_)) => Failure::expired("The resourceVersion for the provided list is too old."),
        (None, At::Current) => Failure::expired("The state changed too much while it was listed"),
    }
}

/// How many objects come after this page.
fn left(call: &Call, range: Range<'_>, token: Option<&Token>, page: &Page) -> usize {
    let all = match token {
        Some(token) if token.revision != 0 => token.left,
        _ => call.app.store.count(&call.served.table, range),
    };
    all.saturating_sub(page.items.len())
}

fn forbidden(why: &str) -> Failure {
    Failure::list_options(Cause::forbidden("resourceVersionMatch", why))
}

/// Which state the request asks for.
async fn state(call: &Call, token: Option<&Token>, limited: bool) -> Result<At, Failure> {
    let revision = call.query.list_revision()?;
    let matching = call.query.get("resourceVersionMatch");
    if let Some(token) = token {
        if revision.is_some_and(|r| r != 0) || !matching.is_empty() {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return Ok(if token.revision == 0 { At::Current } else { At::Revision(token.revision) });
    }
    let Some(revision) = revision else {
        if matching.is_empty() {
            return Ok(At::Current);
        }
        return Err(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
    };
    let exact = match matching {
        "Exact" if revision == 0 => {
            return Err(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
        }
        "Exact" => true,
        "NotOlderThan" => false,
        "" => limited && revision != 0,
        other => {
            let supported = "supported values: \"Exact\", \"NotOlderThan\", \"\"";
            return Err(Failure::list_options(Cause::unsupported("resourceVersionMatch", other, supported)));
        }
    };
    reach(&call.app, revision).await?;
    Ok(if exact { At::Revision(revision) } else { At::Current })
}

/// The selected objects of a range, in steps so that a page of a selective list costs what it holds.
fn collect(call: &Call, selection: &Selection, range: Range<'_>, at: &At) -> Result<Page, Gone> {
    let store = &call.app.store;
    let table = &*call.served.table;
    let read = |range: Range<'_>, revision: Option<u64>| match revision {
        None => Ok(store.page(table, range)),
        Some(revision) => store.page_at(table, range, revision),
    };
    let revision = match at {
        At::Current => None,
        At::Revision(revision) => Some(*revision),
    };
    if selection.is_everything() || range.limit == usize::MAX {
        let mut page = read(range, revision)?;
        page.items.retain(|stored| selection.matches(stored));
        return Ok(page);
    }
    let mut found = Page { revision: revision.unwrap_or_else(|| store.revision()), ..Page::default() };
    let mut after = range.after.map(str::to_owned);
    loop {
        let step = Range { after: after.as_deref(), limit: STEP, ..range };
        let page = read(step, Some(found.revision))?;
        after = page.items.last().map(|stored| stored.key.path().to_owned());
        for stored in page.items {
            // Whether there is another page is said before anybody looks whether it would be empty.
            if found.items.len() == range.limit {
                found.more = true;
                return Ok(found);
            }
            if selection.matches(&stored) {
                found.items.push(stored);
            }
        }
        if !page.more {
            return Ok(found);
        }
    }
}

/// The items of a list of built-in kinds do not repeat their type. What was stored with the type in front is cut; what an
/// older version stored is written anew.
fn untyped(served: &Served, texts: Vec<Bytes>) -> Result<Vec<Bytes>, Failure> {
    let start = format!("{{\"kind\":{:?},\"apiVersion\":{:?},", served.kind, &*served.api_version);
    let cut = |text: Bytes| {
        if text.starts_with(start.as_bytes()) {
            return Ok(text.slice(start.len()..));
        }
        let mut object: Value = serde_json::from_slice(&text).map_err(Failure::internal)?;
        if let Some(map) = object.as_object_mut() {
            map.remove("kind");
            map.remove("apiVersion");
        }
        reply::serialise(&object).map(|text| text.slice(1..))
    };
    texts.into_iter().map(cut).collect()
}

/// The list object.
pub(crate) fn answer(call: &Call, metadata: &Value, items: &[Arc<Stored>]) -> Result<Response, Failure> {
    let served = &call.served;
    if let Render::Table(view) = call.render {
        let rows =
            items.iter().map(|stored| tables::row(served, stored, view)).collect::<Result<Vec<_>, _>>()?;
        return Ok(reply::json(200, tables::table(served, metadata, &rows, view)?));
    }
    let texts =
        items.iter().map(|stored| reply::text(served, stored, call.render)).collect::<Result<Vec<_>, _>>()?;
    match call.render {
        Render::Metadata(api_version) => {
            reply::list((api_version, "PartialObjectMetadataList"), metadata, &texts, call.encoding)
        }
        Render::Object | Render::Table(_) => {
            // A message has no place for the type of an item.
            let typed = served.custom || call.encoding == Encoding::Protobuf;
            let texts = if typed { texts } else { untyped(served, texts)? };
            reply::list((&served.api_version, &served.list_kind), metadata, &texts, call.encoding)
        }
    }
}
