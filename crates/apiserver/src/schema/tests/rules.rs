//! Rules and what a real server says about them at definition: `rules.txt` was recorded from one.

use serde_json::{Value, json};

use super::super::Structural;

/// Rules, and what is wrong with them.
fn recorded() -> Vec<(String, String)> {
    let mut rules: Vec<(String, String)> = Vec::new();
    for line in include_str!("rules.txt").lines() {
        match line.strip_prefix("## ") {
            Some(rule) => rules.push((rule.to_owned(), String::new())),
            None => {
                let (_, said) = rules.last_mut().unwrap();
                if !said.is_empty() {
                    said.push('\n');
                }
                said.push_str(line);
            }
        }
    }
    rules
}

/// What we say about a rule, in the layout of the recording.
fn said(rule: &str) -> String {
    let mut schema: Value = serde_json::from_str(include_str!("rules.json")).unwrap();
    schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "m"}]);
    let errors = Structural::parse(&schema).err().unwrap_or_default();
    let said: Vec<String> = errors
        .iter()
        .map(|error| {
            let part = error.field.rsplit('.').next().unwrap_or_default();
            let message =
                error.message.split_once("}: ").map_or(error.message.as_str(), |(_, detail)| detail);
            format!("{part}: {message}")
        })
        .collect();
    said.join("\n")
}

#[test]
fn rules_are_judged_as_by_a_real_server() {
    let rules = recorded();
    assert!(rules.len() > 200);
    let different: Vec<String> = rules
        .iter()
        .map(|(rule, expected)| (rule, expected, said(rule)))
        .filter(|(_, expected, said)| *expected != said)
        .map(|(rule, expected, said)| format!("## {rule}\nreal: {expected}\nours: {said}"))
        .collect();
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
