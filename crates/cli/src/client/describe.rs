//! `trainyard describe`: everything about one job on one page, and above all why it is as it is.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::Value;

use super::cluster::Reach;
use super::fields::{items, moment, state, text, uid};
use super::table::{Table, plain};
use super::target::{Job, job};
use super::time::{age, now};
use super::trouble::{Trouble, joined};
use super::why::{Family, replica};
use super::{events, list, pods};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The job: NAME, KIND/NAME or KIND NAME.
    #[arg(required = true, num_args = 1..=2, value_name = "JOB")]
    job: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cluster = args.reach.open().await?;
    let job = job(&cluster, &args.job).await?;
    let mut pods: Vec<Value> = Vec::new();
    let family = Family::read(&cluster, &job, |pod| {
        pods.push(serde_json::from_str(pod)?);
        Ok(())
    })
    .await?;
    let mut page = facts(&job, &family)?;
    section(&mut page, "Conditions", &conditions(&job.object))?;
    section(&mut page, "Replicas", &replicas(&pods))?;
    first_failure(&mut page, &job.object)?;
    let why = family.why();
    if !why.is_empty() {
        writeln!(page, "Why:")?;
    }
    for line in why {
        writeln!(page, "  {}", plain(&line))?;
    }
    let uids = pods.iter().map(uid).chain([job.uid()]).collect();
    match events::about(&cluster, job.namespace(), uids).await? {
        Some(table) => section(&mut page, "Events", &table)?,
        None => writeln!(page, "Events:      none")?,
    }
    crate::print(&page)?;
    Ok(ExitCode::SUCCESS)
}

fn facts(job: &Job, family: &Family) -> anyhow::Result<String> {
    let object = &job.object;
    let mut page = String::new();
    let mut fact = |name: &str, value: &str| match value {
        "" => Ok(()),
        value => writeln!(page, "{:<13}{}", format!("{name}:"), plain(value)),
    };
    fact("Name", job.name())?;
    fact("Namespace", job.namespace())?;
    fact("Kind", &format!("{} ({})", job.kind.name, job.kind.api_version()))?;
    fact("UID", job.uid())?;
    fact("State", state(object))?;
    let created = moment(object, "/metadata/creationTimestamp");
    fact(
        "Created",
        &format!("{} ({} ago)", text(object, "/metadata/creationTimestamp"), age(created, now())),
    )?;
    fact("Started", text(object, "/status/startTime"))?;
    fact("Completed", text(object, "/status/completionTime"))?;
    fact("Labels", &pairs(object, "/metadata/labels"))?;
    fact("Replicas", &format!("{} (active/succeeded/failed of wanted)", list::replicas(job.kind, object)))?;
    let policy = object
        .pointer("/spec/runPolicy")
        .filter(|policy| policy.as_object().is_some_and(|map| !map.is_empty()));
    fact("Run policy", &policy.map(Value::to_string).unwrap_or_default())?;
    let record = family.look.decoded.as_ref().map(|decoded| &decoded.job.record);
    let attempt = record.map_or(0, |record| record.attempt).saturating_add(1);
    fact("Attempt", &format!("{attempt}, {} restart(s)", family.restarts()))?;
    Ok(page)
}

/// The failure that the job was last restarted or ended for; the others mostly follow from it.
fn first_failure(page: &mut String, job: &Value) -> anyhow::Result<()> {
    let Some(failure) = job.pointer("/status/firstFailure") else { return Ok(()) };
    let code = failure.get("exitCode").and_then(Value::as_i64);
    let parts = [
        text(failure, "/pod").to_owned(),
        match text(failure, "/node") {
            "" => String::new(),
            node => format!("on {node}"),
        },
        code.map(|code| format!("exit code {code}")).unwrap_or_default(),
        text(failure, "/reason").to_owned(),
        text(failure, "/cause").to_owned(),
        text(failure, "/finished").to_owned(),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    writeln!(page, "First failure:\n  {}", plain(&parts.join(", ")))?;
    for line in items(failure, "/log").iter().filter_map(Value::as_str) {
        writeln!(page, "  | {}", plain(line))?;
    }
    Ok(())
}

fn pairs(object: &Value, pointer: &str) -> String {
    let map = object.pointer(pointer).and_then(Value::as_object);
    let pairs =
        map.into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(", ")
}

fn section(page: &mut String, title: &str, table: &Table) -> anyhow::Result<()> {
    if table.is_empty() {
        writeln!(page, "{:<13}none", format!("{title}:"))?;
    } else {
        write!(page, "{title}:\n{}", table.text("  "))?;
    }
    Ok(())
}

fn conditions(job: &Value) -> Table {
    let mut table = Table::new(&["TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"]);
    for condition in items(job, "/status/conditions") {
        table.row([
            text(condition, "/type"),
            text(condition, "/status"),
            text(condition, "/lastTransitionTime"),
            text(condition, "/reason"),
            text(condition, "/message"),
        ]);
    }
    table
}

fn replicas(all: &[Value]) -> Table {
    let mut table = Table::new(&["REPLICA", "POD", "NODE", "STATE", "RESTARTS", "EXIT", "REASON"]);
    for pod in all {
        let (code, reason) = match pods::end(pod) {
            Some((code, reason, message)) => (code.to_string(), joined(&reason, &message)),
            None => ("-".to_owned(), String::new()),
        };
        // What keeps it from running now is worth more than how it ended before.
        let trouble = Trouble::of(pod).filter(|trouble| !trouble.is_final());
        let node = text(pod, "/spec/nodeName");
        table.row([
            replica(pod),
            text(pod, "/metadata/name").to_owned(),
            if node.is_empty() { "-".into() } else { node.to_owned() },
            pods::status(pod),
            pods::restarts(pod).to_string(),
            code,
            trouble.map_or(reason, |trouble| trouble.why),
        ]);
    }
    table
}
