//! Whole lives through the scheduler: jobs come in any order, run, lose a replica, end; the control plane crashes while
//! it carries out a decision. What must hold at every moment is checked here, what must hold in the end by the caller.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::demand::{GPU, PODS};

/// Seconds between one look at the world and the next.
pub(super) const TICK: i64 = 7;

/// One job of a simulated life.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) pods: u32,
    pub(super) cpu_millis: u32,
    pub(super) gpus: u32,
    pub(super) port: Option<i32>,
    /// Without it, the job is one pod for itself.
    pub(super) gang: bool,
    pub(super) arrives: i64,
    /// Between one pod and the next.
    pub(super) spread: i64,
    pub(super) runs: i64,
    /// A replica fails in the middle and is replaced.
    pub(super) fails: bool,
    /// The control plane dies after carrying out so many of the decisions that start this job.
    pub(super) crash_after: Option<usize>,
}

pub(super) fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let sizes = (1_u32..5, 0_u32..3000, 0_u32..3, proptest::option::weighted(0.2, 1_i32..3));
    let times = (0_i64..300, 0_i64..30, 1_i64..400);
    let luck = (any::<bool>(), proptest::bool::weighted(0.3), proptest::option::weighted(0.2, 0_usize..3));
    let job =
        (sizes, times, luck).prop_map(|((pods, cpu_millis, gpus, port), (arrives, spread, runs), luck)| {
            let (gang, fails, crash_after) = luck;
            let pods = if gang { pods } else { 1 };
            Job { pods, cpu_millis, gpus, port, gang, arrives, spread, runs, fails, crash_after }
        });
    proptest::collection::vec(job, 1..10)
}

/// One large gang in a stream of small jobs that never leaves the machine empty by itself.
pub(super) fn stream() -> impl Strategy<Value = Vec<Job>> {
    let small = proptest::collection::vec((1_i64..100, 500_u32..2000), 120);
    (0_i64..30, small).prop_map(|(arrives, small)| {
        let job = |pods, cpu_millis, arrives, runs| Job {
            pods,
            cpu_millis,
            gpus: 0,
            port: None,
            gang: pods > 1,
            arrives,
            spread: 0,
            runs,
            fails: false,
            crash_after: None,
        };
        let mut jobs = vec![job(4, 1000, arrives, 10)];
        jobs.extend((0..).zip(small).map(|(n, (runs, cpu))| job(1, cpu, n * 10, runs)));
        jobs
    })
}

pub(super) fn machines() -> impl Strategy<Value = Inventory> {
    (1_u64..8, 0_u32..5, 1_u32..12).prop_map(|(cpus, gpus, pods)| {
        Inventory::new("here", cpus * 1000, 1 << 30).with_fake_gpus(gpus).with_pods(pods)
    })
}

impl Job {
    pub(super) fn pod(&self, number: usize, index: u32) -> Waiting {
        let mut demand = Demand::default();
        demand.set("cpu", self.cpu_millis.into());
        demand.set(GPU, i128::from(self.gpus) * 1000);
        demand.set(PODS, 1000);
        let name = format!("job{number}-{index}");
        let port = self.port.filter(|_| index == 0);
        let port = port.map(|port| HostPort { port, protocol: "TCP".into(), ip: String::new() });
        let created = self.arrives + i64::from(index) * self.spread;
        Waiting {
            key: PodKey { namespace: "default".into(), uid: name.clone(), name },
            created_at: Timestamp::from_second(created).unwrap(),
            demand,
            host_ports: port.into_iter().collect(),
            gang: self.gang.then(|| Gang { id: format!("job{number}"), size: self.pods }),
            problem: None,
        }
    }

    fn all(&self, number: usize) -> Vec<Waiting> {
        (0..self.pods).map(|index| self.pod(number, index)).collect()
    }

    /// Whether the machine could ever run it.
    fn feasible(&self, number: usize, inventory: &Inventory) -> bool {
        let pods = self.all(number);
        let pods: Vec<&Waiting> = pods.iter().collect();
        Room::new(inventory, &[]).choose(&pods, pods.len()).is_some()
    }
}

