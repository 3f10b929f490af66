//! What does not change on a walk: the job's spec, and how the engine is asked about it.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trainyard_api::{Condition, JobStatus, RestartPolicy, labels};
use trainyard_core::conditions::types;
use trainyard_core::framework::decider;
use trainyard_core::invalid::plan_broken;
use trainyard_core::*;

/// What does not change on a walk.
pub(super) struct Job {
    /// As it is in the walk's eyes: attempt 1, with each replica replaced once. That is as good as any, since only
    /// differences matter.
    pub(super) view: JobView,
    /// The same with one worker less, if the walk scales.
    pub(super) smaller: Option<JobView>,
    /// The object, without status and record.
    pub(super) manifest: Value,
    pub(super) framework: &'static dyn Framework,
    extras: Vec<ExtraView>,
    options: Options,
    /// Lists of conditions, by number.
    lists: Vec<Vec<Condition>>,
    pub(super) detail: Detail,
    /// Which replicas decide about the job.
    pub(super) deciding: Vec<usize>,
}

/// How much of the world a walk looks at: the more replicas there are, the more states each thing makes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Detail {
    /// Restarts that the job may use; the kubelet's are counted up to one more.
    pub(super) limit: Option<u8>,
    /// Nodes that refuse pods or do not answer, pods that Kubernetes itself ends, and a deadline.
    pub(super) trouble: bool,
    /// The user suspends and resumes the job.
    pub(super) suspends: bool,
    /// The user makes the spec invalid, and valid again.
    pub(super) edits: bool,
    /// Everything misbehaves, though only a few times in a life.
    pub(super) search: bool,
    /// All replicas restart together.
    pub(super) as_one: bool,
    /// What is deleted at the end.
    pub(super) clean: Option<&'static str>,
}

impl Detail {
    /// Restarts beyond this many make no difference.
    pub(super) fn most_restarts(self) -> u8 {
        self.limit.map_or(0, |limit| limit + 1)
    }
}

/// The numbers of a job that was restarted before.
pub(super) const USED: (u32, u32) = (1, 1);

impl Job {
    /// A job of that shape, if it is one that may run.
    pub(super) fn new(
        kind: &'static Kind,
        shape: &[(&str, u32)],
        restart: &str,
        detail: Detail,
    ) -> Option<Self> {
        let manifest = manifest(kind, shape, restart, detail)?;
        let (mut view, framework) = read(kind, &manifest)?;
        let decider = decider(framework.facts(), &view)?.to_owned();
        let deciding = view.slots().enumerate().filter(|(_, slot)| slot.role.name == decider);
        let mut deciding: Vec<usize> = deciding.map(|(place, _)| place).collect();
        if framework.facts().name == "tensorflow" {
            // Without a chief worker 0 decides.
            deciding.truncate(1);
        }
        let all = view.clone();
        show_numbers(&mut view, &all, USED);
        let options = Options::default();
        let around = Around { job: &view, running: &[], options: &options };
        let extras = framework.extras(around).iter().map(ExtraView::granted).collect();
        let smaller = detail.search.then(|| fewer_workers(kind, shape, restart, detail)).flatten();
        let lists = vec![Vec::new()];
        Some(Self { view, smaller, manifest, framework, extras, options, lists, detail, deciding })
    }

    /// True when the end of this replica's program is followed by another run of it, whatever the end was.
    pub(super) fn runs_for_ever(&self, place: usize) -> bool {
        self.detail.as_one && self.restart(place) == RestartPolicy::Always
    }

    pub(super) fn restart(&self, place: usize) -> RestartPolicy {
        self.view.slots().nth(place).map(|slot| slot.role.restart).unwrap()
    }

