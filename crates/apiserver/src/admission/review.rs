//! The question that is put to a webhook, and its answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::config::Hook;
use super::matching::Place;
use crate::auth::Identity;
use crate::failure::Failure;

/// Everything about a write that webhooks are told.
#[derive(Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) place: Place<'a>,
    /// Group, version and kind of the object, where they are not the resource's: those of a `Scale`, say.
    pub(crate) kind: Option<(&'a str, &'a str, &'a str)>,
    /// The name of a namespace, for a namespace.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) identity: &'a Identity,
    pub(crate) object: Option<Value>,
    pub(crate) old: Option<Value>,
    pub(crate) options: Value,
    pub(crate) dry: bool,
}

impl Attributes<'_> {
    /// The request of a review, in the version of the resource that a webhook wants.
    pub(super) fn request(&self, uid: &str, version: &str) -> Value {
        let served = self.place.served;
        let (group, own, kind) = self.kind.unwrap_or((&served.group, &served.version, &served.kind));
        let shown = if self.kind.is_none() { version } else { own };
        let mut request = json!({
            "uid": uid,
            "kind": {"group": group, "version": shown, "kind": kind},
            "resource": {"group": served.group, "version": version, "resource": served.plural},
            "requestKind": {"group": group, "version": own, "kind": kind},
            "requestResource": {"group": served.group, "version": served.version, "resource": served.plural},
            "operation": self.place.operation,
            "userInfo": self.identity.info(),
            "object": in_version(self.object.as_ref(), served, version),
            "oldObject": in_version(self.old.as_ref(), served, version),
            "dryRun": self.dry,
            "options": self.options,
        });
        let Some(map) = request.as_object_mut() else { return request };
        for (field, text) in [
            ("subResource", self.place.subresource),
            ("requestSubResource", self.place.subresource),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !text.is_empty() {
                map.insert(field.into(), text.into());
            }
        }
        request
    }
}

/// An object in another version of its resource, which differs in nothing but its name.
fn in_version(object: Option<&Value>, served: &crate::registry::Served, version: &str) -> Value {
    let Some(object) = object else { return Value::Null };
    let mut object = object.clone();
    let is_own = object.get("apiVersion").and_then(Value::as_str) == Some(&served.api_version);
    if version != served.version
        && is_own
        && let Some(map) = object.as_object_mut()
    {
        map.insert("apiVersion".into(), format!("{}/{version}", served.group).into());
    }
    object
}

/// What a webhook says.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) result: Value,
    /// Operations on the object; empty if it changes nothing.
    pub(super) patch: Option<Value>,
    pub(super) warnings: Vec<String>,
}

/// The version of reviews a webhook understands, the first that is known here.
pub(super) fn version(hook: &Hook) -> Result<&str, String> {
    let known = hook.versions.iter().find(|version| ["v1", "v1beta1"].contains(&version.as_str()));
    known.map(String::as_str).ok_or_else(|| {
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)".into()
    })
}

/// Reads an answer, and makes sure that it is one to our question.
pub(super) fn read(review: &Value, version: &str, uid: &str, mutating: bool) -> Result<Answer, String> {
    let wrong = |why: String| format!("received invalid webhook response: {why}");
    let response = review.get("response").filter(|response| response.is_object());
    let response = response.ok_or_else(|| wrong("webhook response was absent".into()))?;
    let text = |field: &str| response.get(field).and_then(Value::as_str).unwrap_or_default();
    let (patch, kind) = (text("patch"), response.get("patchType").filter(|kind| !kind.is_null()));
    if version == "v1" {
        if text("uid") != uid {
            return Err(wrong(format!("expected response.uid={uid:?}, got {:?}", text("uid"))));
        }
        let part = |field: &str| review.get(field).and_then(Value::as_str).unwrap_or_default();
        if (part("apiVersion"), part("kind")) != ("admission.k8s.io/v1", "AdmissionReview") {
            return Err(wrong(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {}, Kind={}",
                slashed(part("apiVersion")),
                part("kind")
            )));
        }
        match (mutating, patch.is_empty(), kind.is_some()) {
            (true, false, false) => {
                return Err(wrong("webhook returned response.patch but not response.patchType".into()));
            }
            (true, true, true) => {
                return Err(wrong("webhook returned response.patchType but not response.patch".into()));
            }
            (false, false, _) => {
                return Err(wrong("validating webhook may not return response.patch".into()));
            }
            (false, _, true) => {
                return Err(wrong("validating webhook may not return response.patchType".into()));
            }
            _ => {}
        }
        let kind = kind.and_then(Value::as_str).unwrap_or("JSONPatch");
        if mutating && kind != "JSONPatch" {
            return Err(format!("unsupported patch type {kind:?}"));
        }
    }
    Ok(Answer {
        allowed: response.get("allowed").and_then(Value::as_bool).unwrap_or(false),
        result: response.get("status").cloned().unwrap_or_default(),
        patch: if mutating { decoded(patch)? } else { None },
        warnings: response
            .get("warnings")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    })
}

