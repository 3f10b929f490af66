//! Everything a plan may look at.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::Resource;
use crate::extra::ExtraView;
use crate::job::JobView;
use crate::pod::PodView;

/// One look at the world. It may be incomplete and out of date: a plan made from it must be harmless even then.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The job.
    pub job: &'a JobView,
    /// Pods whose controller is this job (by UID), whatever their labels say.
    pub pods: &'a [PodView],
    /// Services whose controller is this job.
    pub services: &'a [ServiceView],
    /// Everything else whose controller is this job.
    pub extras: &'a [ExtraView],
    /// Ports of this machine, when replicas are addressed by host ports.
    pub ports: Option<&'a PortSpace>,
    /// Writes of ours that were refused and not yet granted since.
    pub failures: &'a [WriteFailure],
    /// The end of a log that the plan [asked for](crate::Plan::ask), once it was read.
    pub tail: Option<&'a Tail>,
    /// Which pods come first where not all find room.
    pub priorities: &'a Priorities,
    /// How this operator was started.
    pub options: &'a Options,
    /// Now.
    pub now: Timestamp,
}

/// A service of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceView {
    /// Its name.
    pub name: Box<str>,
    /// Its identity.
    pub uid: Box<str>,
    /// True once it is being deleted.
    pub deleting: bool,
}

/// The priorities of a cluster, by the names of their classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Priorities {
    classes: BTreeMap<String, i32>,
    /// Of pods that name none.
    default: Option<i32>,
}

impl Priorities {
    /// A class. Of several defaults the lowest counts, as at admission.
    pub fn add(&mut self, name: &str, value: i32, is_default: bool) {
        self.classes.insert(name.to_owned(), value);
        if is_default {
            self.default = Some(self.default.map_or(value, |other| other.min(value)));
        }
    }

    /// The priority of pods of a class; 0 if nobody knows it. An empty name is none.
    pub fn of(&self, class: &str) -> i32 {
        let value = if class.is_empty() { self.default } else { self.classes.get(class).copied() };
        value.unwrap_or_default()
    }
}

/// How replicas find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// By the name of a headless service each: on every cluster.
    #[default]
    Service,
    /// At 127.0.0.1, on ports from a block: where a Trainyard node publishes a port range.
    HostPorts,
}

/// What an operator was told at its start and what decisions depend on.
#[derive(Clone, Debug)]
pub struct Options {
    /// How replicas find each other.
    pub addressing: Addressing,
    /// Appended to service host names (`CUSTOM_CLUSTER_DOMAIN`).
    pub cluster_domain: Option<String>,
    /// Put the gang's size on pods, for a node that schedules gangs itself.
    pub gang_on_pods: bool,
    /// The gang scheduler that pods are handed to, if there is one.
    pub gang: Option<GangScheduler>,
    /// What is put beside the user's containers.
    pub helpers: Helpers,
    /// Keep pods until what became of them is written down.
    pub track_pods: bool,
    /// Seconds after which a pod that a lost node cannot end is deleted by force; 0 means never.
    pub lost_node_seconds: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addressing: Addressing::Service,
            cluster_domain: None,
            gang_on_pods: false,
            gang: None,
            helpers: Helpers::default(),
            track_pods: false,
            lost_node_seconds: 60,
        }
    }
}

/// A gang scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GangScheduler {
    /// Volcano.
    Volcano,
    /// One with the coscheduling plugin, by the name it has in `schedulerName`.
    Plugins(String),
}

impl GangScheduler {
    /// The scheduler that `--gang-scheduler-name` names.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "" => None,
            name if name.eq_ignore_ascii_case("volcano") => Some(Self::Volcano),
            name => Some(Self::Plugins(name.to_owned())),
        }
    }

    /// What it calls a gang.
    pub fn resource(&self) -> &'static Resource {
        match self {
            Self::Volcano => &Resource::VOLCANO_GANG,
            Self::Plugins(_) => &Resource::PLUGINS_GANG,
        }
    }

    /// Its name in `schedulerName`.
    pub fn name(&self) -> &str {
        match self {
            Self::Volcano => "volcano",
            Self::Plugins(name) => name,
        }
    }
}

