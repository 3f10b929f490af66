//! POST to a collection.

use axum::response::Response;
use rand::Rng;
use serde_json::Value;
use std::sync::Arc;

use super::body::{Input, Kind};
use super::{Call, manager, reply};
use crate::admission::Relevant;
use crate::auth::rbac::Ask;
use crate::builtin::{account, priority};
use crate::crd;
use crate::decode::{self, Decoded};
use crate::failure::Failure;
use crate::object::{at, meta, meta_mut, name_in_refusals, time};
use crate::protection;
use crate::rules::admit::{Admitted, Strictness};
use crate::rules::create::{self, Stamp};
use crate::rules::track::Track;
use crate::rules::update::settle;
use crate::store::{Draft, Key, Outcome, Stored, Written, contains};

/// How often a generated name is tried before its collision is the client's to see.
const ATTEMPTS: usize = 8;
/// Letters and digits that make no words and cannot be mistaken for each other.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

fn suffix() -> String {
    let mut random = rand::rng();
    let mut pick = || ALPHABET.get(random.random_range(0..ALPHABET.len())).copied().unwrap_or(b'x');
    (0..5).map(|_| char::from(pick())).collect()
}

pub(crate) async fn create(call: &Call, input: Input) -> Result<Response, Failure> {
    let dry = call.query.dry_run()?;
    let strictness = call.query.strictness()?;
    manager::check(&call.query, "CreateOptions")?;
    let body = input.decode(Kind::of(&call.served)).await?;
    let given = |field| meta(&body.object, field);
    let generated = given("name").is_empty() && !given("generateName").is_empty();
    let now = time(call.app.now());
    let how = How { strictness, dry, owned: None };
    let mut attempt = 1;
    loop {
        let stamp = Stamp {
            namespace: &call.namespace,
            now: &now,
            uid: uuid::Uuid::new_v4().to_string(),
            suffix: &suffix(),
        };
        let body = if generated {
            body.clone()
        } else {
            return once(call, body, &stamp, how).await;
        };
        match once(call, body, &stamp, how).await {
            Err(failure) if failure.code() == 409 && attempt < ATTEMPTS => attempt += 1,
            other => return other,
        }
    }
}

/// PUT to a name that is free, for the kinds that are created so too. The version it names means nothing.
pub(crate) async fn by_name(call: &Call, body: Decoded) -> Result<Response, Failure> {
    authorize(call)?;
    let (name, uid) = (meta(&body.object, "name"), meta(&body.object, "uid"));
    if name.is_empty() {
        let url = &call.name;
        return Err(Failure::bad_request(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        )));
    }
    if !uid.is_empty() {
        return Err(Failure::precondition(&call.served, &call.namespace, &call.name, ("UID", uid, "")));
    }
    named(call, body, None).await
}

/// Whoever writes may also create.
pub(crate) fn authorize(call: &Call) -> Result<(), Failure> {
    let ask = Ask {
        verb: "create".into(),
        group: call.served.group.clone(),
        resource: call.served.plural.clone(),
        namespace: call.namespace.clone(),
        name: call.name.clone(),
        ..Ask::default()
    };
    super::access::check(&call.app, &call.identity, &ask)
}

/// Creates the object of the URL.
pub(crate) async fn named(
    call: &Call,
    mut body: Decoded,
    owned: Option<&[String]>,
) -> Result<Response, Failure> {
    let dry = call.query.dry_run()?;
    let strictness = call.query.strictness()?;
    let name = meta(&body.object, "name");
    if name != call.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        )));
    }
    if let Some(metadata) = meta_mut(&mut body.object) {
        metadata.remove("resourceVersion");
    }
    let now = time(call.app.now());
    let uid = uuid::Uuid::new_v4().to_string();
    let stamp = Stamp { namespace: &call.namespace, now: &now, uid, suffix: "" };
    once(call, body, &stamp, How { strictness, dry, owned }).await
}

/// What only a look at other objects can tell about a new one.
fn consult(call: &Call, body: &mut Value) -> Result<(), Failure> {
    let (app, served) = (&call.app, &call.served);
    match (served.group.as_str(), served.plural.as_str()) {
        ("", "pods") => {
            check_account(call, body)?;
            priority::assign(&app.store, served, body)
        }
        ("scheduling.k8s.io", "priorityclasses") => priority::check_default(&app.store, served, body),
        _ => Ok(()),
    }
}

/// What is odd about a body is said before anything else, or with it.
fn remarked(call: &Call, body: &Decoded, strictness: Strictness, failure: Failure) -> Failure {
    match strictness {
        Strictness::Ignore => failure,
        _ if body.remarks.is_empty() => failure,
        Strictness::Warn => failure.warned(&body.remarks),
        Strictness::Strict => Decoded::strict_error(&body.remarks, body.patched.as_deref(), &call.served),
    }
}

