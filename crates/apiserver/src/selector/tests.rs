//! Selectors: what they match, how they read, what is refused.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn selects(selector: &str, labels: serde_json::Value) -> bool {
    LabelSelector::parse(selector).unwrap().matches(labels.as_object())
}

#[test]
fn label_operators() {
    let labels = json!({"app": "web", "tier": "", "n": "7"});
    for (selector, expected) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("other", false),
        ("!other", true),
        ("! other", true),
        ("app=web", true),
        ("app==web", true),
        ("app = db", false),
        ("app!=db", true),
        ("app!=web", false),
        ("other!=web", true),
        ("tier=", true),
        ("tier=,app=web", true),
        ("app in (web, db)", true),
        ("app in (db)", false),
        ("other in (db)", false),
        ("app notin (web)", false),
        ("app notin (db)", true),
        ("other notin (db)", true),
        ("tier in ()", true),
        ("tier in (a,)", true),
        ("app=web,n in (7),!x", true),
        ("app=web,n!=7", false),
        ("n>6", true),
        ("n<7", false),
        ("app>6", false),
    ] {
        assert_eq!(selects(selector, labels.clone()), expected, "{selector}");
    }
    assert!(LabelSelector::default().matches(None));
    assert!(LabelSelector::parse("!a,b!=c").unwrap().matches(None));
    assert!(!LabelSelector::parse("a").unwrap().matches(None));
}

#[test]
fn words_in_and_notin_are_values_after_an_operator() {
    assert!(selects("app=in", json!({"app": "in"})));
    assert!(selects("app in (in, notin)", json!({"app": "notin"})));
    assert!(selects("in=x", json!({"in": "x"})));
}

#[test]
fn label_errors() {
    for (selector, part) in [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b', expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("-a=b", "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"),
        ("a=-b", "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be"),
        ("/a", "prefix part must be non-empty"),
        ("Up.Case/a", "prefix part a lowercase RFC 1123 subdomain"),
        ("a/b/c", "a valid label key"),
        ("a>b", "must be an integer"),
        ("!", "found '', expected: identifier"),
        ("(", "found '('"),
    ] {
        let error = LabelSelector::parse(selector).unwrap_err().to_string();
        assert!(error.contains(part), "{selector}: {error}");
    }
    let long = "a".repeat(64);
    assert!(LabelSelector::parse(&long).is_err());
    assert!(LabelSelector::parse(&format!("a={long}")).is_err());
}

#[test]
fn object_form() {
    let selector = LabelSelector::from_object(&json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
            {"key": "x", "operator": "DoesNotExist"},
            {"key": "y", "operator": "NotIn", "values": ["z"]},
            {"key": "app", "operator": "Exists", "values": []},
        ],
    }))
    .unwrap();
    assert!(selector.matches(json!({"app": "web", "tier": "a"}).as_object()));
    assert!(!selector.matches(json!({"app": "web", "tier": "c"}).as_object()));
    assert!(!selector.matches(json!({"app": "web", "tier": "a", "x": ""}).as_object()));
    assert_eq!(selector.to_string(), "app=web,tier in (a,b),!x,y!=z,app");
    assert!(LabelSelector::from_object(&json!({})).unwrap().is_empty());
    let nothing = LabelSelector::from_object(&json!(null)).unwrap();
    assert!(!nothing.is_empty() && !nothing.matches(json!({"": ""}).as_object()));
    for bad in [
        json!([]),
        json!({"matchLabels": []}),
        json!({"matchLabels": {"a": 1}}),
        json!({"matchLabels": {"a b": "c"}}),
        json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
        json!({"matchExpressions": [{"operator": "Exists"}]}),
    ] {
        assert!(LabelSelector::from_object(&bad).is_err(), "{bad}");
    }
}

#[test]
fn field_selectors() {
    let lookup = |field: &str| match field {
        "metadata.name" => Some("a,b=c\\".to_owned()),
        "status.phase" => Some("Running".to_owned()),
        _ => None,
    };
    for (selector, expected) in [
        ("", true),
        ("status.phase=Running", true),
        ("status.phase==Running", true),
        ("status.phase!=Running", false),
        ("spec.nodeName=", true),
        ("spec.nodeName!=", false),
        (r"metadata.name=a\,b\=c\\", true),
        (r"status.phase=Running,metadata.name=a\,b\=c\\", true),
        ("status.phase=Running,,", true),
    ] {
        assert_eq!(FieldSelector::parse(selector).unwrap().matches(lookup), expected, "{selector}");
    }
    let selector = FieldSelector::parse("a=b,c!=d").unwrap();
    assert_eq!(selector.fields().collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!((selector.exact("a"), selector.exact("c")), (Some("b"), None));
    for (selector, part) in [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b=c", "unescaped character"),
        (r"a=\x", r"invalid escape sequence: \x"),
        ("a=\\", "invalid escape sequence"),
    ] {
        let error = FieldSelector::parse(selector).unwrap_err().to_string();
        assert!(error.contains(part), "{selector}: {error}");
    }
}

fn requirement() -> impl Strategy<Value = String> {
    let word = "[a-z]([a-z0-9._-]{0,5}[a-z0-9])?";
    prop_oneof![
        word.prop_map(|k| k),
        word.prop_map(|k| format!("!{k}")),
        (word, word).prop_map(|(k, v)| format!("{k} = {v}")),
        (word, word).prop_map(|(k, v)| format!("{k}!={v}")),
        (word, proptest::collection::vec(word, 1..4)).prop_map(|(k, v)| format!("{k} in ({})", v.join(", "))),
        (word, proptest::collection::vec(word, 1..4))
            .prop_map(|(k, v)| format!("{k} notin ({})", v.join(","))),
    ]
}

proptest! {
    #[test]
    fn labels_print_what_they_parse(parts in proptest::collection::vec(requirement(), 0..5)) {
        let parsed = LabelSelector::parse(&parts.join(",")).unwrap();
        prop_assert_eq!(LabelSelector::parse(&parsed.to_string()).unwrap(), parsed);
    }

    #[test]
    fn no_text_panics(text in ".*", tokens in "[a(),=! inot<>\\\\/]{0,20}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
        if let Ok(parsed) = LabelSelector::parse(&tokens) {
            prop_assert_eq!(LabelSelector::parse(&parsed.to_string()).unwrap(), parsed);
        }
        let _ = FieldSelector::parse(&tokens);
    }

    #[test]
    fn any_field_value_survives_printing(value in ".*", equal: bool) {
        let operator = if equal { "=" } else { "!=" };
        let text = format!("metadata.name{operator}{}", value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\="));
        let parsed = FieldSelector::parse(&text).unwrap();
        prop_assert_eq!(parsed.matches(|_| Some(value.clone())), equal);
        prop_assert_eq!(FieldSelector::parse(&parsed.to_string()).unwrap(), parsed);
    }
}
