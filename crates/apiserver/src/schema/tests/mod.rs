//! Behaviour tables of the whole module, by pass.

mod budget;
mod cel;
mod objects;
mod properties;
mod rules;
mod sharing;
mod structural;

use serde_json::{Value, json};

use super::*;

/// A schema whose root object has these properties.
fn schema(properties: Value) -> Structural {
    parse(json!({"type": "object", "properties": properties}))
}

fn parse(schema: Value) -> Structural {
    Structural::parse(&schema).unwrap_or_else(|errors| panic!("{schema}: {}", show(&errors)))
}

fn show(errors: &[FieldError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// What is wrong with a field `x` of this schema and value.
fn field(x: Value, value: Value) -> String {
    show(&schema(json!({ "x": x })).validate(&json!({ "x": value }), None))
}
