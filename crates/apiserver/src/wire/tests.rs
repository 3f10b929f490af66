//! What holds for every kind, and what a real server wrote.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;
use std::path::Path;

use super::*;
use crate::types::{Field, Shape, Ty};

/// The object in an envelope.
fn opened(bytes: &[u8]) -> Result<Value, Malformed> {
    let envelope = Envelope::open(bytes)?;
    let table = table_of(&envelope.api_version, &envelope.kind).expect("a known kind");
    let mut object = envelope.decode(table)?;
    for (field, value) in [("kind", &envelope.kind), ("apiVersion", &envelope.api_version)] {
        if !value.is_empty() {
            object.insert(field.into(), value.as_str().into());
        }
    }
    Ok(Value::Object(object))
}

/// Answers of a real server in both forms: ours are the same to the byte.
#[test]
fn a_real_servers_bytes_are_ours() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wire/samples");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let mut json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let bytes = std::fs::read(path.with_extension("pb")).unwrap();
            assert_eq!(opened(&bytes).unwrap(), json, "{path:?}");
            assert!(object(&json).unwrap() == bytes, "{path:?}");
            if let Some(items) = json.get_mut("items").map(Value::take) {
                let text = |field: &str| json[field].as_str().unwrap().to_owned();
                let items: Vec<Vec<u8>> = items
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|item| message(item_of(&text("apiVersion"), &text("kind")).unwrap(), item))
                    .collect();
                let metadata = &json["metadata"];
                assert_eq!(list(&text("apiVersion"), &text("kind"), metadata, &items).unwrap(), bytes);
            }
            seen += 1;
        }
    }
    assert!(seen > 3);
}

/// Any object of a type, in the form in which it is stored.
fn any_object(table: &'static Message, depth: u32) -> BoxedStrategy<Value> {
    let fields: Vec<BoxedStrategy<Option<(String, Value)>>> = table
        .fields()
        .into_iter()
        .filter(|field| field.number > 0)
        .map(|field| {
            let json = field.json.to_owned();
            let deep = depth == 0 && matches!(field.ty, Ty::Message(_));
            if deep || matches!(field.ty, Ty::SchemaOrBool | Ty::SchemaOrArray | Ty::SchemaOrStrings) {
                return Just(None).boxed();
            }
            prop::option::weighted(0.3, any_field(field, depth))
                .prop_map(move |value| value.map(|value| (json.clone(), value)))
                .boxed()
        })
        .collect();
    fields
        .prop_map(move |fields| {
            let mut object: Map<String, Value> = fields.into_iter().flatten().collect();
            types::finish(table, &mut object);
            Value::Object(object)
        })
        .boxed()
}

fn any_field(field: &'static Field, depth: u32) -> BoxedStrategy<Value> {
    let one = any_value(field.ty, depth.saturating_sub(1));
    match field.shape {
        Shape::Single => one,
        Shape::List => prop::collection::vec(one, 1..3).prop_map(Value::Array).boxed(),
        Shape::Map => prop::collection::btree_map("[a-z]{0,3}", one, 1..3)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
            .boxed(),
    }
}

fn any_value(ty: Ty, depth: u32) -> BoxedStrategy<Value> {
    match ty {
        Ty::String => "[a-zä\\PC]{0,4}".prop_map(Value::from).boxed(),
        Ty::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Ty::Int32 => any::<i32>().prop_map(Value::from).boxed(),
        Ty::Int64 => any::<i64>().prop_map(Value::from).boxed(),
        Ty::Double => (-1e9..1e9).prop_map(|number: f64| json!(number)).boxed(),
        Ty::Bytes => prop::sample::select(vec!["", "aGk=", "AAEC"]).prop_map(Value::from).boxed(),
        Ty::Quantity => prop::sample::select(vec!["0", "500m", "1Gi"]).prop_map(Value::from).boxed(),
        Ty::IntOrString => {
            prop_oneof![any::<i32>().prop_map(Value::from), "[a-z0-9%]{0,3}".prop_map(Value::from)].boxed()
        }
        Ty::Time => prop::sample::select(vec!["2024-02-29T12:00:00Z", "1969-12-31T23:59:59Z"])
            .prop_map(Value::from)
            .boxed(),
        Ty::MicroTime => {
            prop::sample::select(vec!["2024-02-29T12:00:00.000001Z", "1969-12-31T23:59:59.500000Z"])
                .prop_map(Value::from)
                .boxed()
        }
        Ty::RawExtension | Ty::FieldsV1 => Just(json!({"a": [1, null, {"b": "c"}]})).boxed(),
        Ty::Json => prop::sample::select(vec![json!(1), json!("x"), json!([true])]).boxed(),
        Ty::Strings => prop::collection::vec("[a-z]{0,2}", 1..3).prop_map(|list| json!(list)).boxed(),
        Ty::SchemaOrBool | Ty::SchemaOrArray | Ty::SchemaOrStrings | Ty::Any => Just(Value::Null).boxed(),
        Ty::Message(table) => any_object(table, depth),
    }
}