    /// How a list of conditions reads: `Created Running=False Succeeded`. Whether the spec can be read is no place
    /// in a job's life, and left out.
    pub(super) fn shape(&self, number: u16) -> String {
        let name = |c: &Condition| {
            if c.status == "True" { c.type_.clone() } else { format!("{}=False", c.type_) }
        };
        let life = self.list(number).iter().filter(|c| c.type_ != types::INVALID_SPEC);
        life.map(name).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn list(&self, number: u16) -> &[Condition] {
        &self.lists[usize::from(number)]
    }

    /// The number of a list of conditions. Messages and times are no part of it: nothing is decided by them.
    pub(super) fn number(&mut self, list: &[Condition]) -> u16 {
        let same = |a: &Condition, b: &Condition| {
            (&a.type_, &a.status, &a.reason) == (&b.type_, &b.status, &b.reason)
        };
        let equal = |known: &Vec<Condition>| {
            known.len() == list.len() && known.iter().zip(list).all(|(a, b)| same(a, b))
        };
        let number = self.lists.iter().position(equal).unwrap_or_else(|| {
            self.lists.push(list.to_vec());
            self.lists.len() - 1
        });
        u16::try_from(number).unwrap()
    }

    pub(super) fn plan(
        &self,
        job: &JobView,
        pods: &[PodView],
        failures: &[WriteFailure],
        broken: bool,
        now: Timestamp,
    ) -> Plan {
        let seen = Seen {
            job,
            pods,
            services: &[],
            extras: &self.extras,
            ports: None,
            failures,
            tail: None,
            priorities: &Priorities::default(),
            options: &self.options,
            now,
        };
        if broken {
            let error = FieldError::required("spec.x", "must be there");
            return plan_broken(self.framework, &seen, &[error]);
        }
        plan(self.framework, &seen)
    }

    /// The job as it is read from an object with this record, which another object of the same name left behind, and with
    /// this status.
    pub(super) fn with_record_of_another(&self, record: &Record, status: &JobStatus) -> JobView {
        let mut object = self.manifest.clone();
        object["metadata"]["uid"] = "copy".into();
        object["metadata"]["annotations"][labels::RECORD] = record.render().into();
        object["status"] = serde_json::to_value(status).unwrap();
        let (mut job, _) = read(self.view.kind, &object).unwrap();
        job.uid.clone_from(&self.view.uid);
        job
    }
}

/// Says in the record of a job that it is in this attempt, and that each replica was replaced so often: those of `all`, some
/// of which it may not ask for any more.
pub(super) fn show_numbers(job: &mut JobView, all: &JobView, base: (u32, u32)) {
    job.has_record = true;
    job.record = Record { attempt: base.0, ..Record::blank(&job.uid) };
    for slot in all.slots() {
        job.record.raise(&slot.role.name, slot.index, base.1);
    }
}

fn read(kind: &'static Kind, object: &Value) -> Option<(JobView, &'static dyn Framework)> {
    let Decoded { job, framework, errors } =
        decode(&Catalog::default(), kind, object).unwrap_or_else(|bad| panic!("{}", bad.error));
    errors.is_empty().then_some((job, framework))
}

fn manifest(kind: &Kind, shape: &[(&str, u32)], restart: &str, detail: Detail) -> Option<Value> {
    let container = Catalog::default().framework(kind.framework)?.facts().container;
    let template = json!({ "spec": { "containers": [{ "name": container, "image": "i" }] } });
    let specs: Map<String, Value> = shape
        .iter()
        .map(|(role, n)| {
            ((*role).into(), json!({ "replicas": n, "restartPolicy": restart, "template": template }))
        })
        .collect();
    let policy = json!({
        "activeDeadlineSeconds": detail.trouble.then_some(50),
        "backoffLimit": detail.limit,
        "cleanPodPolicy": detail.clean,
    });
    let scope = if detail.as_one { "job" } else { "replica" };
    let annotations = json!({ labels::RESTART_SCOPE: scope });
    let metadata = json!({
        "name": "j", "namespace": "n", "uid": "u", "resourceVersion": "1", "annotations": annotations,
    });
    Some(json!({ "metadata": metadata, "spec": { "runPolicy": policy, kind.replica_specs: specs } }))
}

/// The job with one worker less, if it is valid then and has the same replica types.
fn fewer_workers(
    kind: &'static Kind,
    shape: &[(&str, u32)],
    restart: &str,
    detail: Detail,
) -> Option<JobView> {
    let (last, others) = shape.split_last().filter(|(last, _)| last.1 > 1)?;
    let fewer: Vec<_> = others.iter().copied().chain([(last.0, last.1 - 1)]).collect();
    read(kind, &manifest(kind, &fewer, restart, detail)?).map(|(view, _)| view)
}
