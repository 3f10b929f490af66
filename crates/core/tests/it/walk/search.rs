//! Every life of a small job in which only so many things go wrong, none left out.
//!
//! The states are those of the walk. What goes wrong is counted: a node that misbehaves, a user who edits, a cache that is
//! behind, a request that is slow, an operator that dies, a record that is lost, a server that refuses a write. All lives with no such fault come first,
//! then all with one, and so on; so what is found is found with the fewest faults, and by the shortest way.
//!
//! Plans that were made from a stale *job* are left out: the first write of such a plan is refused, whatever it is.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher};

use super::job::Job;
use super::moves::{Move, Step, Time, line};
use super::rules;
use super::state::{Refuses, State};

/// What a search found.
pub(super) struct Found {
    pub(super) states: usize,
    /// Moves on the longest way to a state.
    pub(super) depth: u32,
    /// The first violation, with the way to it.
    pub(super) wrong: Option<String>,
}

/// A state that was met, and how.
struct Met {
    step: Step,
    /// The one before, by number; a start is its own.
    before: u32,
    depth: u32,
}

/// Looks at all states that a job can come to with up to `faults` faults.
pub(super) fn search(job: &mut Job, faults: u8) -> Found {
    let mut search = Search::new(job);
    for _ in 0..=faults {
        if let Some(wrong) = search.layer(job) {
            return search.found(Some(wrong));
        }
    }
    search.found(None)
}

struct Search {
    met: Vec<Met>,
    known: HashMap<State, u32, Quick>,
    /// To be looked at with as many faults as now.
    queue: VecDeque<u32>,
    /// To be looked at with one more, and the hashes of those states: each is kept once.
    later: VecDeque<Later>,
    expected: HashSet<u64, Quick>,
    /// States from which all goes well if nothing goes wrong any more.
    good: Good,
}

type Good = HashSet<State, Quick>;
type Quick = BuildHasherDefault<Mixer>;

/// A hash of small fields that is several times as fast as the standard one, which nobody attacks here.
#[derive(Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_isize(&mut self, n: isize) {
        self.write_u64(u64::from_ne_bytes(i64::try_from(n).unwrap_or_default().to_ne_bytes()));
    }
}

/// A step after a fault, and where it began.
struct Later {
    step: Step,
    before: u32,
}

impl Search {
    fn new(job: &Job) -> Self {
        let state = State::start(job);
        let step = Step { what: Move::Suspend, fault: false, state };
        Self {
            met: vec![Met { step, before: 0, depth: 0 }],
            known: [(state, 0)].into_iter().collect(),
            queue: VecDeque::from([0]),
            later: VecDeque::new(),
            expected: HashSet::default(),
            good: Good::default(),
        }
    }

    fn found(&self, wrong: Option<String>) -> Found {
        let depth = self.met.iter().map(|met| met.depth).max().unwrap_or(0);
        Found { states: self.met.len(), depth, wrong }
    }

    /// Looks at everything that can be reached without one more fault.
    fn layer(&mut self, job: &mut Job) -> Option<String> {
        self.expected.clear();
        for Later { step, before } in std::mem::take(&mut self.later) {
            self.meet(step, before);
        }
        while let Some(number) = self.queue.pop_front() {
            let state = self.met[number as usize].step.state;
            let mut next = state.by_the_world(job);
            if !state.is_busy() {
                for time in [Time::Now, Time::Late] {
                    let looked = state.look(job, time);
                    if let Some(wrong) = looked.wrong.first() {
                        return Some(self.trace(job, number, &format!("{time} the operator looks: {wrong}")));
                    }
                    next.extend(&looked.next);
                    // What nobody waits for is the same later.
                    if !looked.waits {
                        break;
                    }
                }
            }
            if let Err(wrong) = heals(job, state, &mut self.good) {
                return Some(self.trace(job, number, &wrong));
            }
            for step in next {
                if self.known.contains_key(&step.state) {
                    continue;
                }
                if step.fault {
                    if self.expected.insert(Quick::default().hash_one(step.state)) {
                        self.later.push_back(Later { step, before: number });
                    }
                } else {
                    self.meet(step, number);
                }
            }
        }
        None
    }

