//! What a failed pod means for its job, and which successes are enough.

use serde_json::Value;

use super::super::pods::{ContainerStatus, Pod};
use super::indexes::Indexes;

/// What the first matching rule of a pod failure policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It counts towards the backoff limit.
    Counts,
    /// It did not happen.
    Ignored,
    /// The job failed, and why.
    FailsJob(String),
    /// The index failed for good.
    FailsIndex,
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Reads a failed pod by `spec.podFailurePolicy`.
pub(super) fn meaning(policy: Option<&Value>, pod: &Pod) -> Meaning {
    let rules = policy.and_then(|policy| policy.get("rules")).and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let action = text(rule, "action");
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let why = if let Some(codes) = rule.get("onExitCodes") {
            exit(codes, pod).map(|(container, code)| {
                format!("Container {container} for pod {namespace}/{name} failed with exit code {code}")
            })
        } else {
            condition(rule.get("onPodConditions"), pod)
                .map(|condition| format!("Pod {namespace}/{name} has condition {condition}"))
        };
        let Some(why) = why else { continue };
        match action {
            "Ignore" => return Meaning::Ignored,
            "FailIndex" => return Meaning::FailsIndex,
            "Count" => return Meaning::Counts,
            "FailJob" => {
                return Meaning::FailsJob(format!("{why} matching {action} rule at index {index}"));
            }
            _ => {}
        }
    }
    Meaning::Counts
}

fn exit<'a>(codes: &Value, pod: &'a Pod) -> Option<(&'a str, i64)> {
    let container = text(codes, "containerName");
    let values = codes.get("values").and_then(Value::as_array);
    let matches = |status: &&ContainerStatus| {
        let Some(ended) = &status.state.terminated else { return false };
        let listed = values.is_some_and(|list| list.iter().any(|v| v.as_i64() == Some(ended.exit_code)));
        let asked = if text(codes, "operator") == "NotIn" { !listed } else { listed };
        (container.is_empty() || status.name == container) && ended.exit_code != 0 && asked
    };
    let all = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let status = all.into_iter().find(matches)?;
    Some((&status.name, status.state.terminated.as_ref()?.exit_code))
}

fn condition<'a>(patterns: Option<&'a Value>, pod: &Pod) -> Option<&'a str> {
    let patterns = patterns?.as_array()?;
    let has = |pattern: &&Value| {
        let wanted = match text(pattern, "status") {
            "" => "True",
            status => status,
        };
        let found = pod.status.conditions.iter().find(|c| c.r#type == text(pattern, "type"));
        found.is_some_and(|condition| condition.status == wanted)
    };
    patterns.iter().find(has).map(|pattern| text(pattern, "type"))
}

/// Which rule of `spec.successPolicy` is met, in the words of the condition.
pub(super) fn success(policy: Option<&Value>, done: &Indexes, completions: i64) -> Option<String> {
    let rules = policy?.get("rules")?.as_array()?;
    let met = |rule: &Value| {
        let count = rule.get("succeededCount").and_then(Value::as_i64);
        match rule.get("succeededIndexes").and_then(Value::as_str) {
            Some(wanted) => {
                let wanted = Indexes::parse(wanted, completions);
                !wanted.is_empty() && wanted.common(done) >= count.unwrap_or_else(|| wanted.len())
            }
            None => count.is_some_and(|count| done.len() >= count),
        }
    };
    let index = rules.iter().position(met).filter(|_| !done.is_empty())?;
    Some(format!("Matched rules at index {index}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(code: i64) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n"},
            "status": {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}],
                "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]},
        }))
        .unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = json!({"rules": [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        ]});
        let why = "Container main for pod n/p failed with exit code 42 matching FailJob rule at index 0";
        assert_eq!(meaning(Some(&policy), &pod(42)), Meaning::FailsJob(why.into()));
        assert_eq!(meaning(Some(&policy), &pod(1)), Meaning::Ignored);
        assert_eq!(meaning(None, &pod(1)), Meaning::Counts);
    }

    #[test]
    fn some_successes_may_be_enough() {
        let policy = json!({"rules": [{"succeededIndexes": "0-2", "succeededCount": 2}]});
        let done = |text: &str| success(Some(&policy), &Indexes::parse(text, 5), 5);
        assert_eq!(done("0,4"), None);
        assert_eq!(done("0,2").as_deref(), Some("Matched rules at index 0"));
    }
}
