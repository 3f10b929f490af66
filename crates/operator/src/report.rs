//! What is told about the effects of a plan: one notice per reason and batch, not one per object.

use trainyard_api::labels;
use trainyard_api::reasons::event;
use trainyard_core::{Notice, Resource};

use crate::execute::{Did, Effect, Trouble, Verb};
use crate::status::Part;

/// Names in one message.
const NAMES: usize = 20;

/// The reasons for one verb and one resource, and how the sentence begins.
struct Wording {
    verb: Verb,
    kind: &'static str,
    done: &'static str,
    failed: &'static str,
    /// "Created pod", "Created pods".
    phrase: (&'static str, &'static str),
    error: &'static str,
}

const WORDINGS: &[Wording] = &[
    Wording {
        verb: Verb::Create,
        kind: Resource::POD.kind,
        done: event::CREATED_POD,
        failed: event::FAILED_CREATE_POD,
        phrase: ("Created pod", "Created pods"),
        error: "Error creating",
    },
    Wording {
        verb: Verb::Create,
        kind: Resource::SERVICE.kind,
        done: event::CREATED_SERVICE,
        failed: event::FAILED_CREATE_SERVICE,
        phrase: ("Created service", "Created services"),
        error: "Error creating",
    },
    Wording {
        verb: Verb::Delete,
        kind: Resource::POD.kind,
        done: event::DELETED_POD,
        failed: event::FAILED_DELETE_POD,
        phrase: ("Deleted pod", "Deleted pods"),
        error: "Error deleting",
    },
    Wording {
        verb: Verb::Delete,
        kind: Resource::SERVICE.kind,
        done: event::DELETED_SERVICE,
        failed: event::FAILED_DELETE_SERVICE,
        phrase: ("Deleted service", "Deleted services"),
        error: "Error deleting",
    },
];

/// The notices about what was done now. A trouble that passes is no news to the user: it is tried again.
pub(crate) fn notices(effects: &[Effect]) -> Vec<Notice> {
    let children = WORDINGS.iter().flat_map(|wording| {
        let of_it: Vec<&Effect> =
            effects.iter().filter(|e| e.verb == wording.verb && e.kind == wording.kind).collect();
        [done(wording, &of_it), failed(wording, &of_it)]
    });
    let others = effects.iter().filter_map(|effect| about_extra(effect).or_else(|| about_job(effect)));
    children.flatten().chain(others).chain(effects.iter().filter_map(taken)).collect()
}

fn done(wording: &Wording, effects: &[&Effect]) -> Option<Notice> {
    let names: Vec<&str> =
        effects.iter().filter(|e| e.result == Ok(Did::Now)).map(|e| e.name.as_str()).collect();
    let (one, many) = wording.phrase;
    let message = match names.as_slice() {
        [] => return None,
        [name] => format!("{one}: {name}"),
        names => format!("{many}: {}", list(names)),
    };
    Some(Notice::normal(wording.done, message))
}

fn failed(wording: &Wording, effects: &[&Effect]) -> Option<Notice> {
    let messages: Vec<&str> = effects.iter().filter_map(|effect| refusal(effect)).collect();
    let (first, more) = messages.split_first()?;
    let rest = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
    Some(Notice::warning(wording.failed, format!("{}: {first}{rest}", wording.error)))
}

/// Of everything else only trouble is told, and the end of a gang.
fn about_extra(effect: &Effect) -> Option<Notice> {
    let wanted = [Resource::POD.kind, Resource::SERVICE.kind];
    if wanted.contains(&effect.kind) || effect.verb == Verb::DeleteJob {
        return None;
    }
    let (kind, name) = (effect.kind, &effect.name);
    match (effect.verb, refusal(effect)) {
        (Verb::Create, Some(_)) if matches!(effect.result, Err(Trouble::Taken(_))) => None,
        (Verb::Create | Verb::Amend, Some(why)) => {
            Some(Notice::warning(format!("FailedCreate{kind}"), format!("Error creating: {why}")))
        }
        (Verb::Delete, Some(why)) => {
            Some(Notice::warning(format!("FailedDelete{kind}"), format!("Error deleting: {why}")))
        }
        (Verb::Delete, None) if effect.result == Ok(Did::Now) && kind == Resource::VOLCANO_GANG.kind => {
            Some(Notice::normal(event::DELETED_GANG, format!("Deleted PodGroup: {name}")))
        }
        _ => None,
    }
}

