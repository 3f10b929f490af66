//! Flags about the webhooks.

/// The webhooks with which jobs are checked before they are stored.
#[derive(clap::Args)]
pub(super) struct Webhooks {
    /// Port of the admission webhooks, once their configuration is installed (config/webhook); 0 for none.
    #[arg(long, default_value_t = 9443, value_name = "PORT")]
    webhook_server_port: u16,
    /// The Service through which the API server reaches them.
    #[arg(long, default_value = "training-operator", value_name = "NAME")]
    webhook_service_name: String,
    /// The Secret in which their certificates are kept, and renewed.
    #[arg(long, default_value = "training-operator-webhook-cert", value_name = "NAME")]
    webhook_secret_name: String,
    /// The namespace of that Service and that Secret.
    #[arg(long, env = "MY_POD_NAMESPACE", default_value = "kubeflow", value_name = "NAME")]
    webhook_namespace: String,
}

impl Webhooks {
    /// Nothing if there shall be none.
    pub(super) fn options(&self) -> Option<trainyard_host::Webhooks> {
        // An empty variable is one that is not set.
        let namespace = Some(self.webhook_namespace.as_str()).filter(|name| !name.is_empty());
        (self.webhook_server_port != 0).then(|| trainyard_host::Webhooks {
            port: self.webhook_server_port,
            service: self.webhook_service_name.clone(),
            secret: self.webhook_secret_name.clone(),
            namespace: namespace.unwrap_or("kubeflow").to_owned(),
        })
    }
}