/// Containers that are put beside the user's: who waits for a master, and who brings a launcher the means to reach its
/// workers. Both come from Trainyard's own image, unless somebody names another.
#[derive(Clone, Debug, PartialEq)]
pub struct Helpers {
    /// The image of Trainyard.
    pub image: String,
    /// Trainyard's program in it, or on this machine.
    pub program: String,
    /// An image that waits for a master instead: it has a shell and `nslookup`.
    pub wait_image: Option<String>,
    /// How often a master is looked for.
    pub wait_tries: u32,
    /// Init containers of the user's own that wait for a master, instead, with [`Helpers::VARIABLES`] by their words.
    pub wait_template: Option<Vec<Value>>,
    /// An image that delivers `kubectl` instead, by its own program.
    pub kubectl_image: Option<String>,
}

impl Helpers {
    /// What may stand in a template, and the word that stands for it once the template is read: the master's address, the
    /// image, the number of tries.
    pub const VARIABLES: [(&str, &str); 3] = [
        ("{{.MasterAddr}}", "TRAINYARD-MASTER-ADDRESS"),
        ("{{.InitContainerImage}}", "TRAINYARD-WAIT-IMAGE"),
        ("{{.MaxTries}}", "TRAINYARD-WAIT-TRIES"),
    ];
}

impl Default for Helpers {
    fn default() -> Self {
        Self {
            image: concat!("trainyard/trainyard:", env!("CARGO_PKG_VERSION")).into(),
            program: "trainyard".into(),
            wait_image: None,
            wait_tries: 100,
            wait_template: None,
            kubectl_image: None,
        }
    }
}

/// A run of host ports that belongs to one attempt of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortBlock {
    /// First port.
    pub base: u16,
    /// How many.
    pub size: u16,
}

impl PortBlock {
    /// Reads `first-last`; nothing if the text is no such thing.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let (base, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        let size = last.checked_sub(base)?.checked_add(1)?;
        Some(Self { base, size })
    }

    /// `first-last`.
    pub fn render(&self) -> String {
        let last = u32::from(self.base) + u32::from(self.size.saturating_sub(1));
        format!("{}-{last}", self.base)
    }

    /// True when the two share a port.
    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |b: &Self| u32::from(b.base) + u32::from(b.size);
        u32::from(self.base) < end(other) && u32::from(other.base) < end(self)
    }
}

/// The ports of this machine.
#[derive(Clone, Debug)]
pub struct PortSpace {
    /// First port that may be given out.
    pub first: u16,
    /// Last port that may be given out.
    pub last: u16,
    /// Blocks that other jobs hold, and blocks this job found taken.
    pub taken: Vec<PortBlock>,
}

/// Whose log is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The pod's name.
    pub pod: String,
    /// Its identity.
    pub uid: String,
    /// The container.
    pub container: String,
}

/// The end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The identity of the pod.
    pub uid: String,
    /// Its last lines; none if they cannot be had.
    pub lines: Vec<String>,
}

/// A write of ours that the API server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// What was to be written: a child, or a part of the job itself.
    pub what: &'static Resource,
    /// The object's name.
    pub name: String,
    /// HTTP status; 409 for a name that belongs to somebody else.
    pub code: u16,
    /// What the server said.
    pub message: String,
    /// When.
    pub at: Timestamp,
    /// How many times in a row.
    pub count: u32,
}

impl WriteFailure {
    /// Troubles of a server pass, as a rule: so many in a row are worth a word.
    const WORTH_A_WORD: u32 = 3;

    /// True when it is no trouble that will pass by itself: the server means it, or has had it for a while.
    pub fn is_lasting(&self) -> bool {
        self.code < 500 || self.count >= Self::WORTH_A_WORD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_its_value_and_pods_without_one_the_lowest_default() {
        let mut priorities = Priorities::default();
        assert_eq!((priorities.of("high"), priorities.of("")), (0, 0));
        priorities.add("high", 1000, false);
        priorities.add("low", -5, true);
        priorities.add("middle", 7, true);
        assert_eq!((priorities.of("high"), priorities.of("low"), priorities.of("")), (1000, -5, -5));
        assert_eq!(priorities.of("gone"), 0);
    }
}