/// An account that is there already will do; anything else of that name stands in the way.
fn taken(effect: &Effect) -> Option<Notice> {
    match &effect.result {
        Err(Trouble::Taken(why)) if effect.kind != Resource::SERVICE_ACCOUNT.kind => {
            Some(Notice::warning(event::RESOURCE_EXISTS, why.as_str()))
        }
        _ => None,
    }
}

fn about_job(effect: &Effect) -> Option<Notice> {
    if effect.verb != Verb::DeleteJob {
        return None;
    }
    match refusal(effect) {
        Some(message) => {
            Some(Notice::warning(event::FAILED_DELETE_JOB, format!("Error deleting: {message}")))
        }
        None if effect.result == Ok(Did::Now) => {
            Some(Notice::normal(event::DELETED_JOB, format!("Deleted job: {}", effect.name)))
        }
        None => None,
    }
}

fn refusal(effect: &Effect) -> Option<&str> {
    match &effect.result {
        Err(Trouble::Refused(message) | Trouble::Taken(message) | Trouble::Lasting(message)) => Some(message),
        Err(Trouble::Passing(_)) | Ok(_) => None,
    }
}

/// A part of the job itself could not be written.
pub(crate) fn not_written(part: Part, why: &str) -> Notice {
    match part {
        Part::Record => Notice::warning(
            event::FAILED_UPDATE_RECORD,
            format!("Error writing annotation {}: {why}", labels::RECORD),
        ),
        Part::Status => {
            Notice::warning(event::FAILED_UPDATE_STATUS, format!("Error writing the status: {why}"))
        }
    }
}

fn list(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    let hidden = names.len().saturating_sub(NAMES);
    if hidden == 0 { shown } else { format!("{shown} and {hidden} more ({} in all)", names.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(verb: Verb, kind: &'static str, name: &str, result: Result<Did, Trouble>) -> Effect {
        Effect { verb, kind, name: name.into(), result }
    }

    fn told(effects: &[Effect]) -> Vec<String> {
        notices(effects).iter().map(|n| format!("{}: {}", n.reason, n.message)).collect()
    }

    #[test]
    fn one_notice_per_reason() {
        let refused = |text: &str| Err(Trouble::Refused(text.into()));
        let effects = [
            effect(Verb::Create, "Pod", "a", Ok(Did::Now)),
            effect(Verb::Create, "Service", "a", Ok(Did::Now)),
            effect(Verb::Create, "Pod", "b", Ok(Did::Now)),
            effect(Verb::Create, "Pod", "c", refused("quota")),
            effect(Verb::Create, "Pod", "d", refused("quota")),
            effect(Verb::Create, "Pod", "e", Err(Trouble::Passing("later".into()))),
            effect(Verb::Amend, "Pod", "f", Ok(Did::Now)),
            effect(Verb::Create, "Pod", "g", Ok(Did::Before)),
        ];
        let expected = [
            "SuccessfulCreatePod: Created pods: a, b",
            "FailedCreatePod: Error creating: quota (and 1 more)",
            "SuccessfulCreateService: Created service: a",
        ];
        assert_eq!(told(&effects), expected);
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let effects: Vec<Effect> =
            (0..25).map(|i| effect(Verb::Delete, "Pod", &format!("p{i}"), Ok(Did::Now))).collect();
        let told = told(&effects);
        assert!(told[0].starts_with("SuccessfulDeletePod: Deleted pods: p0, p1,"), "{told:?}");
        assert!(told[0].ends_with("p19 and 5 more (25 in all)"), "{told:?}");
    }

    #[test]
    fn the_end_of_a_job_is_told() {
        let effects = [effect(Verb::DeleteJob, "TFJob", "j", Ok(Did::Now))];
        assert_eq!(told(&effects), ["SuccessfulDeleteJob: Deleted job: j"]);
        let effects = [effect(Verb::DeleteJob, "TFJob", "j", Err(Trouble::Refused("no".into())))];
        assert_eq!(told(&effects), ["FailedDeleteJob: Error deleting: no"]);
    }
}
