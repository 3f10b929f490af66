//! Numbers of YAML as Kubernetes reads them, for bodies of requests and for manifests alike.
//!
//! Kubernetes reads YAML 1.1 and turns it into JSON before it looks at it. So `defaultMode: 0644` is octal, and `1.0` is
//! the whole number 1. A reader of YAML 1.2 takes the first for 644, which nobody means, and the second for something
//! that no field with a whole number accepts.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};

/// Every document of a text. A key that is there twice is an error.
pub fn documents(text: &str) -> Result<Vec<Value>, Error> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let mut documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)?;
    documents.iter_mut().for_each(make_whole);
    Ok(documents)
}

/// One document.
pub(crate) fn document(bytes: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Value, Error> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true, duplicate_keys: duplicate_keys, with_snippet: false
    };
    let mut document = serde_saphyr::from_slice_with_options(bytes, options)?;
    make_whole(&mut document);
    Ok(document)
}

/// JSON has one kind of number: those without a fraction are whole.
fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(|number| number.to_string().parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(fields) => fields.values_mut().for_each(make_whole),
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What the YAML reader of Kubernetes makes of them.
    #[test]
    fn numbers_are_read_as_kubernetes_reads_them() {
        let table = [
            ("0644", json!(420)),
            ("-0644", json!(-420)),
            ("+0644", json!(420)),
            ("0_644", json!(420)),
            ("0o644", json!(420)),
            ("01", json!(1)),
            ("00", json!(0)),
            ("0", json!(0)),
            ("089", json!(89)),
            ("0800", json!(800)),
            ("012e1", json!(120)),
            ("0x1F", json!(31)),
            ("0b11", json!(3)),
            ("+7", json!(7)),
            ("1_000", json!(1000)),
            ("1.0", json!(1)),
            ("-1.0", json!(-1)),
            ("1.", json!(1)),
            ("0.0", json!(0)),
            ("-0.0", json!(0)),
            ("1e0", json!(1)),
            ("1E3", json!(1000)),
            ("6.0e2", json!(600)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("1e-1", json!(0.1)),
            ("1e20", json!(1e20)),
            ("9223372036854775808", json!(9_223_372_036_854_775_808_u64)),
            ("1:30", json!("1:30")),
            ("0644s", json!("0644s")),
            ("\"0644\"", json!("0644")),
            ("'1.0'", json!("1.0")),
        ];
        for (text, expected) in table {
            let nested = documents(&format!("a: [{{ v: {text} }}]")).unwrap();
            assert_eq!(nested, [json!({ "a": [{ "v": expected }] })], "{text}");
            let read = document(format!("v: {text}").as_bytes(), DuplicateKeyPolicy::LastWins).unwrap();
            assert_eq!(read, json!({ "v": expected }), "{text}");
        }
    }
}
