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

/// Types grow faster than their text where each holds the last one twice; checking them has to end.
#[test]
fn types_that_double_are_not_followed_for_ever() {
    let mut rule = "self.l".to_owned();
    for depth in 0..40 {
        rule = format!("{rule}.map(x{depth}, {{string(x{depth}): [x{depth}], 'a': [x{depth}]}})");
    }
    said(&format!("{rule}.size() > 0"));
    let mut nested = "x".to_owned();
    for _ in 0..30 {
        nested = format!("[{nested}].map(x, {{x: x}})");
    }
    said(&format!("self.l.all(x, {nested}.size() > 0)"));
    let chain = ".optMap(x, x + 'a')".repeat(60);
    said(&format!("self.?s{chain}.hasValue()"));
}

#[test]
fn our_own_rules_are_accepted() {
    for text in [
        include_str!("../../../../../config/crd/bases/kubeflow.org_pytorchjobs.yaml"),
        include_str!("../../../../../config/crd/bases/kubeflow.org_tfjobs.yaml"),
    ] {
        assert!(text.contains("x-kubernetes-validations"));
        let definition: Value = serde_saphyr::from_str(text).unwrap();
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let errors = Structural::parse(&version["schema"]["openAPIV3Schema"]).err().unwrap_or_default();
            assert_eq!(errors, []);
        }
    }
}
