//! One container on a node: started, ended, started again with growing pauses.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::script::{End, Exit, Policy};

/// Until the kubelet notices that a container ended and acts.
const NOTICE: SignedDuration = SignedDuration::from_secs(1);
/// Pause before the second restart; it doubles with each further one.
const FIRST_PAUSE: i64 = 10;
/// No restart waits longer.
const LONGEST_PAUSE: i64 = 300;
/// A container that ran this long is forgiven its earlier ends.
const FORGIVEN: SignedDuration = SignedDuration::from_secs(600);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) reason: &'static str,
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting(&'static str),
    Running(Timestamp),
    Ended(Ended),
}

/// What a container did when its time came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Started,
    Ended(i32),
    Paused,
}

#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) restarts: u32,
    end: End,
    last: Option<Ended>,
    /// Ends in a row, for the length of the pause.
    ends: u32,
    /// When something happens next.
    pub(crate) due: Option<Timestamp>,
}

impl Container {
    pub(crate) fn new(name: &str, end: End) -> Self {
        let state = State::Waiting("ContainerCreating");
        Self { name: name.to_owned(), state, restarts: 0, end, last: None, ends: 0, due: None }
    }

    pub(crate) fn start(&mut self, now: Timestamp) {
        let exit = self.exit();
        self.state = State::Running(now);
        self.due = exit.and_then(|exit| after(now, exit.after));
    }

    fn exit(&self) -> Option<Exit> {
        match &self.end {
            End::Exits(exits) => {
                let at = usize::try_from(self.restarts).unwrap_or(usize::MAX);
                exits.get(at).or(exits.last()).copied()
            }
            End::OutOfMemory(after) => Some(Exit { after: *after, code: 137 }),
            End::Never | End::Refused(_) | End::Evicted(_) | End::NodeLost(_) => None,
        }
    }

    /// Does what is due at `now`.
    pub(crate) fn tick(&mut self, policy: Policy, now: Timestamp) -> Option<Did> {
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.due = None;
        match self.state {
            State::Running(_) => {
                let code = self.exit().map_or(0, |exit| exit.code);
                self.finish(code, now);
                if policy.restarts(code) {
                    self.due = now.checked_add(NOTICE).ok();
                }
                Some(Did::Ended(code))
            }
            State::Ended(ended) => Some(self.again(ended, now)),
            State::Waiting(_) => Some(self.restart(now)),
        }
    }

    /// Ends a run, whoever wants it.
    pub(crate) fn finish(&mut self, code: i32, now: Timestamp) {
        if let State::Running(from) = self.state {
            let out_of_memory = matches!(self.end, End::OutOfMemory(_)) && code == 137;
            let reason = match code {
                0 => "Completed",
                _ if out_of_memory => "OOMKilled",
                _ => "Error",
            };
            self.ends = if now.duration_since(from) >= FORGIVEN { 1 } else { self.ends + 1 };
            self.state = State::Ended(Ended { code, reason, from, until: now });
        }
        self.due = None;
    }

    fn again(&mut self, ended: Ended, now: Timestamp) -> Did {
        let Some(doublings) = self.ends.checked_sub(2) else {
            return self.restart(now);
        };
        let pause = (FIRST_PAUSE << doublings.min(16)).min(LONGEST_PAUSE);
        self.last = Some(ended);
        self.state = State::Waiting("CrashLoopBackOff");
        self.due = ended.until.checked_add(SignedDuration::from_secs(pause)).ok();
        Did::Paused
    }

    fn restart(&mut self, now: Timestamp) -> Did {
        if let State::Ended(ended) = self.state {
            self.last = Some(ended);
        }
        self.restarts += 1;
        self.start(now);
        Did::Started
    }

    /// What the API is told of it, by a clock that is ahead by `skew`.
    pub(crate) fn status(&self, skew: SignedDuration) -> Value {
        let running = matches!(self.state, State::Running(_));
        let terminated = |ended: Ended| json!({ "terminated": terminated(&ended, skew) });
        let state = match self.state {
            State::Waiting(reason) => json!({ "waiting": waiting(reason) }),
            State::Running(since) => json!({ "running": { "startedAt": stamp(since, skew) } }),
            State::Ended(ended) => terminated(ended),
        };
        let last = self.last.map_or_else(|| json!({}), terminated);
        json!({
            "name": self.name,
            "image": "none",
            "imageID": "",
            "ready": running,
            "started": running,
            "restartCount": self.restarts,
            "state": state,
            "lastState": last,
        })
    }
}

/// A pause has a message, as a real one does: the operator shows it.
fn waiting(reason: &str) -> Value {
    match reason {
        "CrashLoopBackOff" => json!({ "reason": reason, "message": "back-off restarting failed container" }),
        _ => json!({ "reason": reason }),
    }
}

fn terminated(ended: &Ended, skew: SignedDuration) -> Value {
    json!({
        "exitCode": ended.code,
        "reason": ended.reason,
        "startedAt": stamp(ended.from, skew),
        "finishedAt": stamp(ended.until, skew),
    })
}

/// A time as a clock has it that is ahead by `skew`. Times in objects are whole seconds.
pub(crate) fn stamp(time: Timestamp, skew: SignedDuration) -> String {
    let time = time.checked_add(skew).unwrap_or(time);
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// `time + wait`, or nothing when that never comes.
pub(crate) fn after(time: Timestamp, wait: Duration) -> Option<Timestamp> {
    SignedDuration::try_from(wait).ok().and_then(|wait| time.checked_add(wait).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn pauses_double_and_the_first_restart_has_none() {
        let exits = End::Exits(vec![Exit { after: Duration::ZERO, code: 1 }]);
        let mut container = Container::new("a", exits);
        container.start(at(0));
        let mut starts = vec![0];
        while starts.len() < 8 {
            let due = container.due.unwrap();
            if container.tick(Policy::OnFailure, due) == Some(Did::Started) {
                starts.push(due.as_second());
            }
        }
        let gaps: Vec<i64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps, [1, 10, 20, 40, 80, 160, 300]);
        assert_eq!(container.restarts, 7);
    }

    #[test]
    fn a_container_that_ended_well_is_restarted_only_by_always() {
        let exits = End::Exits(vec![Exit { after: Duration::ZERO, code: 0 }]);
        for (policy, restarts) in [(Policy::Always, true), (Policy::OnFailure, false), (Policy::Never, false)]
        {
            let mut container = Container::new("a", exits.clone());
            container.start(at(0));
            assert_eq!(container.tick(policy, at(0)), Some(Did::Ended(0)));
            assert_eq!(container.due.is_some(), restarts, "{policy:?}");
        }
    }
}