/// What the simulated world looks like.
pub(super) struct Life<'a> {
    inventory: &'a Inventory,
    jobs: &'a [Job],
    waiting: Vec<Waiting>,
    placed: Vec<Placed>,
    /// The jobs that have all their pods running, and since when.
    whole_since: BTreeMap<usize, i64>,
    /// When each job was whole for the first time.
    pub(super) began: BTreeMap<usize, i64>,
    failed: BTreeSet<usize>,
    crashed: BTreeSet<usize>,
    crashed_now: bool,
    pub(super) done: BTreeSet<usize>,
    pub(super) hopeless: BTreeSet<String>,
}

/// Lives through all jobs, and gives back the world at the end.
pub(super) fn live<'a>(jobs: &'a [Job], inventory: &'a Inventory) -> Result<Life<'a>, TestCaseError> {
    let mut life = Life {
        inventory,
        jobs,
        waiting: Vec::new(),
        placed: Vec::new(),
        whole_since: BTreeMap::new(),
        began: BTreeMap::new(),
        failed: BTreeSet::new(),
        crashed: BTreeSet::new(),
        crashed_now: false,
        done: BTreeSet::new(),
        hopeless: BTreeSet::new(),
    };
    let arrivals = jobs.iter().enumerate().flat_map(|(number, job)| job.all(number));
    let mut arrivals: Vec<Waiting> = arrivals.collect();
    arrivals.sort_by_key(|pod| pod.created_at);
    // Every job ends at most its own run time after the one before it has; twice that for those that fail.
    let horizon = 1000 + 2 * jobs.iter().map(|job| job.runs + 120).sum::<i64>();
    let mut now = 0;
    while now < horizon && !(arrivals.is_empty() && life.is_over()) {
        let here = arrivals.iter().take_while(|pod| pod.created_at.as_second() <= now).count();
        life.waiting.extend(arrivals.drain(..here));
        let ended = life.end_what_is_over(now);
        // Time alone starts nothing, so a node decides only when something has happened.
        if here > 0 || ended || life.crashed_now {
            life.decide(now)?;
        }
        now += TICK;
    }
    Ok(life)
}

