//! What a real server answered to the same bodies.

use super::*;
use crate::builtin;
use serde_json::json;

const BASE: &str = r#""apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}"#;

fn pod(rest: &str) -> Result<Decoded, String> {
    read(&format!("{{{BASE},{rest}}}"))
}

fn read(text: &str) -> Result<Decoded, String> {
    json(text.as_bytes(), Kind::named("", "v1", "Pod")).map_err(message)
}

fn message(failure: Failure) -> String {
    let text = failure.status()["message"].as_str().unwrap().to_owned();
    text.strip_prefix("Pod in version \"v1\" cannot be handled as a Pod: ").unwrap_or(&text).to_owned()
}

fn container(rest: &str) -> Result<Decoded, String> {
    pod(&format!(r#""spec":{{"containers":[{{"name":"c","image":"i",{rest}}}]}}"#))
}

#[test]
fn values_of_a_wrong_type_are_refused_in_gos_words() {
    let into = |found: &str, place: &str, ty: &str| {
        format!("json: cannot unmarshal {found} into Go struct field {place} of type {ty}")
    };
    for (body, expected) in [
        (
            r#""spec":{"containers":[{"command":"x"}]}"#,
            into("string", "Container.spec.containers.command", "[]string"),
        ),
        (
            r#""spec":{"containers":[{"command":[1]}]}"#,
            into("number", "Container.spec.containers.command", "string"),
        ),
        (
            r#""spec":{"containers":[{"env":[{"value":1}]}]}"#,
            into("number", "EnvVar.spec.containers.env.value", "string"),
        ),
        (r#""spec":{"containers":{"a":1}}"#, into("object", "PodSpec.spec.containers", "[]v1.Container")),
        (r#""spec":{"restartPolicy":1}"#, into("number", "PodSpec.spec.restartPolicy", "v1.RestartPolicy")),
        (r#""spec":{"hostNetwork":"true"}"#, into("string", "PodSpec.spec.hostNetwork", "bool")),
        (
            r#""spec":{"activeDeadlineSeconds":"1"}"#,
            into("string", "PodSpec.spec.activeDeadlineSeconds", "int64"),
        ),
        (
            r#""spec":{"activeDeadlineSeconds":1.5}"#,
            into("number 1.5", "PodSpec.spec.activeDeadlineSeconds", "int64"),
        ),
        (
            r#""spec":{"activeDeadlineSeconds":1e2}"#,
            into("number 1e2", "PodSpec.spec.activeDeadlineSeconds", "int64"),
        ),
        (r#""spec":{"priority":3000000000}"#, into("number 3000000000", "PodSpec.spec.priority", "int32")),
        (
            r#""spec":{"containers":[{"resources":{"limits":[]}}]}"#,
            into("array", "ResourceRequirements.spec.containers.resources.limits", "v1.ResourceList"),
        ),
        (
            r#""spec":{"containers":[{"resources":"x"}]}"#,
            into("string", "Container.spec.containers.resources", "v1.ResourceRequirements"),
        ),
        (r#""spec":"x""#, into("string", "Pod.spec", "v1.PodSpec")),
        (r#""spec":[]"#, into("array", "Pod.spec", "v1.PodSpec")),
    ] {
        assert_eq!(pod(body).unwrap_err(), expected, "{body}");
    }
}

#[test]
fn metadata_and_embedded_fields_are_named_as_go_names_them() {
    let into = |found: &str, place: &str, ty: &str| {
        format!("json: cannot unmarshal {found} into Go struct field {place} of type {ty}")
    };
    for (body, expected) in [
        (r#""metadata":"x""#, into("string", "Pod.metadata", "v1.ObjectMeta")),
        (r#""metadata":{"labels":{"a":1}}"#, into("number", "ObjectMeta.metadata.labels", "string")),
        (
            r#""metadata":{"creationTimestamp":1}"#,
            into("number", "ObjectMeta.metadata.creationTimestamp", "string"),
        ),
        (
            r#""metadata":{"ownerReferences":[1]}"#,
            into("number", "ObjectMeta.metadata.ownerReferences", "v1.OwnerReference"),
        ),
        (
            r#""spec":{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}"#,
            into("bool", "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port", "int32"),
        ),
        (
            r#""spec":{"containers":[{"livenessProbe":{"httpGet":{"port":1.5}}}]}"#,
            into(
                "number 1.5",
                "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port",
                "int32",
            ),
        ),
        // Of two, the first; and what is no quantity or time is worse than a wrong type.
        (r#""spec":{"hostNetwork":1,"hostPID":1}"#, into("number", "PodSpec.spec.hostNetwork", "bool")),
        (
            r#""spec":{"hostNetwork":1,"overhead":{"cpu":"abc"}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                .into(),
        ),
        (
            r#""metadata":{"creationTimestamp":"x"}"#,
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"".into(),
        ),
    ] {
        assert_eq!(pod(body).unwrap_err(), expected, "{body}");
    }
}

#[test]
fn bodies_that_are_no_pods_are_refused() {
    let unrecognized = |why: &str, data: &str| {
        format!("the object provided is unrecognized (must be of type Pod): {why} ({data})")
    };
    let root = |found: &str| {
        format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct \
             {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )
    };
    for (text, expected) in [
        ("[1]", unrecognized(&root("array"), "5b315d")),
        ("5", unrecognized(&root("number"), "35")),
        ("{", unrecognized("couldn't get version/kind; json parse error: unexpected end of JSON input", "{")),
        ("", unrecognized("couldn't get version/kind; json parse error: unexpected end of JSON input", "<empty>")),
        (
            r#"{"kind":1,"apiVersion":"v1"}"#,
            unrecognized(
                "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string",
                r#"{"kind":1,"apiVersion":"v1"}"#,
            ),
        ),
        (r#"{"apiVersion":"a/b/c","kind":"Pod"}"#, unrecognized("unexpected GroupVersion string: a/b/c", "{\"apiVersion\":\"a/b/c\",\"kind\":\" ...")),
        (r#"{"kind":"Frog","apiVersion":"v1"}"#, "Frog in version \"v1\" cannot be handled as a Pod: no kind \"Frog\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"".into()),
        (r#"{"kind":"ConfigMap","apiVersion":"v1"}"#, "ConfigMap in version \"v1\" cannot be handled as a Pod: converting (v1.ConfigMap) to (core.Pod): unknown conversion".into()),
        (r#"{"kind":"Deployment","apiVersion":"apps/v1"}"#, "Deployment in version \"v1\" cannot be handled as a Pod: converting (v1.Deployment) to (core.Pod): unknown conversion".into()),
    ] {
        assert_eq!(read(text).unwrap_err(), expected, "{text}");
    }
    for text in ["null", "{}", r#"{"kind":"Pod"}"#, r#"{"apiVersion":"v1"}"#] {
        let decoded = read(text).unwrap().object;
        assert_eq!((&decoded["kind"], &decoded["apiVersion"]), (&json!("Pod"), &json!("v1")), "{text}");
    }
}

#[test]
fn what_is_unknown_or_said_twice_is_remarked_in_the_order_of_the_document() {
    let remarks = |text: &str| read(text).unwrap().remarks;
    assert_eq!(
        remarks(
            r#"{"Spec":{},"spec":{"foo":1,"volumes":[{"name":"x","emptyDir":{"z":1}}],"containers":[{"name":"c","bar":2,"name":"d","resources":{"limits":{"cpu":1,"cpu":2}}}]},"metadata":{},"metadata":{"labels":{"a":"b","a":"c"}}}"#
        ),
        [
            "unknown field \"Spec\"",
            "unknown field \"spec.foo\"",
            "unknown field \"spec.volumes[0].emptyDir.z\"",
            "unknown field \"spec.containers[0].bar\"",
            "duplicate field \"spec.containers[0].name\"",
            "duplicate field \"spec.containers[0].resources.limits.cpu\"",
            "duplicate field \"metadata\"",
            "duplicate field \"metadata.labels.a\"",
        ]
    );
    let decoded = read(r#"{"metadata":{"name":"a"},"metadata":{"labels":{"a":"b"}}}"#).unwrap();
    assert_eq!(decoded.object["metadata"], json!({"name": "a", "labels": {"a": "b"}}));
    let many: String = (0..500).map(|i| format!("\"f{i}\":1,")).collect();
    assert_eq!(remarks(&format!("{{{many}\"kind\":\"Pod\"}}")).len(), 100);
}

#[test]
fn objects_are_brought_into_form() {
    let decoded = container(
        r#""resources":{"limits":{"cpu":0.5,"memory":"1024Mi","x":null}},"env":null,"args":[],"tty":false,"bar":1"#,
    );
    let object = decoded.unwrap().object;
    assert_eq!(
        object["spec"]["containers"][0],
        json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": "500m", "memory": "1Gi", "x": "0"}}})
    );
    assert_eq!(object["status"], json!({}));
    let map = |text: &str| json(text.as_bytes(), Kind::named("", "v1", "ConfigMap")).map_err(message);
    assert_eq!(
        map(r#"{"metadata":{"name":"a","labels":{},"finalizers":[]},"data":{"a":null,"b":"c"},"binaryData":{"x":[1,2],"y":null}}"#)
            .unwrap()
            .object,
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"a": "", "b": "c"},
               "binaryData": {"x": "AQI=", "y": ""}})
    );
    for (data, at) in
        [("a b", 1), ("aGk", 0), ("aGk=x", 4), ("aGk==", 4), ("a===", 1), ("aGkkaGk", 4), ("=", 0)]
    {
        let text = format!("{{\"binaryData\":{{\"x\":{data:?}}}}}");
        let expected = format!(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: illegal base64 data at input byte {at}"
        );
        assert_eq!(map(&text).unwrap_err(), expected, "{data}");
    }
}

#[test]
fn definitions_have_schemas_of_several_forms() {
    let text = r#"{"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object",
        "properties":{"a":{"additionalProperties":true},"b":{"items":{"type":"string"},"default":{"x":null}}}}}}]}}"#;
    let decoded =
        json(text.as_bytes(), Kind::named("apiextensions.k8s.io", "v1", "CustomResourceDefinition")).unwrap();
    let properties = decoded.object.pointer("/spec/versions/0/schema/openAPIV3Schema/properties").unwrap();
    assert_eq!(
        properties,
        &json!({"a": {"additionalProperties": true}, "b": {"items": {"type": "string"}, "default": {"x": null}}})
    );
    let wrong = text.replace("true", "1");
    let error = json(wrong.as_bytes(), Kind::named("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    assert!(message(error.unwrap_err()).ends_with("boolean or JSON schema expected"));
}

fn frog() -> Served {
    let mut served = builtin::table().find(|served| served.plural == "configmaps").unwrap();
    served.message = None;
    (served.group, served.version, served.kind, served.custom) =
        ("example.com".into(), "v1".into(), "Frog".into(), true);
    served
}

#[test]
fn custom_resources_have_typed_metadata_only() {
    let served = frog();
    let read = |rest: &str| {
        let text = format!(r#"{{"apiVersion":"example.com/v1","kind":"Frog",{rest}}}"#);
        json(text.as_bytes(), Kind::of(&served)).map_err(message)
    };
    let decoded =
        read(r#""metadata":{"name":"g","foo":1,"labels":null},"spec":{"a":1.0,"a":2,"n":null},"y":2"#)
            .unwrap();
    assert_eq!(decoded.remarks, ["duplicate field \"spec.a\"", "unknown field \"metadata.foo\""]);
    assert_eq!(
        decoded.object,
        json!({"apiVersion": "example.com/v1", "kind": "Frog", "metadata": {"name": "g"}, "spec": {"a": 2, "n": null}, "y": 2})
    );
    let prefix = "Frog in version \"v1\" cannot be handled as a Frog: json: cannot unmarshal";
    for (rest, expected) in [
        (
            r#""metadata":{"name":5}"#,
            format!("{prefix} number into Go struct field ObjectMeta.name of type string"),
        ),
        (r#""metadata":"x""#, format!("{prefix} string into Go value of type v1.ObjectMeta")),
        (
            r#""metadata":{"generation":"x"}"#,
            format!("{prefix} string into Go struct field ObjectMeta.generation of type int64"),
        ),
    ] {
        assert_eq!(read(rest).unwrap_err(), expected);
    }
    let plain = |text: &str| json(text.as_bytes(), Kind::of(&served)).map_err(message).unwrap_err();
    assert_eq!(
        plain(r#"{"apiVersion":"example.com/v1"}"#),
        "the object provided is unrecognized (must be of type Frog): Object 'Kind' is missing in \
         '{\"apiVersion\":\"example.com/v1\"}' ({\"apiVersion\":\"example.com/v1\" ...)"
    );
    assert_eq!(
        plain(r#"{"kind":"Frog"}"#),
        "the API version in the data () does not match the expected API version (example.com/v1)"
    );
}

#[test]
fn what_was_decoded_stays_as_it_is() {
    let served = builtin::table().find(|served| served.plural == "pods").unwrap();
    let once = container(r#""resources":{"limits":{"cpu":"1000m"}}"#).unwrap().object;
    let twice = value(&once, &served).unwrap();
    assert_eq!((twice.object, twice.remarks), (once, Vec::<String>::new()));
}
