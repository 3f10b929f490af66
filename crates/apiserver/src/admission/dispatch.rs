//! Who is asked when, and what becomes of answers and failures.

use bytes::Bytes;
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;

use super::config::Hook;
use super::review::{self, Answer, Attributes, denied};
use super::{Relevant, Webhooks};
use crate::app::App;
use crate::failure::Failure;
use crate::patch;
use crate::rules::admit;

impl Webhooks {
    /// Shows the object to all who may change it, one after the other. Those who asked for it see it once more when
    /// others changed it after them.
    pub(crate) async fn mutate(
        &self,
        app: &App,
        relevant: &Relevant,
        attributes: &mut Attributes<'_>,
    ) -> Result<Vec<String>, Failure> {
        let mut warnings = Vec::new();
        let (mut asked, mut again) = (BTreeSet::new(), BTreeSet::new());
        for (hook, version) in &relevant.mutating {
            let changed = self.ask_to_change(app, hook, version, attributes, &mut warnings).await?;
            let Some(changed) = changed else { continue };
            if changed {
                again.append(&mut asked);
            }
            if hook.reinvoke {
                asked.insert(hook.id.as_str());
            }
        }
        for (hook, version) in relevant.mutating.iter().filter(|(hook, _)| again.contains(hook.id.as_str())) {
            self.ask_to_change(app, hook, version, attributes, &mut warnings).await?;
        }
        Ok(warnings)
    }

    /// Asks one; whether it changed the object, nothing if it did not want to be asked.
    async fn ask_to_change(
        &self,
        app: &App,
        hook: &Hook,
        version: &str,
        attributes: &mut Attributes<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<bool>, Failure> {
        let Some(answer) = self.ask(app, hook, version, attributes, true).await? else {
            return Ok(None);
        };
        let Some(answer) = answer else { return Ok(Some(false)) };
        warnings.extend(answer.warnings);
        let Some(operations) = answer.patch else { return Ok(Some(false)) };
        let Some(object) = attributes.object.as_mut() else {
            let name = &hook.name;
            let why = format!(
                "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
            );
            return Err(Failure::internal_cause(&why));
        };
        let before = object.clone();
        patch::json(object, &operations).map_err(|error| Failure::internal_cause(&error.to_string()))?;
        let changed = *object != before;
        if changed && attributes.kind.is_none() {
            admit::default(attributes.place.served, object, attributes.old.is_none());
        }
        Ok(Some(changed))
    }

    /// Shows the object to all who may refuse it, at once. The first in order who refuses is the one that is named.
    pub(crate) async fn validate(
        &self,
        app: &App,
        relevant: &Relevant,
        attributes: &Attributes<'_>,
    ) -> Result<Vec<String>, Failure> {
        let asked =
            relevant.validating.iter().map(|(hook, version)| self.ask(app, hook, version, attributes, false));
        let mut warnings = Vec::new();
        for validator in &relevant.inside {
            warnings.extend(validator.ask(attributes)?);
        }
        for answer in join_all(asked).await {
            if let Some(Some(answer)) = answer? {
                warnings.extend(answer.warnings);
            }
        }
        Ok(warnings)
    }

    /// Asks one webhook. Nothing: it did not want to be asked. No answer: it failed, and is to be ignored then.
    async fn ask(
        &self,
        app: &App,
        hook: &Hook,
        version: &str,
        attributes: &Attributes<'_>,
        mutating: bool,
    ) -> Result<Option<Option<Answer>>, Failure> {
        let uid = uuid::Uuid::new_v4().to_string();
        let request = attributes.request(&uid, version);
        if !hook.selects(app, attributes, &request)? {
            return Ok(None);
        }
        if attributes.dry && !hook.dry_runs {
            let name = &hook.name;
            return Err(Failure::bad_request(format!("admission webhook {name:?} does not support dry run")));
        }
        match self.call(app, hook, &uid, request, mutating).await {
            Ok(answer) if answer.allowed => Ok(Some(Some(answer))),
            Ok(answer) => Err(denied(&hook.name, &answer.result)),
            Err(why) if hook.ignores_failures => {
                tracing::warn!(webhook = hook.name, why, "failed calling webhook, going on without it");
                Ok(Some(None))
            }
            Err(why) => {
                Err(Failure::internal_cause(&format!("failed calling webhook {:?}: {why}", hook.name)))
            }
        }
    }

    async fn call(
        &self,
        app: &App,
        hook: &Hook,
        uid: &str,
        request: Value,
        mutating: bool,
    ) -> Result<Answer, String> {
        let version = review::version(hook)?;
        let body = json!({
            "kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request,
        });
        let bytes = self.client.ask(app, hook, Bytes::from(body.to_string())).await?;
        let answer: Value = serde_json::from_slice(&bytes).map_err(|error| {
            format!("failed to call webhook: couldn't get version/kind; json parse error: {error}")
        })?;
        review::read(&answer, version, uid, mutating)
    }
}
