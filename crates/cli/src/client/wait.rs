//! `trainyard wait`: until jobs have come to a state, or until it is clear that they never will.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures::future::join_all;
use serde_json::Value;
use trainyard_core::conditions::types;

use super::cluster::{Cluster, Reach};
use super::fields::{condition, is_over, items, state, text, uid};
use super::gather;
use super::target::{Job, absent, leading_kind, lookup, parse};
use super::time::duration;
use super::until::{Followed, until, until_each};
use super::why::Family;

/// How long an answer may take beyond the time that the user gave.
const ANSWER: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Jobs: NAME…, KIND/NAME… or KIND NAME…
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// condition=TYPE, condition=TYPE=False, or delete.
    #[arg(long = "for", value_name = "WHAT", default_value = "condition=Succeeded", value_parser = read)]
    what: What,
    /// Give up after this long (90s, 10m, 2h); never if left out.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    reach: Reach,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Gone,
    Condition { type_: String, status: String },
}

fn read(text: &str) -> anyhow::Result<What> {
    const TYPES: [&str; 8] = [
        types::CREATED,
        types::WAITING,
        types::RUNNING,
        types::RESTARTING,
        types::SUSPENDED,
        types::SUCCEEDED,
        types::FAILED,
        types::INVALID_SPEC,
    ];
    if text.eq_ignore_ascii_case("delete") {
        return Ok(What::Gone);
    }
    let rest = text.strip_prefix("condition=");
    let Some(rest) = rest else { bail!("write condition=TYPE, condition=TYPE=False, or delete") };
    let (type_, status) = rest.split_once('=').unwrap_or((rest, "True"));
    let Some(type_) = TYPES.iter().find(|known| known.eq_ignore_ascii_case(type_)) else {
        bail!("no job ever has a condition {type_:?}: it is one of {}", TYPES.join(", "));
    };
    let Some(status) = ["True", "False"].iter().find(|known| known.eq_ignore_ascii_case(status)) else {
        bail!("{status:?} is no status of a condition: it is True or False");
    };
    Ok(What::Condition { type_: (*type_).to_owned(), status: (*status).to_owned() })
}

/// How the wait for one job ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Met,
    /// It never will be.
    Never(String),
}

impl What {
    fn judge(&self, job: Option<&Value>, of: &str) -> Option<End> {
        let (type_, status) = match (self, job) {
            (Self::Gone, job) => return job.is_none_or(|job| uid(job) != of).then_some(End::Met),
            (Self::Condition { .. }, None) => return Some(End::Never("it was deleted".into())),
            (Self::Condition { .. }, Some(job)) if uid(job) != of => {
                return Some(End::Never("it was deleted, and another of the same name was created".into()));
            }
            (Self::Condition { type_, status }, Some(_)) => (type_, status),
        };
        let job = job?;
        let now = items(job, "/status/conditions").iter().find(|condition| text(condition, "/type") == type_);
        if now.is_some_and(|condition| text(condition, "/status") == status) {
            return Some(End::Met);
        }
        // This one is not set to False when it is over: it goes.
        let seen = !items(job, "/status/conditions").is_empty();
        if type_ == types::WAITING && status == "False" && seen && now.is_none() {
            return Some(End::Met);
        }
        // What has ended stays as it is.
        is_over(job).then(|| {
            let state = state(job);
            let message =
                condition(job, state).map(|condition| text(condition, "/message")).unwrap_or_default();
            End::Never(format!("it has ended: {state}: {message}"))
        })
    }