/// How an object is created.
#[derive(Clone, Copy)]
struct How<'a> {
    strictness: Strictness,
    dry: bool,
    /// The object already says who owns its fields, and this is what there was to warn of.
    owned: Option<&'a [String]>,
}

async fn once(call: &Call, body: Decoded, stamp: &Stamp<'_>, how: How<'_>) -> Result<Response, Failure> {
    let mut warnings = how.owned.unwrap_or_default().to_vec();
    let made = make(call, body, stamp, how, &mut warnings).await;
    let stored = made.map_err(|failure| failure.warned(&warnings))?;
    reply::object(201, &call.served, &stored, call.render, &warnings)
}

async fn make(
    call: &Call,
    mut body: Decoded,
    stamp: &Stamp<'_>,
    how: How<'_>,
    warnings: &mut Vec<String>,
) -> Result<Arc<Stored>, Failure> {
    let served = &call.served;
    let catalog = call.app.catalog();
    let track = call.track(&catalog, "", stamp.now);
    let unsent = track.unsent(&body.object);
    let track = Track { unsent: Some(&unsent), ..track };
    if let Err(failure) = consult(call, &mut body.object) {
        return Err(remarked(call, &body, how.strictness, failure));
    }
    let relevant = call.relevant("CREATE");
    let (body, how) = if relevant.mutates() {
        let body = Box::pin(mutated(call, body, stamp, &track, how, &relevant, warnings)).await?;
        (body, How { owned: Some(&[]), ..how })
    } else {
        (body, how)
    };
    let odd = Decoded { object: Value::Null, remarks: body.remarks.clone(), patched: body.patched.clone() };
    let created = create::create(served, body, stamp, how.strictness, how.owned.is_none().then_some(&track));
    let Admitted { mut object, warnings: more } = created.map_err(|failure| {
        let told = !failure.warnings().is_empty();
        if told { failure } else { remarked(call, &odd, how.strictness, failure) }
    })?;
    warnings.extend(more);
    if !relevant.mutates() {
        equip(call, &mut object)?;
    }
    if served.is_core("pods") {
        check_overhead(&object)?;
    }
    call.check_grant(&object, None)?;
    if relevant.validates() {
        let attributes = call.attributes("CREATE", "CreateOptions", Some(object.clone()), None)?;
        check_homes(call, &homes(call), &attributes.name)?;
        warnings.extend(Box::pin(call.app.webhooks.validate(&call.app, &relevant, &attributes)).await?);
    }
    // Kept until the service is stored, or is not.
    let _reserved = match served.is_core("services") {
        true => Some(call.app.reserve(served, &mut object, None)?),
        false => None,
    };
    if served.is_crd() {
        crd::introduce(&mut object);
    }
    served.store_form(&mut object);
    store(call, object, how.dry, stamp.now).await
}

/// Puts a new object where there is none.
async fn store(call: &Call, object: Value, dry: bool, now: &str) -> Result<Arc<Stored>, Failure> {
    let served = &call.served;
    let name = meta(&object, "name").to_owned();
    let key = Key::new(&served.table, &call.namespace, &name);
    let homes = homes(call);
    let draft = Arc::new(Draft::of(&object).map_err(Failure::internal)?);
    // Only a rehearsal needs it still.
    let object = dry.then_some(object);
    let decide = |current: Option<&Stored>| {
        check_homes(call, &homes, &name)?;
        match current {
            Some(current) if current.deleting => Err(Failure::still_exists(served, &name)),
            Some(_) => Err(Failure::already_exists(served, &name)),
            None => Ok(match &object {
                Some(object) => Outcome::Put(object.clone()),
                None => Outcome::Drafted(Arc::clone(&draft)),
            }),
        }
    };
    let written =
        if dry { call.app.rehearse(&key, decide)? } else { call.app.transact(&key, &homes, decide).await? };
    match written {
        Written::Put(stored) => {
            // Its names are looked at right away, so that it is served when the answer arrives.
            if served.is_crd() && !dry {
                establish(call, &key, &stored.uid, now).await?;
            }
            Ok(stored)
        }
        Written::Kept(_) | Written::Removed(_) => Err(Failure::internal("a new object was not stored")),
    }
}

