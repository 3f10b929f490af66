//! Webhook configurations, read once into what is asked of every write.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

use crate::object::meta;
use crate::schema::Condition;
use crate::selector::LabelSelector;
use crate::store::Stored;

/// What a webhook is given if it does not say.
const DEFAULT_SECONDS: u64 = 10;
const MOST_SECONDS: u64 = 30;

/// One webhook, ready to be asked.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(super) name: String,
    /// Tells it from others of the same name.
    pub(super) id: String,
    pub(super) rules: Vec<Rule>,
    pub(super) namespaces: LabelSelector,
    pub(super) objects: LabelSelector,
    /// What has to hold before it is called, or why that cannot be said.
    pub(super) conditions: Vec<Result<Condition, String>>,
    pub(super) equivalent: bool,
    pub(super) ignores_failures: bool,
    pub(super) dry_runs: bool,
    pub(super) reinvoke: bool,
    pub(super) timeout: Duration,
    pub(super) versions: Vec<String>,
    pub(super) target: Target,
    /// Certificates its server is checked with.
    pub(super) roots: Vec<CertificateDer<'static>>,
    /// The same as text, to find connections by.
    pub(super) bundle: String,
}

/// Where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    Url(String),
    Service {
        namespace: String,
        name: String,
        port: u16,
        path: String,
    },
    /// Nowhere that can be called.
    Nowhere,
}

/// `RuleWithOperations`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Rule {
    pub(super) operations: Vec<String>,
    pub(super) api_groups: Vec<String>,
    pub(super) api_versions: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) scope: Option<String>,
}

/// The webhooks of a configuration, in its order.
pub(super) fn hooks(stored: &Stored) -> Vec<Arc<Hook>> {
    let Ok(object) = stored.value() else { return Vec::new() };
    let configuration = meta(&object, "name");
    let list = object.get("webhooks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let read = |(index, hook): (usize, &Value)| Arc::new(hook_of(configuration, index, hook));
    list.iter().enumerate().map(read).collect()
}

fn hook_of(configuration: &str, index: usize, hook: &Value) -> Hook {
    let text = |field: &str| hook.get(field).and_then(Value::as_str).unwrap_or_default();
    let selector = |field: &str| {
        let everything = Value::Object(serde_json::Map::new());
        let given = hook.get(field).filter(|selector| !selector.is_null()).unwrap_or(&everything);
        // What is stored was valid; a selector that no longer reads selects everything, so that nothing is let by.
        LabelSelector::from_object(given).unwrap_or_default()
    };
    let seconds = hook.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(DEFAULT_SECONDS);
    let bundle = hook.pointer("/clientConfig/caBundle").and_then(Value::as_str).unwrap_or_default();
    Hook {
        name: text("name").to_owned(),
        id: format!("{configuration}/{}/{index}", text("name")),
        rules: serde_json::from_value(hook.get("rules").cloned().unwrap_or_default()).unwrap_or_default(),
        namespaces: selector("namespaceSelector"),
        objects: selector("objectSelector"),
        conditions: conditions(hook),
        equivalent: text("matchPolicy") != "Exact",
        ignores_failures: text("failurePolicy") == "Ignore",
        dry_runs: ["None", "NoneOnDryRun"].contains(&text("sideEffects")),
        reinvoke: text("reinvocationPolicy") == "IfNeeded",
        timeout: Duration::from_secs(seconds.clamp(1, MOST_SECONDS)),
        versions: strings(hook.get("admissionReviewVersions")),
        target: target(hook.get("clientConfig")),
        roots: roots(bundle),
        bundle: bundle.to_owned(),
    }
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn conditions(hook: &Value) -> Vec<Result<Condition, String>> {
    let list = hook.get("matchConditions").and_then(Value::as_array).into_iter().flatten();
    list.map(|condition| {
        let expression = condition.get("expression").and_then(Value::as_str).unwrap_or_default();
        Condition::compile(expression)
    })
    .collect()
}

fn target(config: Option<&Value>) -> Target {
    let Some(config) = config else { return Target::Nowhere };
    if let Some(url) = config.get("url").and_then(Value::as_str) {
        return Target::Url(url.to_owned());
    }
    let Some(service) = config.get("service").filter(|service| service.is_object()) else {
        return Target::Nowhere;
    };
    let text = |field: &str| service.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let port = service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
    Target::Service {
        namespace: text("namespace"),
        name: text("name"),
        port: port.unwrap_or(443),
        path: text("path"),
    }
}

fn roots(bundle: &str) -> Vec<CertificateDer<'static>> {
    let pem = STANDARD.decode(bundle).unwrap_or_default();
    CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect()
}