    fn text(&self) -> String {
        match self {
            Self::Gone => "deleted".into(),
            Self::Condition { type_, status } if status == "True" => type_.clone(),
            Self::Condition { type_, .. } => format!("not {type_}"),
        }
    }
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let find = async {
        let cluster = args.reach.open().await?;
        let jobs = present(&cluster, args).await?;
        anyhow::Ok((cluster, jobs))
    };
    let (cluster, jobs) = match args.timeout {
        None => find.await?,
        // A server that takes connections and says nothing would be waited for for ever. Whoever does not want to wait
        // for jobs still has to wait for the answer.
        Some(limit) => {
            let limit = limit.saturating_add(ANSWER);
            let found = tokio::time::timeout(limit, find).await;
            found.map_err(|_| anyhow!("the server did not answer within {}s", limit.as_secs()))??
        }
    };
    let mut kinds: BTreeMap<String, Vec<&Job>> = BTreeMap::new();
    for job in &jobs {
        kinds.entry(job.resource.qualified()).or_default().push(job);
    }
    let waits = kinds.values().map(|jobs| async {
        match jobs.as_slice() {
            [job] => one(&cluster, args, job).await.with_context(|| job.title()),
            jobs => many(&cluster, args, jobs).await,
        }
    });
    let mut failed = false;
    for met in join_all(waits.map(Box::pin)).await {
        failed |= !met?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The jobs that are named. One that is not there is deleted already, if that is what is waited for.
async fn present(cluster: &Cluster, args: &Args) -> anyhow::Result<Vec<Job>> {
    let kinds = cluster.job_kinds().await?;
    let is_kind = |word: &str| kinds.iter().any(|(_, resource)| resource.is_called(word));
    let named = parse(&args.jobs, leading_kind(&args.jobs).is_some_and(is_kind))?;
    let mut jobs = Vec::new();
    for (named, job) in named.iter().zip(lookup(cluster, &kinds, &named).await?) {
        match job {
            Some(job) => jobs.push(job),
            None if args.what == What::Gone => crate::print(&format!("{} is not there\n", named.name))?,
            None => bail!(absent(cluster, &kinds, *named).await?),
        }
    }
    Ok(jobs)
}

/// Waits for one job; says how it went.
async fn one(cluster: &Cluster, args: &Args, job: &Job) -> anyhow::Result<bool> {
    let followed = Followed { resource: &job.resource, namespace: job.namespace(), name: job.name() };
    let wait = until(cluster, followed, |object| args.what.judge(object, job.uid()));
    let end = match args.timeout {
        None => wait.await?,
        Some(limit) => match tokio::time::timeout(limit, wait).await {
            Ok(end) => end?,
            Err(_) => return late(cluster, args, job, limit).await,
        },
    };
    tell(args, job, &end)?;
    Ok(end == End::Met)
}

fn tell(args: &Args, job: &Job, end: &End) -> anyhow::Result<()> {
    let (title, what) = (job.title(), args.what.text());
    match end {
        End::Met => crate::print(&format!("{title} {what}\n"))?,
        End::Never(why) => crate::complain(&format!("{title} will never be {what}: {why}")),
    }
    Ok(())
}

/// Waits for several jobs of one kind, with one watch for all of them; says how it went.
async fn many(cluster: &Cluster, args: &Args, jobs: &[&Job]) -> anyhow::Result<bool> {
    let Some(first) = jobs.first() else { return Ok(true) };
    let mut waiting: BTreeMap<String, &Job> = jobs.iter().map(|job| (job.name().to_owned(), *job)).collect();
    let mut met = true;
    let collection = (&first.resource, first.namespace());
    let wait = until_each(cluster, collection, &mut waiting, |job, object| {
        let Some(end) = args.what.judge(object, job.uid()) else { return Ok(false) };
        met &= end == End::Met;
        tell(args, job, &end).map(|()| true)
    });
    match args.timeout {
        None => wait.await?,
        Some(limit) => match tokio::time::timeout(limit, wait).await {
            Ok(over) => over?,
            Err(_) => {
                all_late(cluster, args, &waiting, limit).await?;
                return Ok(false);
            }
        },
    }
    Ok(met)
}

/// The time is over: says what each of the jobs waits for.
async fn all_late(
    cluster: &Cluster,
    args: &Args,
    waiting: &BTreeMap<String, &Job>,
    limit: Duration,
) -> anyhow::Result<()> {
    let Some(first) = waiting.values().next() else { return Ok(()) };
    let mut lines = BTreeMap::new();
    for (name, job) in waiting {
        lines.insert(name.clone(), lateness(args, job, limit, None));
    }
    let kind = [(first.kind, first.resource.clone())];
    gather::each(cluster, &kind, Some(first.namespace()), |job, family| {
        if let Some(line) = lines.get_mut(job.name()) {
            *line = lateness(args, job, limit, Some(family));
        }
    })
    .await?;
    lines.values().for_each(|line| crate::complain(line));
    Ok(())
}

fn lateness(args: &Args, job: &Job, limit: Duration, family: Option<&Family>) -> String {
    let mut text = format!("{} is not {} after {limit:?}", job.title(), args.what.text());
    if let Some(family) = family {
        text.push_str(&format!(": it is {}", state(&family.job)));
        for why in family.why() {
            text.push_str(&format!("; {why}"));
        }
    }
    text
}

/// The time is over: says what the job waits for.
async fn late(cluster: &Cluster, args: &Args, job: &Job, limit: Duration) -> anyhow::Result<bool> {
    let mut family = None;
    if let Some(object) = cluster.get(&job.path()).await? {
        family = Some(Family::read(cluster, &Job { object, ..job.clone() }, |_| Ok(())).await?);
    }
    let text = lateness(args, job, limit, family.as_ref());
    crate::complain(&text);
    Ok(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(conditions: &[(&str, &str)]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status)| json!({ "type": type_, "status": status, "message": "m" }))
            .collect();
        json!({ "metadata": { "uid": "u" }, "status": { "conditions": conditions } })
    }

    #[test]
    fn what_can_be_waited_for() {
        assert_eq!(read("delete").unwrap(), What::Gone);
        assert_eq!(read("condition=failed=false").unwrap().text(), "not Failed");
        for text in ["Succeeded", "condition=Done", "condition=Running=perhaps", ""] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_end_decides_every_wait() {
        let succeeded = read("condition=Succeeded").unwrap();
        assert_eq!(succeeded.judge(Some(&job(&[("Running", "True")])), "u"), None);
        assert_eq!(succeeded.judge(Some(&job(&[("Succeeded", "True")])), "u"), Some(End::Met));
        let never = End::Never("it has ended: Failed: m".into());
        assert_eq!(succeeded.judge(Some(&job(&[("Failed", "True")])), "u"), Some(never));
        assert!(matches!(succeeded.judge(None, "u"), Some(End::Never(_))));
        assert!(matches!(succeeded.judge(Some(&job(&[])), "other"), Some(End::Never(_))));
        let resumed = read("condition=Suspended=False").unwrap();
        assert_eq!(resumed.judge(Some(&job(&[("Suspended", "False")])), "u"), Some(End::Met));
        assert_eq!(resumed.judge(Some(&job(&[])), "u"), None);
        let waiting = read("condition=waiting").unwrap();
        assert_eq!(waiting.judge(Some(&job(&[("Waiting", "True")])), "u"), Some(End::Met));
        let started = read("condition=Waiting=False").unwrap();
        assert_eq!(started.judge(Some(&job(&[])), "u"), None, "nobody has looked at it yet");
        assert_eq!(started.judge(Some(&job(&[("Waiting", "True")])), "u"), None);
        assert_eq!(started.judge(Some(&job(&[("Running", "True")])), "u"), Some(End::Met));
    }

    #[test]
    fn gone_is_gone_even_if_another_took_the_name() {
        assert_eq!(What::Gone.judge(None, "u"), Some(End::Met));
        assert_eq!(What::Gone.judge(Some(&job(&[])), "other"), Some(End::Met));
        assert_eq!(What::Gone.judge(Some(&job(&[])), "u"), None);
    }
}