/// A group and version as Go prints them.
fn slashed(api_version: &str) -> String {
    if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") }
}

fn decoded(patch: &str) -> Result<Option<Value>, String> {
    if patch.is_empty() {
        return Ok(None);
    }
    let undecodable = |why: String| format!("received undecodable patch in webhook response: {why}");
    let bytes = STANDARD.decode(patch).map_err(|error| undecodable(error.to_string()))?;
    let operations: Value = serde_json::from_slice(&bytes).map_err(|error| undecodable(error.to_string()))?;
    Ok(Some(operations).filter(|list| list.as_array().is_none_or(|list| !list.is_empty())))
}

/// The refusal of a webhook, in its own words.
pub(super) fn denied(name: &str, result: &Value) -> Failure {
    let text = |field: &str| result.get(field).and_then(Value::as_str).unwrap_or_default();
    let by = format!("admission webhook {name:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let code =
        result.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()).unwrap_or(0);
    let code = if (400..=599).contains(&code) { code } else { 400 };
    let details = result.get("details").and_then(Value::as_object).cloned().unwrap_or_default();
    Failure::said(code, text("reason"), message, details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_to_be_one_to_our_question() {
        let review = |response: Value| json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        let patch = STANDARD.encode(r#"[{"op": "add", "path": "/a", "value": 1}]"#);
        let invalid = "received invalid webhook response: ";
        for (review, mutating, error) in [
            (json!({}), false, format!("{invalid}webhook response was absent")),
            (review(json!({"uid": "x"})), false, format!("{invalid}expected response.uid=\"u\", got \"x\"")),
            (
                json!({"apiVersion": "v1", "kind": "Status", "response": {"uid": "u"}}),
                false,
                format!(
                    "{invalid}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=Status"
                ),
            ),
            (
                review(json!({"uid": "u", "allowed": true, "patch": patch})),
                true,
                format!("{invalid}webhook returned response.patch but not response.patchType"),
            ),
            (
                review(json!({"uid": "u", "allowed": true, "patchType": "JSONPatch"})),
                true,
                format!("{invalid}webhook returned response.patchType but not response.patch"),
            ),
            (
                review(json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "JSONPatch"})),
                false,
                format!("{invalid}validating webhook may not return response.patch"),
            ),
            (
                review(json!({"uid": "u", "patch": "!", "patchType": "JSONPatch"})),
                true,
                "received undecodable patch in webhook response: ".into(),
            ),
        ] {
            let found = read(&review, "v1", "u", mutating).unwrap_err();
            assert!(found.starts_with(&error), "{found}\n{error}");
        }
        let good = review(
            json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "JSONPatch", "warnings": ["w"]}),
        );
        let answer = read(&good, "v1", "u", true).unwrap();
        assert!(answer.allowed && answer.patch.is_some());
        assert_eq!(answer.warnings, ["w"]);
        assert!(!read(&json!({"response": {}}), "v1beta1", "u", false).unwrap().allowed);
    }

    #[test]
    fn a_refusal_is_never_a_success() {
        for (result, code, message) in [
            (Value::Null, 400, "admission webhook \"h\" denied the request without explanation"),
            (json!({"message": "no", "code": 403}), 403, "admission webhook \"h\" denied the request: no"),
            (
                json!({"reason": "Because", "code": 200}),
                400,
                "admission webhook \"h\" denied the request: Because",
            ),
        ] {
            let status = denied("h", &result).status();
            assert_eq!(
                (&status["code"], &status["message"], &status["status"]),
                (&json!(code), &json!(message), &json!("Failure"))
            );
        }
    }
}