#[test]
fn every_kind_survives_the_trip() {
    for ([group, version, kind], table) in types::kinds().filter(|(kind, _)| kind[2] != "Table") {
        let mut runner = TestRunner::new(ProptestConfig { cases: 8, ..ProptestConfig::default() });
        let result = runner.run(&any_object(table, 6), |object| {
            let bytes = message(table, &object);
            let back = decode::message(table, &bytes).unwrap();
            prop_assert_eq!(Value::Object(back), object);
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{group}/{version} {kind}: {error}"));
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let pod = types::of("", "v1", "Pod").unwrap();
        let _ = decode::message(pod, &bytes);
        let _ = Envelope::open(&[MAGIC, &bytes].concat()).map(|envelope| envelope.decode(pod));
    }

    #[test]
    fn no_damage_panics(at in 0_usize..400, byte in any::<u8>(), cut in 0_usize..400) {
        let pod = types::of("", "v1", "Pod").unwrap();
        let object = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {"containers": [
            {"name": "c", "command": ["x"], "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}},
             "livenessProbe": {"httpGet": {"port": "http"}}}]}});
        let mut bytes = message(pod, &object);
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes.truncate(cut);
        let _ = decode::message(pod, &bytes);
    }
}

#[test]
fn schemas_survive_the_trip() {
    let table = types::json_schema();
    for schema in [
        json!({"type": "object", "additionalProperties": true, "maximum": 5.5, "$ref": "#/x"}),
        json!({"additionalProperties": {"type": "string"}, "items": {"type": "integer"}, "default": {"a": null}}),
        json!({"items": [{"type": "integer"}, {}], "enum": [1, "x"], "not": {"nullable": true}}),
        json!({"dependencies": {"a": ["b"], "c": {"type": "string"}}, "properties": {"p": {"additionalProperties": false}}}),
    ] {
        let back = decode::message(table, &message(table, &schema)).unwrap();
        assert_eq!(Value::Object(back), schema);
    }
}

#[test]
fn what_is_wrong_is_said_as_a_real_server_says_it() {
    let table = types::of("", "v1", "ConfigMap").unwrap();
    let why = |bytes: &[u8]| decode::message(table, bytes).unwrap_err().to_string();
    assert_eq!(why(b"\x12\x7f"), "unexpected EOF");
    assert_eq!(why(b"\x10\x7f"), "proto: wrong wireType = 0 for field Data");
    assert_eq!(why(b"\x08\x01"), "proto: wrong wireType = 0 for field ObjectMeta");
    assert_eq!(why(b"\x00"), "proto: ConfigMap: illegal tag 0 (wire type 0)");
    assert_eq!(why(b"\x0c"), "proto: ConfigMap: wiretype end group for non-group");
    assert_eq!(why(b"\x5e"), "proto: illegal wireType 6");
    assert_eq!(why(&[0xff; 11]), "proto: integer overflow");
    assert!(decode::message(table, b"\x5b\x5c").is_ok(), "a group nobody knows is skipped");
    let open = |bytes: &[u8]| Envelope::open(bytes).unwrap_err().to_string();
    assert_eq!(open(b""), "empty data");
    assert_eq!(open(b"k8s\0"), "empty body");
    assert!(open(b"hello").ends_with("expected prefix [107 56 115 0]"));
}

#[test]
fn small_bodies_stay_small_and_deep_ones_are_refused() {
    const NOT: u32 = 28;
    let list = types::of("", "v1", "PodList").unwrap();
    let many = b"\x12\x00".repeat(1_000_000);
    assert!(decode::message(list, &many).unwrap_err().to_string().contains("too many values"));
    let mut deep = Vec::new();
    for _ in 0..200 {
        let mut writer = Writer::default();
        writer.bytes(NOT, &deep);
        deep = writer.finish();
    }
    let schema = types::json_schema();
    assert_eq!(schema.slot(NOT).unwrap().json, "not");
    assert!(decode::message(schema, &deep).unwrap_err().to_string().contains("nested too deeply"));
}
