//! What happens to a job and its pods, one line per step: `run all`, `fail worker-0 exit 137; run worker-1`.

use serde_json::Value;

/// A step: what is done at once, before anybody looks.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) line: String,
    pub(crate) actions: Vec<Action>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Nothing happens: the job as it was created.
    Look,
    /// A change of pods, by their names without the job's; `all` are all that have not ended.
    Pods(Vec<String>, Change),
    /// A merge patch of the job.
    Patch(Value),
    /// The scale subresource.
    Scale(u32),
    /// A service vanishes.
    DropService(String),
    /// A scheduler puts the job's PodGroup into this phase.
    Group(String),
    /// Waits until the job is deleted.
    Gone,
}

/// What a kubelet, or somebody at the keyboard, does to a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// It is bound to the node and runs.
    Run,
    Succeed,
    /// With an exit code, and a reason.
    Fail(i32, String),
    /// As a kubelet ends a pod for want of a resource: no container says a word.
    Evict,
    /// Containers were restarted in place so many times.
    Restart(u32),
    /// So they were, and now they wait to be restarted again.
    Crash(u32),
    /// The containers wait, for a reason.
    Wait(String),
    /// Nobody has room for it.
    Unschedulable,
    /// Somebody deletes it, and its node takes its time.
    Delete,
    /// The node is done with a pod that was deleted so.
    Finish,
}

impl Step {
    pub(crate) fn parse(line: &str) -> Self {
        let actions = line.split("; ").map(|text| action(text.trim())).collect();
        Self { line: line.to_owned(), actions }
    }
}

fn action(text: &str) -> Action {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    match verb {
        "look" => Action::Look,
        "patch" => Action::Patch(serde_saphyr::from_str(rest).expect(text)),
        "scale" => Action::Scale(rest.parse().expect(text)),
        "drop-service" => Action::DropService(rest.to_owned()),
        "group" => Action::Group(rest.to_owned()),
        "gone" => Action::Gone,
        _ => pods(verb, rest, text),
    }
}

/// `fail worker-0 worker-1 exit 137 OOMKilled`: names, then what the verb needs.
fn pods(verb: &str, rest: &str, text: &str) -> Action {
    let keyword = match verb {
        "fail" => "exit",
        "restart" | "crash" => "times",
        "wait" => "reason",
        _ => "",
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let end = words.iter().position(|word| *word == keyword).unwrap_or(words.len());
    let given = |n: usize| words.get(end + n).copied();
    let number = || given(1).and_then(|word| word.parse().ok()).expect(text);
    let change = match verb {
        "run" => Change::Run,
        "succeed" => Change::Succeed,
        "fail" => Change::Fail(number(), given(2).unwrap_or("Error").to_owned()),
        "evict" => Change::Evict,
        "restart" => Change::Restart(u32::try_from(number()).expect(text)),
        "crash" => Change::Crash(u32::try_from(number()).expect(text)),
        "wait" => Change::Wait(given(1).expect(text).to_owned()),
        "unschedulable" => Change::Unschedulable,
        "delete" => Change::Delete,
        "finish" => Change::Finish,
        _ => panic!("{text}: no such step"),
    };
    Action::Pods(words[..end].iter().map(|word| (*word).to_owned()).collect(), change)
}

#[test]
fn a_line_says_what_happens() {
    let step = Step::parse("fail worker-0 worker-1 exit 137 OOMKilled; run all");
    let workers = vec!["worker-0".to_owned(), "worker-1".to_owned()];
    let fails = Action::Pods(workers, Change::Fail(137, "OOMKilled".to_owned()));
    assert_eq!(step.actions, [fails, Action::Pods(vec!["all".to_owned()], Change::Run)]);
    let patch = Step::parse("patch {spec: {runPolicy: {suspend: true}}}");
    assert_eq!(
        patch.actions,
        [Action::Patch(serde_json::json!({ "spec": { "runPolicy": { "suspend": true } } }))]
    );
    assert_eq!(Step::parse("scale 3").actions, [Action::Scale(3)]);
}
