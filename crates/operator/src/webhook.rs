//! Admission of jobs as a webhook: the question of an API server in, the answer out. No connection and no clock.

use serde_json::{Value, json};
use trainyard_core::admission::admit;
use trainyard_core::field_error::one_line;
use trainyard_core::{Catalog, Kind};

/// The only form of question and answer that there is.
const VERSION: &str = "admission.k8s.io/v1";
const REVIEW: &str = "AdmissionReview";

/// The answer to the `AdmissionReview` in `body`, which is about a job of `kind`.
///
/// # Errors
/// Why it is no question that can be answered. The server that asked is told, not the user.
pub fn answer(catalog: &Catalog, kind: &'static Kind, body: &[u8]) -> Result<Value, String> {
    let review: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is no JSON: {error}"))?;
    if text(&review, "/kind") != REVIEW || text(&review, "/apiVersion") != VERSION {
        return Err(format!("the body is no {REVIEW} of {VERSION}"));
    }
    let uid = text(&review, "/request/uid");
    if uid.is_empty() {
        return Err(format!("the {REVIEW} has no request.uid"));
    }
    let mut response = judge(catalog, kind, &review)?;
    if let Some(fields) = response.as_object_mut() {
        fields.insert("uid".into(), uid.into());
    }
    Ok(json!({ "apiVersion": VERSION, "kind": REVIEW, "response": response }))
}

fn judge(catalog: &Catalog, kind: &'static Kind, review: &Value) -> Result<Value, String> {
    let operation = text(review, "/request/operation");
    let of_the_job = text(review, "/request/subResource").is_empty();
    // Whatever the rules of the configuration say: only what is written into a job is judged.
    if !matches!(operation, "CREATE" | "UPDATE") || !of_the_job {
        return Ok(allowed(&[]));
    }
    check_kind(kind, review)?;
    let object = |pointer: &str| review.pointer(pointer).filter(|object| object.is_object());
    let new = object("/request/object").ok_or_else(|| format!("the {REVIEW} has no request.object"))?;
    Ok(match admit(catalog, kind, object("/request/oldObject"), new) {
        Ok(warnings) => allowed(&warnings),
        Err(errors) => {
            let status = json!({ "code": 403, "reason": "Forbidden", "message": one_line(&errors) });
            json!({ "allowed": false, "status": status })
        }
    })
}

fn allowed(warnings: &[String]) -> Value {
    let mut response = json!({ "allowed": true, "status": { "code": 200 } });
    if let (false, Some(fields)) = (warnings.is_empty(), response.as_object_mut()) {
        fields.insert("warnings".into(), warnings.into());
    }
    response
}

/// A configuration may send anything anywhere. An object that is judged by the rules of another kind would be refused
/// for reasons that nobody understands.
fn check_kind(kind: &Kind, review: &Value) -> Result<(), String> {
    let asked = ["group", "version", "kind"].map(|part| text(review, &format!("/request/kind/{part}")));
    if asked == [kind.group, kind.version, kind.name] {
        return Ok(());
    }
    let [group, version, name] = asked;
    Err(format!(
        "this path is for {} of {}, not for {name:?} of \"{group}/{version}\": correct the rules of the webhook",
        kind.name,
        kind.api_version()
    ))
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first() -> &'static Kind {
        Catalog::default().kinds[0]
    }

    fn job(image: &str) -> Value {
        let kind = first();
        let facts = Catalog::default().framework(kind.framework).unwrap().facts();
        let template = json!({ "spec": { "containers": [{ "name": facts.container, "image": image }] } });
        json!({ "metadata": { "name": "a" }, "spec": { kind.replica_specs: { facts.followers: { "template": template } } } })
    }

    fn review(operation: &str, old: Option<&Value>, new: &Value) -> Value {
        let kind = first();
        json!({ "apiVersion": VERSION, "kind": REVIEW, "request": {
            "uid": "u-1", "operation": operation, "object": new, "oldObject": old,
            "kind": { "group": kind.group, "version": kind.version, "kind": kind.name },
        } })
    }

    fn answered(review: &Value) -> Result<Value, String> {
        let mut answer = answer(&Catalog::default(), first(), review.to_string().as_bytes())?;
        assert_eq!(answer["apiVersion"], VERSION);
        assert_eq!(answer["kind"], REVIEW);
        Ok(answer["response"].take())
    }

    #[test]
    fn good_jobs_pass_and_bad_ones_are_refused_with_every_reason() {
        let yes = json!({ "uid": "u-1", "allowed": true, "status": { "code": 200 } });
        assert_eq!(answered(&review("CREATE", None, &job("i"))), Ok(yes));
        let no = answered(&review("CREATE", None, &job(""))).unwrap();
        assert_eq!(no["uid"], "u-1");
        assert_eq!(no["allowed"], false);
        assert_eq!(no["status"]["code"], 403);
        assert_eq!(no["status"]["reason"], "Forbidden");
        let message = no["status"]["message"].as_str().unwrap();
        assert!(
            message.ends_with(".template.spec.containers[0].image: Required value: must be required"),
            "{message}"
        );
    }

    #[test]
    fn an_update_is_compared_with_what_was() {
        let mut managed = job("i");
        managed["spec"]["runPolicy"] = json!({ "managedBy": "kueue.x-k8s.io/multikueue" });
        let no = answered(&review("UPDATE", Some(&job("i")), &managed)).unwrap();
        let message = no["status"]["message"].as_str().unwrap();
        assert!(message.ends_with("\"kueue.x-k8s.io/multikueue\": field is immutable"), "{message}");
        assert_eq!(answered(&review("UPDATE", Some(&managed), &managed)).unwrap()["allowed"], true);
    }

    #[test]
    fn only_writes_of_the_job_itself_are_judged() {
        for operation in ["DELETE", "CONNECT"] {
            assert_eq!(answered(&review(operation, Some(&job("")), &Value::Null)).unwrap()["allowed"], true);
        }
        let mut status = review("UPDATE", None, &job(""));
        status["request"]["subResource"] = json!("status");
        assert_eq!(answered(&status).unwrap()["allowed"], true);
    }

    #[test]
    fn what_is_no_question_is_said_to_be_none() {
        let said = |body: &[u8]| answer(&Catalog::default(), first(), body).unwrap_err();
        assert!(said(b"").starts_with("the body is no JSON"));
        assert!(said(&[b'['; 100_000]).starts_with("the body is no JSON"));
        assert_eq!(said(b"[]"), "the body is no AdmissionReview of admission.k8s.io/v1");
        let with = |pointer: &str, value: Value| {
            let mut review = review("CREATE", None, &job("i"));
            *review.pointer_mut(pointer).unwrap() = value;
            answered(&review).unwrap_err()
        };
        assert!(with("/apiVersion", json!("admission.k8s.io/v1beta1")).starts_with("the body is no"));
        assert_eq!(with("/request/uid", json!(1)), "the AdmissionReview has no request.uid");
        assert_eq!(with("/request/object", json!("a")), "the AdmissionReview has no request.object");
        assert!(with("/request/kind/kind", json!("Pod")).contains("not for \"Pod\""));
        assert_eq!(with("/request", Value::Null), "the AdmissionReview has no request.uid");
    }
}
