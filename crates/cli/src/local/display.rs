//! What `run` shows: log lines on standard output, everything else on standard error. On a terminal one line per replica
//! is kept up to date below them, and all of it goes the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use trainyard_node::{ContainerUsage, NodeLogs};

use super::job::JobRef;
use super::replica::Replica;
use super::table::{Row, Table};

/// The last word on a job.
pub(crate) struct Verdict {
    pub(crate) job: String,
    pub(crate) state: &'static str,
    pub(crate) rest: String,
}

/// How much of a replica's name is needed to tell it from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// There is one job.
    Replica,
    /// There are several.
    Job,
    /// Two of them have the same name.
    Namespace,
}

impl Naming {
    /// What tells the replicas of these jobs apart.
    pub(crate) fn of(jobs: &[JobRef]) -> Self {
        let names: BTreeSet<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        match jobs.len() {
            0 | 1 => Self::Replica,
            count if names.len() == count => Self::Job,
            _ => Self::Namespace,
        }
    }
}

/// Shows a run.
pub(crate) struct Display {
    live: Option<Table>,
    /// How labels are made.
    naming: Naming,
    /// What was said of each job last.
    said: BTreeMap<JobRef, String>,
}

impl Display {
    pub(crate) fn new(plain: bool, naming: Naming) -> Self {
        let terminal = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let live = (!plain && terminal && !dumb).then(Table::new);
        Self { live, naming, said: BTreeMap::new() }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// How a replica, or another container of it, is called in front of its lines.
    pub(crate) fn label(&self, replica: &Replica, container: &str) -> String {
        let job = match (self.naming, replica.job.as_deref()) {
            (Naming::Replica, _) | (_, None) => String::new(),
            (Naming::Job, Some(job)) => format!("{job}/"),
            (Naming::Namespace, Some(job)) => format!("{}/{job}/", replica.namespace),
        };
        let container = if container == replica.main { String::new() } else { format!("/{container}") };
        format!("{job}{}{container}", replica.label)
    }

    /// One line of a log.
    pub(crate) fn line(&mut self, label: &str, bytes: &[u8]) {
        if let Some(table) = &mut self.live {
            return table.line(label, bytes);
        }
        let mut text = format!("[{label}] ").into_bytes();
        text.extend_from_slice(bytes);
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        // A reader that went away is no reason to stop the job.
        let _ = std::io::stdout().lock().write_all(&text);
    }

    /// Something about the run itself.
    pub(crate) fn say(&mut self, text: &str) {
        match &mut self.live {
            Some(table) => table.above(format!("trainyard: {text}").as_bytes()),
            None => crate::complain(text),
        }
    }

    /// A job's newest condition.
    pub(crate) fn job(&mut self, job: &JobRef, state: &str, message: &str) {
        if self.is_live() && state == "Succeeded" {
            // The last word comes in a moment, and says the same.
            return;
        }
        let text = format!("{} {}/{} {state}: {message}", job.kind, job.namespace, job.name);
        if self.said.get(job) != Some(&text) {
            self.say(&text);
            self.said.insert(job.clone(), text);
        }
    }

    /// A replica's state, when it is another than before. On a terminal the rows show it, but for what is out of the ordinary.
    pub(crate) fn replica(&mut self, before: Option<&Replica>, now: &Replica) {
        let changed = before
            .is_none_or(|old| (&old.state, &old.why, old.restarts) != (&now.state, &now.why, now.restarts));
        let unusual = now.why.is_some();
        if !changed || (self.is_live() && !unusual) || (now.state == "Pending" && now.why.is_none()) {
            return;
        }
        let why = now.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let restarts = if now.restarts > 0 { format!(" (restart {})", now.restarts) } else { String::new() };
        let label = self.label(now, &now.main);
        self.say(&format!("{label} {}{restarts}{why}", now.state));
    }

    /// Writes what waits for the next picture.
    pub(crate) fn flush(&mut self) {
        if let Some(table) = &mut self.live {
            table.flush();
        }
    }

    /// Draws the rows.
    pub(crate) fn draw(&mut self, replicas: &mut [&Replica], usage: &[ContainerUsage], logs: &NodeLogs) {
        replicas.sort_by(|a, b| a.order().cmp(&b.order()));
        let rows = replicas
            .iter()
            .map(|replica| row(self.label(replica, &replica.main), replica, usage, logs))
            .collect();
        if let Some(table) = &mut self.live {
            table.show(rows);
        }
    }

    /// The end: rows of what has ended would only repeat what was said.
    pub(crate) fn close(&mut self, verdicts: &[Verdict]) {
        if let Some(mut table) = self.live.take() {
            return table.close(verdicts);
        }
        // A failure was said with its reason already; this is the last word.
        for verdict in verdicts {
            crate::complain(&format!("{}: {} {}", verdict.job, verdict.state, verdict.rest));
        }
    }
}

fn row(label: String, replica: &Replica, usage: &[ContainerUsage], logs: &NodeLogs) -> Row {
    let runs = !replica.over && replica.since.is_some();
    let of_it = usage.iter().filter(|usage| usage.uid == replica.uid);
    let (cpus, memory) =
        of_it.fold((0.0, 0), |(cpus, memory), usage| (cpus + usage.cpus, memory + usage.memory));
    let last = || logs.last_line(&replica.uid, &replica.main).unwrap_or_default();
    let restarts = if replica.restarts > 0 { format!(" ({}×)", replica.restarts) } else { String::new() };
    Row {
        label,
        state: format!("{}{restarts}", replica.state),
        up: replica.since.map(|since| time(since_then(since))).unwrap_or_default(),
        cpus: if runs { format!("{cpus:.2}") } else { String::new() },
        memory: if runs { bytes(memory) } else { String::new() },
        tail: replica.why.clone().filter(|_| !replica.over).unwrap_or_else(last),
    }
}

fn since_then(since: jiff::Timestamp) -> Duration {
    let now = (trainyard_operator::system_clock())();
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// `7.4s`, else as in the rows.
pub(crate) fn exact_time(duration: Duration) -> String {
    if duration.as_secs() < 60 { format!("{:.1}s", duration.as_secs_f64()) } else { time(duration) }
}

/// `7s`, `12m07s`, `3h05m`.
fn time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// `19 MiB`, `1.5 GiB`.
fn bytes(bytes: u64) -> String {
    let mebibytes = bytes >> 20;
    if mebibytes < 1024 {
        format!("{mebibytes} MiB")
    } else {
        format!("{}.{} GiB", mebibytes >> 10, (mebibytes & 1023) * 10 / 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let times = [0, 59, 60, 3599, 3600, 90_000].map(|seconds| time(Duration::from_secs(seconds)));
        assert_eq!(times, ["0s", "59s", "1m00s", "59m59s", "1h00m", "25h00m"]);
        let exact = [Duration::from_millis(7449), Duration::from_secs(61)].map(exact_time);
        assert_eq!(exact, ["7.4s", "1m01s"]);
        let sizes = [0, 19 << 20, (1 << 30) - 1, 1 << 30, 3 << 29, 100 << 30].map(bytes);
        assert_eq!(sizes, ["0 MiB", "19 MiB", "1023 MiB", "1.0 GiB", "1.5 GiB", "100.0 GiB"]);
    }
}