impl Life<'_> {
    fn is_over(&self) -> bool {
        self.placed.is_empty() && self.waiting.iter().all(|pod| self.hopeless.contains(&pod.key.uid))
    }

    pub(super) fn must_be_done(&self) -> impl Iterator<Item = usize> {
        let jobs = self.jobs.iter().enumerate();
        jobs.filter(|(number, job)| job.feasible(*number, self.inventory)).map(|(number, _)| number)
    }

    fn end_what_is_over(&mut self, now: i64) -> bool {
        let mut any = false;
        for (number, job) in self.jobs.iter().enumerate() {
            let prefix = format!("job{number}-");
            let of_job = |key: &PodKey| key.name.starts_with(&prefix);
            let running = self.placed.iter().filter(|pod| of_job(&pod.key)).count();
            if running == job.pods as usize {
                self.whole_since.entry(number).or_insert(now);
                self.began.entry(number).or_insert(now);
            }
            let Some(since) = self.whole_since.get(&number).copied() else {
                continue;
            };
            if now - since >= job.runs {
                self.placed.retain(|pod| !of_job(&pod.key));
                self.whole_since.remove(&number);
                self.done.insert(number);
                any = true;
            } else if job.fails && now - since >= job.runs / 2 && self.failed.insert(number) {
                self.whole_since.remove(&number);
                self.replace(number, job);
                any = true;
            }
        }
        any
    }

    fn replace(&mut self, number: usize, job: &Job) {
        let mut pod = job.pod(number, 0);
        self.placed.retain(|placed| placed.key != pod.key);
        pod.gang = pod.gang.map(|gang| Gang { size: 0, ..gang });
        pod.key.uid.push_str("-again");
        self.waiting.push(pod);
    }

    fn decide(&mut self, now: i64) -> Result<(), TestCaseError> {
        let now = Timestamp::from_second(now).unwrap();
        let decisions = schedule(&self.waiting, &self.placed, self.inventory, now);
        let turned: Vec<Waiting> = self.waiting.iter().rev().cloned().collect();
        let turned_placed: Vec<Placed> = self.placed.iter().rev().cloned().collect();
        let again = schedule(&turned, &turned_placed, self.inventory, now);
        prop_assert_eq!(places(&decisions), places(&again), "the order of lists decides");
        self.each_pod_once(&decisions)?;
        self.gangs_whole_or_not_at_all(&decisions)?;
        self.carry_out(decisions);
        self.nothing_twice()
    }

    fn each_pod_once(&self, decisions: &[Decision]) -> Result<(), TestCaseError> {
        let mut asked: Vec<&PodKey> = self.waiting.iter().map(|pod| &pod.key).collect();
        let mut told: Vec<&PodKey> = decisions.iter().map(Decision::pod).collect();
        asked.sort();
        told.sort();
        prop_assert_eq!(asked, told);
        Ok(())
    }

    fn gangs_whole_or_not_at_all(&self, decisions: &[Decision]) -> Result<(), TestCaseError> {
        let begun: BTreeSet<&str> =
            self.placed.iter().filter_map(|pod| Some(pod.gang.as_ref()?.id.as_str())).collect();
        let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for pod in &self.waiting {
            let Some(gang) = pod.gang.as_ref().filter(|gang| !begun.contains(gang.id.as_str())) else {
                continue;
            };
            let starts =
                decisions.iter().any(|d| matches!(d, Decision::Place { pod: key, .. } if *key == pod.key));
            let count = counts.entry(&gang.id).or_insert((0, 0));
            count.0 = count.0.max(gang.size);
            count.1 += u32::from(starts);
        }
        for (gang, (size, starts)) in counts {
            prop_assert!(starts == 0 || starts >= size, "{gang}: {starts} of {size} start");
        }
        Ok(())
    }

    fn carry_out(&mut self, decisions: Vec<Decision>) {
        let mut carried: BTreeMap<usize, usize> = BTreeMap::new();
        self.crashed_now = false;
        for decision in decisions {
            let (key, gpus) = match decision {
                Decision::Place { pod, gpus } => (pod, gpus),
                Decision::Wait { pod, never, .. } => {
                    if never {
                        self.hopeless.insert(pod.uid);
                    }
                    continue;
                }
            };
            let number: usize =
                key.name.trim_start_matches("job").split('-').next().unwrap().parse().unwrap();
            let count = carried.entry(number).or_default();
            let crash = self.jobs[number].crash_after.filter(|_| !self.crashed.contains(&number));
            if crash.is_some_and(|after| *count >= after) {
                self.crashed.insert(number);
                self.crashed_now = true;
                return;
            }
            *count += 1;
            let at = self.waiting.iter().position(|pod| pod.key == key).unwrap();
            let Waiting { key, demand, host_ports, gang, .. } = self.waiting.remove(at);
            self.placed.push(Placed { key, demand, host_ports, gang, gpus });
        }
    }

    fn nothing_twice(&self) -> Result<(), TestCaseError> {
        let mut used = Demand::default();
        let (mut gpus, mut ports) = (BTreeSet::new(), BTreeSet::new());
        for pod in &self.placed {
            used.add(&pod.demand);
            prop_assert_eq!(pod.gpus.len(), pod.demand.gpus());
            for id in &pod.gpus {
                prop_assert!(gpus.insert(id), "{id} is given twice");
                prop_assert!(self.inventory.gpus.iter().any(|gpu| gpu.id == *id));
            }
            for port in &pod.host_ports {
                prop_assert!(ports.insert(port.port), "port {} is given twice", port.port);
            }
        }
        for (resource, millis) in used.iter() {
            prop_assert!(Some(millis) <= self.inventory.millis(resource), "{resource}: {millis}");
        }
        Ok(())
    }
}

fn places(decisions: &[Decision]) -> Vec<&Decision> {
    decisions.iter().filter(|decision| matches!(decision, Decision::Place { .. })).collect()
}