    fn meet(&mut self, step: Step, before: u32) {
        let number = u32::try_from(self.met.len()).unwrap();
        if let Entry::Vacant(entry) = self.known.entry(step.state) {
            entry.insert(number);
            let depth = self.met[before as usize].depth + 1;
            self.met.push(Met { step, before, depth });
            self.queue.push_back(number);
        }
    }

    /// The way to a state, and what is wrong there.
    fn trace(&self, job: &Job, mut number: u32, wrong: &str) -> String {
        let mut steps = Vec::new();
        while number > 0 {
            let met = &self.met[number as usize];
            steps.push(line(job, &met.step));
            number = met.before;
        }
        let mut text = format!("{wrong}\n");
        for (i, step) in steps.iter().rev().enumerate() {
            writeln!(text, "  {:>3}. {step}", i + 1).unwrap();
        }
        text
    }
}

/// Looks of the operator within which it must come to rest.
const LOOKS: usize = 12;
/// Moments within which a job that is left alone must run or be over.
const MOMENTS: usize = 40;

/// Whether the job comes to rest, and then runs or is over, if nothing goes wrong from here on.
fn heals(job: &mut Job, state: State, good: &mut Good) -> Result<(), String> {
    let mut state = state.healed(job);
    let mut way = Vec::new();
    for _ in 0..MOMENTS {
        if good.contains(&state) {
            good.extend(way);
            return Ok(());
        }
        way.push(state);
        let rest = rests(job, state)?;
        if let Some(wrong) = rules::of_rest(&rest.state, job) {
            return Err(wrong);
        }
        if rest.state.is_well(job) {
            good.extend(way);
            return Ok(());
        }
        let mut next = rest.state;
        for place in 0..job.view.slots().count() {
            if let Some(pod) = next.replicas[place].pod {
                next.happens(job, place, pod.goes_on());
            }
        }
        if next == rest.state && rest.waits {
            next = rest.state.look(job, Time::Late).whole();
        }
        next.settle(job);
        if next == rest.state {
            return Err(format!("the job is stuck: [{}] {next:?}", job.shape(next.conditions)));
        }
        state = next;
    }
    Err(format!("the job neither runs nor ends: [{}] {state:?}", job.shape(state.conditions)))
}

/// Where the operator has nothing left to do.
struct Rest {
    state: State,
    waits: bool,
}

fn rests(job: &mut Job, mut state: State) -> Result<Rest, String> {
    for _ in 0..LOOKS {
        let looked = state.look(job, Time::Now);
        if let Some(wrong) = looked.wrong.first() {
            return Err(wrong.clone());
        }
        let next = looked.whole();
        if next == state && !looked.acts {
            return Ok(Rest { state, waits: looked.waits });
        }
        state = next;
    }
    Err(format!("the operator does not come to rest: [{}] {state:?}", job.shape(state.conditions)))
}

impl State {
    /// The same once all that was slow or behind is not, and the user wants the job as it was.
    fn healed(mut self, job: &Job) -> Self {
        for place in 0..job.view.slots().count() {
            self.arrive(job, place);
            self.replicas[place].cached = None;
        }
        (self.suspend, self.broken, self.scaled) = (false, false, false);
        self.refuses = Refuses::Nothing;
        self.settle(job);
        self
    }

    /// True when the job is over, or each of its replicas runs or has done its work.
    fn is_well(&self, job: &Job) -> bool {
        use super::pod::{Age, Asked, Life, Pod};
        let runs = |pod: Pod| (pod.life, pod.age, pod.asked) == (Life::Running, Age::Current, Asked::Never);
        let well = |place: usize| {
            let replica = &self.replicas[place];
            replica.worked || replica.pod.is_some_and(|pod| runs(pod) || pod.worked())
        };
        self.is_over(job) || (0..self.wanted(job)).all(well)
    }
}
