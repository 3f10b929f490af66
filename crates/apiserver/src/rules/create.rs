//! What a new object looks like.

use serde_json::Value;

use super::admit::{self, Admitted, Strictness, admit};
use super::track::Track;
use super::update::Scope;
use crate::decode::Decoded;
use crate::failure::Failure;
use crate::object::{meta, meta_mut, set_meta};
use crate::registry::Served;

/// What the server adds to a new object.
#[derive(Clone, Debug)]
pub(crate) struct Stamp<'a> {
    /// The namespace of the URL; empty when cluster-scoped.
    pub(crate) namespace: &'a str,
    pub(crate) now: &'a str,
    pub(crate) uid: String,
    /// The random end of a generated name; empty for an object that a PUT or a configuration makes.
    pub(crate) suffix: &'a str,
}

/// Fields only the server writes; what a client sends there is ignored.
const SERVER_OWNED: &[&str] =
    &["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// Takes out of a request body what is not the client's to say.
fn clean(served: &Served, object: &mut Value, stamp: &Stamp<'_>) -> Result<(), Failure> {
    namespace(served, object, stamp.namespace)?;
    if !meta(object, "resourceVersion").is_empty() {
        return Err(Failure::unexpected("resourceVersion should not be set on objects to be created"));
    }
    if let Some(metadata) = meta_mut(object) {
        // What does not come by POST may say that it is being deleted.
        let wiped = if stamp.suffix.is_empty() { &["selfLink"] } else { SERVER_OWNED };
        for field in wiped {
            metadata.remove(*field);
        }
    }
    Ok(())
}

/// Makes of a request body what webhooks are shown: it has its defaults, and no identity yet.
pub(crate) fn draft(
    served: &Served,
    mut decoded: Decoded,
    stamp: &Stamp<'_>,
    strictness: Strictness,
) -> Result<Admitted, Failure> {
    clean(served, &mut decoded.object, stamp)?;
    admit::draft(served, decoded, true, strictness)
}

/// Makes of a request body the object to be stored.
pub(crate) fn create(
    served: &Served,
    decoded: Decoded,
    stamp: &Stamp<'_>,
    strictness: Strictness,
    track: Option<&Track<'_>>,
) -> Result<Admitted, Failure> {
    let Decoded { mut object, remarks, patched } = decoded;
    clean(served, &mut object, stamp)?;
    if let Some(metadata) = meta_mut(&mut object) {
        metadata.insert("uid".into(), stamp.uid.as_str().into());
        metadata.insert("creationTimestamp".into(), stamp.now.into());
        if served.generation {
            metadata.insert("generation".into(), 1.into());
        }
    }
    let prefix = meta(&object, "generateName");
    if meta(&object, "name").is_empty() && !prefix.is_empty() {
        let kept: String = prefix.chars().take(served.names.generate_limit()).collect();
        set_meta(&mut object, "name", format!("{kept}{}", stamp.suffix));
    }
    // A node registers itself with all it knows.
    let kept = served.is_core("nodes") && object.get("status").is_some_and(Value::is_object);
    if let (true, Some(map)) = (served.status && !kept, object.as_object_mut()) {
        map.remove("status");
        let message = served.message;
        if let Some(nothing) = message.and_then(|message| message.field("status")?.zero()) {
            map.insert("status".into(), nothing);
        }
    }
    admit(served, Decoded { object, remarks, patched }, None, (Scope::Main, strictness), track)
}

/// The namespace of the body is that of the URL, or missing.
pub(crate) fn namespace(served: &Served, object: &mut Value, namespace: &str) -> Result<(), Failure> {
    let given = meta(object, "namespace");
    if served.namespaced && !given.is_empty() && given != namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if let Some(metadata) = meta_mut(object) {
        if served.namespaced {
            metadata.insert("namespace".into(), namespace.into());
        } else {
            metadata.remove("namespace");
        }
    }
    Ok(())
}
