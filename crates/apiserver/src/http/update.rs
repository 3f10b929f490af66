//! PUT, and what it shares with PATCH.

use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

use super::body::{Input, Kind};
use super::{Call, manager, reply};
use crate::admission::{Attributes, Relevant};
use crate::app::ATTEMPTS;
use crate::builtin::addresses::Reservation;
use crate::crd;
use crate::decode::{self, Decoded};
use crate::failure::Failure;
use crate::object::{carry, is_deleting, meta, names, set_meta, time};
use crate::rules::admit::Strictness;
use crate::rules::track::Track;
use crate::rules::update::{self, Scope, Update, settle};
use crate::rules::{admit, create, scale};
use crate::store::{Key, Outcome, Stored, Written};

pub(crate) async fn update(call: &Call, scope: Scope, input: Input) -> Result<Response, Failure> {
    manager::check(&call.query, "UpdateOptions")?;
    let body = input.decode(Kind::of(&call.served)).await?;
    let unconditional = call.served.put_unconditional;
    if scope == Scope::Main && call.served.put_creates && call.app.store.latest(&call.key()).is_none() {
        let created = super::create::by_name(call, body.clone()).await;
        return created.map_err(|failure| earlier(call, body, failure));
    }
    let base = Base::Given { unconditional };
    let modified = modify(call, scope, base, |_| Ok(body.clone())).await;
    let (stored, warnings) = modified.map_err(|failure| earlier(call, body, failure))?;
    reply::object(200, &call.served, &stored, call.render, &warnings)
}

/// What is wrong with the body by itself is said before anything else, and what is odd about it is said with everything.
fn earlier(call: &Call, body: Decoded, failure: Failure) -> Failure {
    let check = |mut body: Decoded| {
        let named = update::check_name(&call.name, &body.object);
        let placed = create::namespace(&call.served, &mut body.object, &call.namespace);
        let drafted = admit::draft(&call.served, body, false, call.query.strictness()?)?;
        match placed.and(named) {
            Ok(()) => Ok(drafted.warnings),
            Err(failure) => Err(failure.warned(&drafted.warnings)),
        }
    };
    match check(body) {
        Err(earlier) => earlier,
        Ok(_) if !failure.warnings().is_empty() => failure,
        Ok(warnings) => failure.warned(&warnings),
    }
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
    mut edit: impl FnMut(&Value) -> Result<Decoded, Failure> + Send,
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
    let tracked = base != Base::Owned;
    let mut change = Change {
        call,
        request,
        track: &track,
        tracked,
        now: &now,
        warnings: Vec::new(),
        before: String::new(),
        last: None,
        reserved: None,
    };
    let key = call.key();
    let relevant = call.relevant("UPDATE");
    let written = if !relevant.is_empty() {
        Box::pin(change.ask(&key, &relevant, &mut edit)).await
    } else if call.query.dry_run()? {
        call.app.rehearse(&key, |current| change.decide(current, &mut edit))
    } else {
        call.app.transact(&key, &[], |current| change.decide(current, &mut edit)).await
    };
    let Change { warnings, before, last, .. } = change;
    match written.map_err(|failure| failure.warned(&warnings))? {
        Written::Put(stored) | Written::Kept(Some(stored)) => Ok((stored, warnings)),
        // It was never stored like this, so the last version it had is shown.
        Written::Removed(stored) => {
            let mut object = last.map_or_else(|| stored.value().map_err(Failure::internal), Ok)?;
            served.store_form(&mut object);
            set_meta(&mut object, "resourceVersion", before);
            Ok((Arc::new(Stored::rehearsed(&key, &object).map_err(Failure::internal)?), warnings))
        }
        Written::Kept(None) => Err(Failure::not_found(served, &call.name)),
    }
}

/// A replacement on its way, and what is to be said about it.
struct Change<'a> {
    call: &'a Call,
    request: Update<'a>,
    track: &'a Track<'a>,
    /// Whether the replacement does not say yet who owns its fields.
    tracked: bool,
    now: &'a str,
    warnings: Vec<String>,
    /// The version it replaces.
    before: String,
    /// The replacement, if it is the end of the object.
    last: Option<Value>,
    /// Addresses of a service, kept until it is stored, or is not.
    reserved: Option<Reservation>,
}

