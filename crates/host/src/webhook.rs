//! Admission webhooks on a cluster: its API server asks us before it stores a job, as it asked the operator that we
//! replace, through the same configuration, Service and Secret.
//!
//! `keeper` looks after it: it finds the configuration, keeps `certificates` in the `secret`, tells the `configuration`
//! whom to believe, and starts the `server`. All of it runs beside the operator, which never waits for it.

mod certificates;
mod configuration;
mod keeper;
mod secret;
mod server;

pub(crate) use self::keeper::Keeper;

/// Where the webhooks are, and where their certificates are kept.
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// The port to listen on, on every address: the API server is another machine.
    pub port: u16,
    /// The Service through which the API server reaches it.
    pub service: String,
    /// The Secret with the certificates.
    pub secret: String,
    /// The namespace of both.
    pub namespace: String,
}

impl Webhooks {
    /// The name by which the API server knows the server.
    fn dns_name(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }
}

/// What keeps the webhooks from working. It says what to do, since nothing else will happen until somebody does it.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(
        "cannot {action} the ValidatingWebhookConfiguration {}: {why}: let the operator get, list, watch and update \
         validatingwebhookconfigurations, or switch webhooks off with --webhook-server-port=0",
        trainyard_core::admission::CONFIGURATION
    )]
    Configuration { action: &'static str, why: String },
    #[error(
        "cannot {action} the Secret {secret} with the certificates of the webhooks: {why}: let the operator get, list, \
         watch and update secrets in its namespace, name another with --webhook-secret-name, or switch webhooks off \
         with --webhook-server-port=0"
    )]
    Secret { action: &'static str, secret: String, why: String },
    #[error(
        "the Secret {secret}, for the certificates of the webhooks, does not exist and cannot be created: {why}: create \
         an empty one, or switch webhooks off with --webhook-server-port=0"
    )]
    NoSecret { secret: String, why: String },
    #[error("the Secret {secret} was changed by others again and again")]
    Contended { secret: String },
    #[error("{}", chain(.0))]
    Own(#[from] crate::Error),
    #[error("the API server takes too long to answer")]
    Slow,
}

fn chain(error: &crate::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// What the server said, without the rest of its answer.
fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
