//! `trainyard logs`: what replicas wrote, one or all of them, now or as it comes.

mod choose;
mod follow;
mod line;
mod merged;
mod together;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::bail;
use jiff::Timestamp;

use self::choose::{Replica, replicas};
use self::line::Line;
use super::cluster::{Cluster, Reach};
use super::resource::{Resource, encode};
use super::target::{Job, job};
use super::time::since;

/// Colours of prefixes, by turns: those that are read well on dark and on light.
const COLOURS: &[&str] = &["36", "33", "32", "35", "34", "31"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The job (NAME, KIND/NAME or KIND NAME), or pod/NAME.
    #[arg(required = true, num_args = 1..=2, value_name = "JOB")]
    what: Vec<String>,
    /// Go on until the job has ended: over restarts, replaced pods and broken connections.
    #[arg(short, long)]
    follow: bool,
    /// All replicas, merged by time, each line after the name of its replica.
    #[arg(long, conflicts_with = "replica")]
    all_ranks: bool,
    /// The replica: worker-0, ps-1, …; the one that decides about the job if left out.
    #[arg(long, value_name = "TYPE-INDEX")]
    replica: Option<String>,
    /// The container; the one that trains if left out.
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// The run before the last restart in place.
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,
    /// Only the last lines.
    #[arg(long, value_name = "N")]
    tail: Option<u32>,
    /// Only lines since then: 5m, or 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
    /// Show when each line was written.
    #[arg(long)]
    timestamps: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Whose logs are shown.
#[derive(Clone)]
enum Whose {
    Job(Box<Job>),
    Pod,
}

/// What to ask a server for.
#[derive(Clone, Default)]
struct Ask {
    container: String,
    follow: bool,
    previous: bool,
    tail: Option<u32>,
    since: Option<Timestamp>,
}

impl Ask {
    /// The path of the log. Time stamps are always asked for: they tell lines apart and put them in order.
    fn path(&self, namespace: &str, pod: &str) -> String {
        let mut path = format!(
            "{}/log?timestamps=true&container={}",
            Resource::pods().object(namespace, pod),
            encode(&self.container)
        );
        for (flag, name) in [(self.follow, "follow"), (self.previous, "previous")] {
            if flag {
                path.push_str(&format!("&{name}=true"));
            }
        }
        if let Some(tail) = self.tail {
            path.push_str(&format!("&tailLines={tail}"));
        }
        if let Some(since) = self.since {
            path.push_str(&format!("&sinceTime={}", encode(&since.to_string())));
        }
        path
    }
}

/// How lines are written.
#[derive(Clone, Copy)]
struct Out {
    timestamps: bool,
    prefix: bool,
    colour: bool,
}

impl Out {
    /// Writes a line of a replica; says whether anybody still reads.
    fn line(self, number: usize, label: &str, line: &Line) -> anyhow::Result<bool> {
        crate::print_bytes(&self.bytes(number, label, line))
    }

    fn bytes(self, number: usize, label: &str, line: &Line) -> Vec<u8> {
        let colour = COLOURS.get(number % COLOURS.len()).filter(|_| self.colour);
        let prefix = match colour {
            _ if !self.prefix => String::new(),
            Some(colour) => format!("\u{1b}[{colour}m[{label}]\u{1b}[0m "),
            None => format!("[{label}] "),
        };
        let text = if self.timestamps { line.stamped() } else { line.text() };
        [prefix.as_bytes(), text, b"\n"].concat()
    }
}

/// One call of the command.
#[derive(Clone)]
struct Session {
    cluster: Cluster,
    whose: Whose,
    namespace: String,
    /// The container that was asked for.
    container: Option<String>,
    ask: Ask,
    out: Out,
}

impl Session {
    /// The container that trains, for jobs.
    fn trains(&self) -> Option<&'static str> {
        match &self.whose {
            Whose::Job(job) => {
                self.cluster.catalog.framework(job.kind.framework).map(|known| known.facts().container)
            }
            Whose::Pod => None,
        }
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let cluster = args.reach.open().await?;
    let (whose, chosen) = chosen(&cluster, &args).await?;
    let colour =
        std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let namespace = match &whose {
        Whose::Job(job) => job.namespace().to_owned(),
        Whose::Pod => cluster.namespace.clone(),
    };
    let session = Session {
        cluster,
        whose,
        namespace,
        container: args.container,
        ask: Ask { previous: args.previous, tail: args.tail, since: args.since, ..Ask::default() },
        out: Out { timestamps: args.timestamps, prefix: args.all_ranks, colour },
    };
    // Each replica's log is a connection.
    trainyard_node::raise_open_files();
    if args.follow {
        follow::run(session, chosen, args.all_ranks).await
    } else {
        merged::run(session, chosen).await
    }
}

async fn chosen(cluster: &Cluster, args: &Args) -> anyhow::Result<(Whose, Vec<Replica>)> {
    let pod = match args.what.as_slice() {
        [one] => one.split_once('/'),
        [kind, name] => Some((kind.as_str(), name.as_str())),
        _ => None,
    };
    if let Some((_, name)) = pod.filter(|(kind, _)| Resource::pods().is_called(kind) || *kind == "po") {
        if args.all_ranks || args.replica.is_some() {
            bail!("pod/{name} is one pod: --all-ranks and --replica go with a job");
        }
        return Ok((Whose::Pod, vec![Replica { label: name.to_owned(), pod: name.to_owned() }]));
    }
    let job = job(cluster, &args.what).await?;
    let chosen = replicas(cluster, &job, args.all_ranks, args.replica.as_deref())?;
    Ok((Whose::Job(Box::new(job)), chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_coloured_by_replica_if_at_all() {
        let line = Line::new(b"2026-01-02T03:04:05Z x\n".to_vec());
        let shown = |prefix, colour, timestamps| {
            let out = Out { timestamps, prefix, colour };
            String::from_utf8(out.bytes(7, "worker-0", &line)).unwrap()
        };
        assert_eq!(shown(false, true, false), "x\n");
        assert_eq!(shown(true, false, true), "[worker-0] 2026-01-02T03:04:05Z x\n");
        assert_eq!(shown(true, true, false), "\u{1b}[33m[worker-0]\u{1b}[0m x\n");
    }
}