impl Change<'_> {
    fn decide(
        &mut self,
        current: Option<&Stored>,
        edit: &mut impl FnMut(&Value) -> Result<Decoded, Failure>,
    ) -> Result<Outcome, Failure> {
        let old = self.old(current)?;
        let new = self.wanted(&old, edit)?;
        self.warnings.clear();
        let new = self.settled(&old, new)?;
        Ok(self.outcome(&old, new))
    }

    /// What becomes of the object; the answer shows it as it was wanted, also if that was its end.
    fn outcome(&mut self, old: &Value, new: Value) -> Outcome {
        let wanted = is_deleting(&new).then(|| new.clone());
        let outcome = settle(&self.call.served, old, new);
        self.last = wanted.filter(|_| matches!(outcome, Outcome::Remove(_)));
        outcome
    }

    /// The stored object in the version of the request.
    fn old(&mut self, current: Option<&Stored>) -> Result<Value, Failure> {
        let current = current.ok_or_else(|| Failure::not_found(&self.call.served, &self.call.name))?;
        let mut old = current.value().map_err(Failure::internal)?;
        self.call.served.present(&mut old);
        meta(&old, "resourceVersion").clone_into(&mut self.before);
        Ok(old)
    }

    /// What the client wants instead.
    fn wanted(
        &self,
        old: &Value,
        edit: &mut impl FnMut(&Value) -> Result<Decoded, Failure>,
    ) -> Result<Decoded, Failure> {
        let mut new = edit(old)?;
        if self.call.served.is_core("namespaces") && self.request.scope == Scope::Main {
            carry(&mut new.object, old, "spec");
        }
        Ok(new)
    }

    /// What is to be stored, checked.
    fn settled(&mut self, old: &Value, new: Decoded) -> Result<Value, Failure> {
        let call = self.call;
        // What a schema does not know is found later.
        let remarks = if call.served.custom { Vec::new() } else { new.remarks.clone() };
        let remarks = match self.request.strictness {
            Strictness::Ignore => Vec::new(),
            Strictness::Warn => remarks,
            Strictness::Strict if remarks.is_empty() => remarks,
            Strictness::Strict => {
                return Err(Decoded::strict_error(&remarks, new.patched.as_deref(), &call.served));
            }
        };
        let admitted = update::update(&self.request, old, new).map_err(|failure| {
            if failure.warnings().is_empty() { failure.warned(&remarks) } else { failure }
        })?;
        self.warnings.extend(admitted.warnings);
        let mut new = admitted.object;
        call.check_grant(&new, Some(old))?;
        if call.served.is_crd() && self.request.scope == Scope::Main {
            crd::establish_as(self.track, &mut new, self.now);
        }
        if call.served.is_core("services") && self.request.scope == Scope::Main {
            // The one before is given back first.
            self.reserved = None;
            self.reserved = Some(call.app.reserve(&call.served, &mut new, Some(old))?);
        }
        Ok(new)
    }

    /// Asks webhooks, and writes what they were asked about: if the object is another one by then, they are asked again.
    async fn ask(
        &mut self,
        key: &Key,
        relevant: &Relevant,
        edit: &mut (impl FnMut(&Value) -> Result<Decoded, Failure> + Send),
    ) -> Result<Written, Failure> {
        let call = self.call;
        let (served, dry) = (&call.served, call.query.dry_run()?);
        for _ in 0..ATTEMPTS {
            let seen = call.app.store.latest(key);
            self.request.track = self.tracked.then_some(self.track);
            let old = self.old(seen.as_deref())?;
            let mut new = self.wanted(&old, edit)?;
            self.warnings.clear();
            if relevant.mutates() {
                new = self.mutated(relevant, &old, new).await?;
            }
            let new = self.settled(&old, new)?;
            if relevant.validates() {
                let attributes = self.attributes(new.clone(), old.clone())?;
                let more = call.app.webhooks.validate(&call.app, relevant, &attributes).await?;
                self.warnings.extend(more);
            }
            let outcome = self.outcome(&old, new);
            if let Some(written) = call.app.put_if(served, key, seen.as_deref(), &outcome, dry).await? {
                return Ok(written);
            }
        }
        Err(Failure::modified(served, &call.name))
    }

    async fn mutated(&mut self, relevant: &Relevant, old: &Value, new: Decoded) -> Result<Decoded, Failure> {
        let call = self.call;
        let mut draft = update::draft(&self.request, old, new)?;
        // Webhooks own nothing: what they change is nobody's.
        if self.tracked {
            self.track.updated(old, &mut draft.object);
            self.request.track = None;
        }
        self.warnings.extend(draft.warnings);
        let mut attributes = self.attributes(draft.object.clone(), old.clone())?;
        let more = call.app.webhooks.mutate(&call.app, relevant, &mut attributes).await?;
        let mutated = attributes.object.unwrap_or_default();
        self.warnings.extend(more);
        match call.served.scale.as_ref().filter(|_| call.subresource == "scale") {
            Some(paths) => {
                let scaled = scale::apply(&call.served, paths, &draft.object, &mutated)?;
                decode::value(&scaled, &call.served)
            }
            None => decode::value(&mutated, &call.served),
        }
    }

    /// What webhooks are told; of a scale, only that.
    fn attributes(&self, new: Value, old: Value) -> Result<Attributes<'_>, Failure> {
        let options = if self.request.patched { "PatchOptions" } else { "UpdateOptions" };
        let scaled = self.call.served.scale.as_ref().filter(|_| self.call.subresource == "scale");
        let shown =
            |object: Value| scaled.map_or_else(|| object.clone(), |paths| scale::show(paths, &object));
        let mut attributes = self.call.attributes("UPDATE", options, Some(shown(new)), Some(shown(old)))?;
        if scaled.is_some() {
            attributes.kind = Some(("autoscaling", "v1", "Scale"));
        }
        Ok(attributes)
    }
}

/// `namespaces/x/finalize`: the one way to change `spec.finalizers`.
pub(crate) async fn finalize(call: &Call, input: Input) -> Result<Response, Failure> {
    let body = input.object(Kind::of(&call.served)).await?;
    let (catalog, now) = (call.app.catalog(), time(call.app.now()));
    let finalizers = body.pointer("/spec/finalizers").cloned().unwrap_or_else(|| json!([]));
    let names: Vec<&str> = finalizers.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut causes = Vec::new();
    names::namespace_finalizers(&names, &mut causes);
    if !causes.is_empty() {
        return Err(Failure::invalid(&call.served, &call.name, causes));
    }
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
