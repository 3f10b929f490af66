//! `serviceaccounts/x/token`: a token for a service account.

use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

use super::body::{Input, Kind};
use super::{Call, reply};
use crate::auth::Accounts;
use crate::auth::accounts::{Bound, Claims, Private};
use crate::failure::{Cause, Failure};
use crate::object::{at, meta, set_at, time};
use crate::rules::track::OneVersion;
use crate::store::{Key, Stored};

const GROUP: &str = "authentication.k8s.io";
const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
const DEFAULT_SECONDS: i64 = 60 * 60;
const FEWEST_SECONDS: i64 = 10 * 60;
const MOST_SECONDS: i64 = 1 << 32;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    audiences: Vec<String>,
    expiration_seconds: Option<i64>,
    bound_object_ref: Option<Reference>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reference {
    kind: String,
    api_version: String,
    name: String,
    uid: String,
}

pub(super) async fn create(call: &Call, accounts: &Accounts, input: Input) -> Result<Response, Failure> {
    let body = input.object(Kind::named(GROUP, "v1", KIND)).await?;
    let body = call.ask_about((GROUP, "v1", KIND), body).await?;
    for (field, given, own) in
        [("name", meta(&body, "name"), &call.name), ("namespace", meta(&body, "namespace"), &call.namespace)]
    {
        if !given.is_empty() && given != own {
            let why = format!("must match the service account {field} if specified");
            let cause = Cause::invalid(format!("metadata.{field}"), given, &why);
            return Err(Failure::invalid_kind(KIND, GROUP, &call.name, vec![cause]));
        }
    }
    let owners = owners(call, &body);
    let account =
        call.app.store.get(&call.key()).ok_or_else(|| Failure::not_found(&call.served, &call.name))?;
    let uid = meta(&body, "uid");
    if !uid.is_empty() && *uid != *account.uid {
        let why = format!(
            "the UID in the token request ({uid}) does not match the UID of the service account ({})",
            account.uid
        );
        return Err(Failure::conflict_of(KIND, GROUP, &call.name, &why));
    }
    let mut given = body.get("spec").filter(|spec| !spec.is_null()).cloned().unwrap_or_else(|| json!({}));
    crate::object::drop_nulls(&mut given);
    let mut spec: Spec = serde_json::from_value(given)
        .map_err(|error| Failure::bad_request(format!("the object provided is unrecognized: {error}")))?;
    if spec.audiences.is_empty() {
        spec.audiences = accounts.audiences();
    }
    let mut response = issue(call, accounts, &account, &spec)?;
    set_at(&mut response, &["metadata".into(), "managedFields".into()], owners);
    Ok(reply::json(201, response.to_string()))
}

/// Who owns what of a request, which is all that is kept of it.
fn owners(call: &Call, body: &Value) -> Value {
    let mut request = json!({"metadata": {}, "spec": body.get("spec").cloned().unwrap_or_else(|| json!({}))});
    crate::object::drop_nulls(&mut request);
    if let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("expirationSeconds").or_insert_with(|| DEFAULT_SECONDS.into());
    }
    let now = time(call.app.now());
    let catalog = call.app.catalog();
    let writer = call.track(&catalog, "token", &now).writer;
    OneVersion { api_version: API_VERSION, kind: KIND }.created(&writer, &mut request);
    request.pointer_mut("/metadata/managedFields").map(Value::take).unwrap_or_default()
}

fn issue(call: &Call, accounts: &Accounts, account: &Stored, spec: &Spec) -> Result<Value, Failure> {
    let seconds = lifetime(spec)?;
    let mut private = Private {
        namespace: call.namespace.clone(),
        serviceaccount: Bound { name: call.name.clone(), uid: (*account.uid).into() },
        ..Private::default()
    };
    if let Some(reference) = &spec.bound_object_ref {
        bind(call, reference, &mut private)?;
    }
    let now = call.app.now();
    let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    let claims = Claims {
        audiences: spec.audiences.clone(),
        expires: Some(end.as_second()),
        issued: now.as_second(),
        id: uuid::Uuid::new_v4().to_string(),
        private,
    };
    let token = accounts.sign(&claims).map_err(Failure::internal)?;
    let bound = spec.bound_object_ref.as_ref().map(|reference| {
        let mut shown = json!({"kind": reference.kind, "name": reference.name});
        for (field, text) in [("apiVersion", &reference.api_version), ("uid", &reference.uid)] {
            if let (false, Some(map)) = (text.is_empty(), shown.as_object_mut()) {
                map.insert(field.into(), text.as_str().into());
            }
        }
        shown
    });
    Ok(json!({
        "kind": KIND, "apiVersion": API_VERSION,
        "metadata": {"name": call.name, "namespace": call.namespace, "uid": &*account.uid, "creationTimestamp": time(now)},
        "spec": {"audiences": spec.audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
        "status": {"token": token, "expirationTimestamp": time(end)},
    }))
}

fn lifetime(spec: &Spec) -> Result<i64, Failure> {
    let seconds = spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
    let why = match seconds {
        ..FEWEST_SECONDS => "may not specify a duration less than 10 minutes",
        FEWEST_SECONDS..=MOST_SECONDS => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let cause = Cause::invalid("spec.expirationSeconds", seconds, why);
    Err(Failure::invalid_kind(KIND, GROUP, "", vec![cause]))
}

/// Binds a token to an object: it ends with it.
fn bind(call: &Call, reference: &Reference, private: &mut Private) -> Result<(), Failure> {
    let bound = match (reference.api_version.as_str(), reference.kind.as_str()) {
        ("v1" | "", "Pod") => {
            let pod = find(call, "pods", &call.namespace, &reference.name)?;
            let object = pod.value().map_err(Failure::internal)?;
            let text = |path: &str| at(&object, path).and_then(Value::as_str).unwrap_or_default();
            if text("spec.serviceAccountName") != call.name {
                return Err(Failure::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    call.name
                )));
            }
            let node = text("spec.nodeName");
            if !node.is_empty() {
                let uid =
                    find(call, "nodes", "", node).map(|node| (*node.uid).to_owned()).unwrap_or_default();
                private.node = Some(Bound { name: node.into(), uid });
            }
            private.pod.insert(named(&pod)).clone()
        }
        ("v1" | "", "Secret") => {
            private.secret.insert(named(&*find(call, "secrets", &call.namespace, &reference.name)?)).clone()
        }
        ("v1" | "", "Node") => {
            private.node.insert(named(&*find(call, "nodes", "", &reference.name)?)).clone()
        }
        (api_version, kind) => {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            return Err(Failure::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    if !reference.uid.is_empty() && reference.uid != bound.uid {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
             deleted and then recreated",
            reference.uid
        );
        return Err(Failure::conflict_of(&reference.kind, "", &reference.name, &why));
    }
    Ok(())
}

fn named(stored: &Stored) -> Bound {
    Bound { name: stored.key.name().into(), uid: (*stored.uid).into() }
}

fn find(call: &Call, plural: &str, namespace: &str, name: &str) -> Result<Arc<Stored>, Failure> {
    let catalog = call.app.catalog();
    let served = catalog.get("", "v1", plural).ok_or_else(|| Failure::missing("there are none"))?;
    let found = call.app.store.get(&Key::new(&served.table, namespace, name));
    found.ok_or_else(|| Failure::not_found(served, name))
}