/// What the server adds to a new object that nobody is to own.
fn equip(call: &Call, object: &mut Value) -> Result<(), Failure> {
    if call.served.is_core("pods") && call.app.accounts.is_some() {
        let key = account_key(call, account_name(object));
        // Most accounts say nothing that a pod takes over.
        let says = |stored: &Arc<Stored>| {
            contains(&stored.bytes, b"\"automountServiceAccountToken\":")
                || contains(&stored.bytes, b"\"imagePullSecrets\":")
        };
        let account = call.app.store.latest(&key).filter(says).map(|stored| stored.value()).transpose();
        account::furnish(object, account.map_err(Failure::internal)?.as_ref(), suffix);
    }
    protection::protect(&call.served, object);
    Ok(())
}

fn account_name(pod: &Value) -> &str {
    let text = |field: &str| at(pod, field).and_then(Value::as_str).filter(|name| !name.is_empty());
    text("spec.serviceAccountName").or_else(|| text("spec.serviceAccount")).unwrap_or("default")
}

fn account_key(call: &Call, account: &str) -> Key {
    Key::new(&"/serviceaccounts".into(), &call.namespace, account)
}

/// A pod names a service account that is there. `default` need not be yet: it comes with the namespace.
fn check_account(call: &Call, body: &Value) -> Result<(), Failure> {
    if call.app.accounts.is_none() {
        return Ok(());
    }
    let account = account_name(body);
    if account == "default" || call.app.store.latest(&account_key(call, account)).is_some() {
        return Ok(());
    }
    let namespace = &call.namespace;
    let why = format!(
        "error looking up service account {namespace}/{account}: serviceaccount {account:?} not found"
    );
    Err(Failure::denied("", "pods", name_in_refusals(body), &why))
}

/// What a pod costs beside its containers is said by its RuntimeClass, and there are none.
fn check_overhead(body: &Value) -> Result<(), Failure> {
    if at(body, "spec.overhead").is_none() {
        return Ok(());
    }
    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    Err(Failure::denied("", "pods", name_in_refusals(body), why))
}

/// Accepts the names of a new definition, or says which are taken.
async fn establish(call: &Call, key: &Key, uid: &str, now: &str) -> Result<(), Failure> {
    let decide = |current: Option<&Stored>| {
        let Some(current) = current.filter(|current| &*current.uid == uid) else {
            return Ok(Outcome::Keep);
        };
        let old = current.value().map_err(Failure::internal)?;
        let mut new = old.clone();
        let catalog = call.app.catalog();
        crd::establish_as(&call.track(&catalog, "", now), &mut new, now);
        Ok(settle(&call.served, &old, new))
    };
    call.app.transact(key, &[], decide).await.map(drop)
}

/// The body as webhooks changed it. It says who owns its fields: webhooks own nothing.
async fn mutated(
    call: &Call,
    body: Decoded,
    stamp: &Stamp<'_>,
    track: &Track<'_>,
    how: How<'_>,
    relevant: &Relevant,
    warnings: &mut Vec<String>,
) -> Result<Decoded, Failure> {
    let unsent = track.unsent(&body.object);
    let mut draft = create::draft(&call.served, body, stamp, how.strictness)?;
    if how.owned.is_none() {
        track.created(&mut draft.object, &unsent);
    }
    equip(call, &mut draft.object)?;
    warnings.extend(draft.warnings);
    let mut attributes = call.attributes("CREATE", "CreateOptions", Some(draft.object), None)?;
    check_homes(call, &homes(call), &attributes.name)?;
    warnings.extend(call.app.webhooks.mutate(&call.app, relevant, &mut attributes).await?);
    decode::value(&attributes.object.unwrap_or_default(), &call.served)
}

/// What a new object lives in: its namespace, and its definition.
fn homes(call: &Call) -> Vec<Key> {
    let served = &call.served;
    let namespace = served.namespaced.then(|| call.app.namespace_key(&call.namespace));
    let definition = served.custom.then(|| crd::key(&served.table)).flatten();
    namespace.into_iter().chain(definition).collect()
}

/// Everything a new object lives in exists and takes new objects.
fn check_homes(call: &Call, homes: &[Key], name: &str) -> Result<(), Failure> {
    for key in homes {
        let found = call.app.store.latest(key);
        let terminating = found.as_ref().is_some_and(|stored| stored.deleting);
        if crd::is_table(key.table()) {
            if terminating || found.is_none() {
                let why = "create not allowed while custom resource definition is terminating";
                return Err(Failure::forbidden(&call.served, name, why, None));
            }
        } else if found.is_none() {
            return Err(Failure::namespace_not_found(key.name()));
        } else if terminating {
            let namespace = key.name();
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let cause = format!("namespace {namespace} is being terminated");
            return Err(Failure::forbidden(&call.served, name, &why, Some(("NamespaceTerminating", &cause))));
        }
    }
    Ok(())
}
