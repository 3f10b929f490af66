//! PUT, and what it shares with PATCH.

use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

use super::body::{Input, Kind};
use super::{Call, manager, reply};
use crate::crd;
use crate::failure::Failure;
use crate::object::{carry, meta, set_meta, time};
use crate::rules::update::{self, Scope, Update, settle};
use crate::store::{Outcome, Stored, Written};

pub(crate) async fn update(call: &Call, scope: Scope, input: Input) -> Result<Response, Failure> {
    manager::check(&call.query, "UpdateOptions")?;
    let body = input.object(Kind::of(&call.served)).await?;
    let unconditional = call.served.put_unconditional;
    if scope == Scope::Main && call.served.put_creates && call.app.store.latest(&call.key()).is_none() {
        return super::create::by_name(call, body).await;
    }
    let base = Base::Given { unconditional };
    let (stored, warnings) = modify(call, scope, base, |_| Ok(body.clone())).await?;
    reply::object(200, &call.served, &stored, call.render, &warnings)
}

/// What a replacement is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// What the client sent, which may have to name the version it replaces.
    Given { unconditional: bool },
    /// The stored object.
    Stored,
    /// The stored object, and it already says who owns its fields.
    Owned,
}

/// Replaces an object by what `edit` makes of it. Both are of the request's version. `edit` is asked again when the
/// object changed meanwhile.
pub(crate) async fn modify(
    call: &Call,
    scope: Scope,
    base: Base,
    mut edit: impl FnMut(&Value) -> Result<Value, Failure>,
) -> Result<(Arc<Stored>, Vec<String>), Failure> {
    let served = &call.served;
    let strictness = call.query.strictness()?;
    let (unconditional, patched) = match base {
        Base::Given { unconditional } => (unconditional, false),
        Base::Stored | Base::Owned => (true, true),
    };
    let (namespace, name) = (call.namespace.as_str(), call.name.as_str());
    let (catalog, now) = (call.app.catalog(), time(call.app.now()));
    let track = call.track(&catalog, scope.subresource(), &now);
    let request = Update {
        served,
        scope,
        namespace,
        name,
        strictness,
        unconditional,
        patched,
        track: (base != Base::Owned).then_some(&track),
    };
    let mut warnings = Vec::new();
    let mut before = String::new();
    let decide = |current: Option<&Stored>| {
        let current = current.ok_or_else(|| Failure::not_found(served, &call.name))?;
        let mut old = current.value().map_err(Failure::internal)?;
        served.present(&mut old);
        meta(&old, "resourceVersion").clone_into(&mut before);
        let mut new = edit(&old)?;
        if served.is_core("namespaces") && scope == Scope::Main {
            carry(&mut new, &old, "spec");
        }
        let admitted = update::update(&request, &old, new)?;
        warnings = admitted.warnings;
        let mut new = admitted.object;
        call.check_grant(&new, Some(&old))?;
        if served.is_crd() && scope == Scope::Main {
            crd::establish_as(&track, &mut new, &now);
        }
        Ok(settle(served, &old, new))
    };
    let key = call.key();
    let written = if call.query.dry_run()? {
        call.app.rehearse(&key, decide)?
    } else {
        call.app.transact(&key, &[], decide).await?
    };
    match written {
        Written::Put(stored) | Written::Kept(Some(stored)) => Ok((stored, warnings)),
        // It was never stored like this, so the last version it had is shown.
        Written::Removed(stored) => {
            let mut object = stored.value().map_err(Failure::internal)?;
            set_meta(&mut object, "resourceVersion", before);
            Ok((Arc::new(Stored::rehearsed(&key, &object).map_err(Failure::internal)?), warnings))
        }
        Written::Kept(None) => Err(Failure::not_found(served, &call.name)),
    }
}

/// `namespaces/x/finalize`: the one way to change `spec.finalizers`.
pub(crate) async fn finalize(call: &Call, input: Input) -> Result<Response, Failure> {
    let body = input.object(Kind::of(&call.served)).await?;
    let (catalog, now) = (call.app.catalog(), time(call.app.now()));
    let finalizers = body.pointer("/spec/finalizers").cloned().unwrap_or_else(|| json!([]));
    let served = &call.served;
    let decide = |current: Option<&Stored>| {
        let current = current.ok_or_else(|| Failure::not_found(served, &call.name))?;
        let old = current.value().map_err(Failure::internal)?;
        let mut new = old.clone();
        crate::object::set_at(&mut new, &["spec".into(), "finalizers".into()], finalizers.clone());
        call.track(&catalog, "finalize", &now).updated(&old, &mut new);
        Ok::<Outcome, Failure>(settle(served, &old, new))
    };
    match call.app.transact(&call.key(), &[], decide).await? {
        Written::Put(stored) | Written::Removed(stored) | Written::Kept(Some(stored)) => {
            reply::object(200, served, &stored, call.render, &[])
        }
        Written::Kept(None) => Err(Failure::not_found(served, &call.name)),
    }
}
