//! What webhooks are told of a request, and who among them could want to be.

use serde_json::{Value, json};

use super::Call;
use crate::admission::{Attributes, Place, Relevant};
use crate::failure::Failure;
use crate::object::meta;

/// Group, version and kind of what is sent to a subresource.
pub(super) type Gvk = (&'static str, &'static str, &'static str);

impl Call {
    fn place(&self, operation: &'static str) -> Place<'_> {
        Place { served: &self.served, subresource: &self.subresource, operation }
    }

    /// Whom to ask about this request.
    pub(super) fn relevant(&self, operation: &'static str) -> Relevant {
        self.app.webhooks.relevant(&self.app.catalog(), &self.place(operation))
    }

    /// What they are told. `options` is the kind of the request's options.
    pub(super) fn attributes(
        &self,
        operation: &'static str,
        options: &str,
        object: Option<Value>,
        old: Option<Value>,
    ) -> Result<Attributes<'_>, Failure> {
        let named =
            object.as_ref().map(|object| meta(object, "name").to_owned()).filter(|_| self.name.is_empty());
        let name = named.unwrap_or_else(|| self.name.clone());
        // A namespace is in itself.
        let namespace = if self.served.is_core("namespaces") { name.clone() } else { self.namespace.clone() };
        Ok(Attributes {
            place: self.place(operation),
            kind: None,
            namespace,
            name,
            identity: &self.identity,
            object,
            old,
            options: self.options(options)?,
            dry: self.query.dry_run()?,
        })
    }

    fn options(&self, kind: &str) -> Result<Value, Failure> {
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        let Some(map) = options.as_object_mut() else { return Ok(options) };
        for field in ["fieldManager", "fieldValidation"] {
            if !self.query.get(field).is_empty() {
                map.insert(field.into(), self.query.get(field).into());
            }
        }
        if self.query.dry_run()? {
            map.insert("dryRun".into(), json!(["All"]));
        }
        if self.query.flag("force") {
            map.insert("force".into(), true.into());
        }
        Ok(options)
    }

    /// Asks about something that is done and not stored: a binding, an eviction, a token. Gives it back as webhooks
    /// changed it.
    pub(super) async fn ask_about(&self, kind: Gvk, object: Value) -> Result<Value, Failure> {
        let relevant = self.relevant("CREATE");
        if relevant.is_empty() {
            return Ok(object);
        }
        let mut attributes = self.attributes("CREATE", "CreateOptions", Some(object), None)?;
        attributes.kind = Some(kind);
        Box::pin(self.app.webhooks.mutate(&self.app, &relevant, &mut attributes)).await?;
        Box::pin(self.app.webhooks.validate(&self.app, &relevant, &attributes)).await?;
        Ok(attributes.object.unwrap_or_default())
    }

    /// Asks about a connection to a pod.
    pub(super) async fn ask_to_connect(&self) -> Result<(), Failure> {
        let relevant = self.relevant("CONNECT");
        if relevant.is_empty() {
            return Ok(());
        }
        let kind = match self.subresource.as_str() {
            "exec" => "PodExecOptions",
            "attach" => "PodAttachOptions",
            _ => "PodPortForwardOptions",
        };
        let mut object = json!({"kind": kind, "apiVersion": "v1"});
        if let Some(map) = object.as_object_mut() {
            for stream in
                ["stdin", "stdout", "stderr", "tty"].into_iter().filter(|name| self.query.flag(name))
            {
                map.insert(stream.into(), true.into());
            }
            if !self.query.get("container").is_empty() {
                map.insert("container".into(), self.query.get("container").into());
            }
            let command: Vec<&str> = self.query.all("command").collect();
            if !command.is_empty() {
                map.insert("command".into(), command.into());
            }
        }
        let mut attributes = self.attributes("CONNECT", "", Some(object), None)?;
        attributes.kind = Some(("", "v1", kind));
        attributes.options = Value::Null;
        Box::pin(self.app.webhooks.mutate(&self.app, &relevant, &mut attributes)).await?;
        Box::pin(self.app.webhooks.validate(&self.app, &relevant, &attributes)).await?;
        Ok(())
    }
}
