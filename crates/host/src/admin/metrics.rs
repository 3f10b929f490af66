//! The figures of an operator in the text format of Prometheus.
//!
//! The counters of jobs have the names and labels that dashboards of the training-operator know.

use std::fmt::Write as _;

use trainyard_operator::{Health, JobCounts};

use crate::leader::Leadership;

/// In a second, wherever Linux tells times in ticks.
const TICKS: f64 = 100.0;

/// The whole page.
pub(super) fn page(health: &Health, leadership: &Leadership) -> String {
    let mut page = Page(String::new());
    jobs(&mut page, health);
    children(&mut page, health);
    operator(&mut page, health);
    if let Some(name) = leadership.name() {
        let leads = f64::from(u8::from(!leadership.stands_by()));
        let help = "1 when this replica works, 0 when it stands by.";
        page.family("leader_election_master_status", "gauge", help, [(vec![("name", name)], leads)]);
    }
    process(&mut page);
    page.0
}

/// One counter of jobs.
type Count = (&'static str, &'static str, fn(&JobCounts) -> u64);

const JOBS: [Count; 5] = [
    ("created", "Jobs that were taken up.", |counts| counts.created),
    ("deleted", "Jobs that are gone, whoever deleted them.", |counts| counts.deleted),
    ("successful", "Jobs that succeeded.", |counts| counts.successful),
    ("failed", "Jobs that failed.", |counts| counts.failed),
    ("restarted", "Restarts of jobs.", |counts| counts.restarted),
];

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows no other numbers")]
fn jobs(page: &mut Page, health: &Health) {
    let all = health.jobs();
    for (what, help, count) in JOBS {
        let samples = all.iter().map(|((namespace, framework), counts)| {
            let labels = vec![("job_namespace", &**namespace), ("framework", *framework)];
            (labels, count(counts) as f64)
        });
        page.family(&format!("training_operator_jobs_{what}_total"), "counter", help, samples);
    }
}

/// By the names that the training-operator has for them; its page does not show them.
fn children(page: &mut Page, health: &Health) {
    let stats = health.stats();
    let counters = [
        ("created_pods", "Pods created.", stats.pods_created),
        ("deleted_pods", "Pods of jobs that are gone, whoever deleted them.", stats.pods_deleted),
        ("failed_pods", "Pods that failed.", stats.pods_failed),
        ("succeeded_service_creation", "Services created.", stats.services_created),
        ("failed_service_creation", "Services that could not be created.", stats.services_not_created),
        ("created_pod_groups", "PodGroups created.", stats.groups_created),
        ("deleted_pod_groups", "PodGroups deleted.", stats.groups_deleted),
    ];
    for (name, help, value) in counters {
        page.number(&format!("{name}_total"), "counter", help, value);
    }
}

fn operator(page: &mut Page, health: &Health) {
    let stats = health.stats();
    let counters = [
        ("reconciles", "Looks at jobs.", stats.reconciles),
        (
            "reconcile_errors",
            "Looks at jobs that ended in an error and are repeated.",
            stats.reconcile_errors,
        ),
        ("writes", "Requests that change something, events not included.", stats.writes),
        ("refused_writes", "Writes that the server refused for good.", stats.refused_writes),
        ("watch_restarts", "Watches that ended before their time.", stats.watch_restarts),
        ("undecodable", "Objects that could not be read.", stats.undecodable),
        ("events_posted", "Events posted.", stats.events_posted),
        ("events_dropped", "Events dropped: too many, or refused.", stats.events_dropped),
    ];
    for (name, help, value) in counters {
        page.number(&format!("trainyard_{name}_total"), "counter", help, value);
    }
    let gauges = [
        ("jobs", "Jobs known.", stats.jobs),
        ("jobs_queued", "Jobs that wait for a look.", stats.queued),
        ("jobs_running", "Jobs that are looked at now.", stats.running),
        ("request_limit", "Requests that may be under way at once.", stats.request_limit),
    ];
    for (name, help, value) in gauges {
        page.number(&format!("trainyard_{name}"), "gauge", help, value);
    }
}

/// What every program with metrics tells about itself, where the machine says so.
#[expect(clippy::cast_precision_loss, reason = "Prometheus knows no other numbers")]
fn process(page: &mut Page) {
    let resident = std::fs::read_to_string("/proc/self/status").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    if let Some(kib) = resident {
        let help = "Memory of this process.";
        page.family("process_resident_memory_bytes", "gauge", help, [(Vec::new(), (kib << 10) as f64)]);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        let help = "Files and connections that this process has open.";
        page.family("process_open_fds", "gauge", help, [(Vec::new(), open.count() as f64)]);
    }
    let ticks = std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| {
        // After the name, which may contain anything, come the state and ten fields more.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
        let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
        Some(user.saturating_add(system))
    });
    if let Some(ticks) = ticks {
        let seconds = ticks as f64 / TICKS;
        page.family("process_cpu_seconds_total", "counter", "Time on CPUs.", [(Vec::new(), seconds)]);
    }
}

struct Page(String);

impl Page {
    /// A family of one number.
    #[expect(clippy::cast_precision_loss, reason = "Prometheus knows no other numbers")]
    fn number(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help, [(Vec::new(), value as f64)]);
    }

    fn family<'a>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'static str, &'a str)>, f64)>,
    ) {
        let page = &mut self.0;
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.into_iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(page, "{name}{labels} {value}");
        }
    }
}

/// A label's value; namespaces need none of it, names of Leases are anybody's.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
