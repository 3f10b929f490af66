//! What a real server (1.36) answered to objects that are right, wrong, or left half empty: ours answers the same.
//!
//! One line of `recorded.jsonl` is one POST with its answer. What a server makes up (uids, addresses, random names) is
//! left out of the comparison.

use serde_json::{Value, json};

use crate::harness::Api;

/// Values that differ by their nature are replaced by what they stand for.
fn normal(value: &mut Value) {
    const MADE_UP: [&str; 3] = ["clusterIP", "nodePort", "healthCheckNodePort"];
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                let address = value.as_str().is_some_and(|text| text.starts_with("10.96."));
                let given = MADE_UP.contains(&key.as_str()) && (address || value.is_number());
                let time = key.ends_with("TransitionTime") && value.is_string();
                if key.contains("controller-uid") || given || time {
                    *value = json!("*");
                } else if key == "clusterIPs"
                    && value[0].as_str().is_some_and(|text| text.starts_with("10.96."))
                {
                    *value = json!(["*"]);
                } else {
                    normal(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normal),
        _ => {}
    }
}

/// A uid in a message is not the same twice.
fn without_uids(message: &str) -> String {
    let is_uid = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    message.split('"').map(|word| if is_uid(word) { "*" } else { word }).collect::<Vec<_>>().join("\"")
}

fn compare(case: &Value, code: u16, answer: &Value, warnings: &[String]) -> Option<String> {
    let expected_warnings: Vec<String> = case["warnings"]
        .as_array()
        .map(|list| list.iter().map(|w| w.as_str().unwrap().to_owned()).collect())
        .unwrap_or_default();
    if case["code"] != code {
        return Some(format!("code {code}, not {}: {answer}", case["code"]));
    }
    if expected_warnings != warnings {
        return Some(format!("warned {warnings:?}, not {expected_warnings:?}"));
    }
    if let Some(message) = case["message"].as_str() {
        let said = answer["message"].as_str().unwrap_or_default();
        if without_uids(said) != without_uids(message) {
            return Some(format!("said\n    {said}\n  not\n    {message}"));
        }
        let causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes: Vec<Value> =
            causes.iter().map(|c| json!(format!("{} {}", text(&c["reason"]), text(&c["field"])))).collect();
        let expected = case["causes"].as_array().cloned().unwrap_or_default();
        return (causes != expected).then(|| format!("caused by {causes:?}, not {expected:?}"));
    }
    let mut answer = answer.clone();
    let metadata = answer["metadata"].as_object().cloned().unwrap_or_default();
    let kept = ["labels", "annotations", "generation", "name", "generateName"];
    answer["metadata"] = metadata.into_iter().filter(|(key, _)| kept.contains(&key.as_str())).collect();
    for field in ["kind", "apiVersion"] {
        answer.as_object_mut().unwrap().remove(field);
    }
    let mut expected = case["answer"].clone();
    normal(&mut answer);
    normal(&mut expected);
    (answer != expected).then(|| format!("made\n    {answer}\n  not\n    {expected}"))
}

#[tokio::test(start_paused = true)]
async fn answers_are_those_of_a_real_server() {
    let api = Api::new();
    api.ok("POST", "/api/v1/namespaces", json!({"metadata": {"name": "recorded"}})).await;
    api.settle().await;
    let mut wrong = Vec::new();
    for line in include_str!("recorded.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let reply = api.call("POST", case["path"].as_str().unwrap(), case["body"].clone()).await;
        let warnings: Vec<String> =
            reply.headers.get_all("warning").iter().map(|w| w.to_str().unwrap().to_owned()).collect();
        if let Some(difference) = compare(&case, reply.code, &reply.json(), &warnings) {
            wrong.push(format!("{}: {difference}", case["name"].as_str().unwrap()));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
