//! The file that tells kubectl and every other client where the API is and how to get in.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::{Error, files};

/// What cluster, user and context are called.
pub const NAME: &str = "trainyard";

/// Writes a kubeconfig with one context, for the owner alone: it holds the token. Its directory is made if missing. One that
/// says the same already stays.
pub fn write(path: &Path, server: &str, ca_pem: &str, token: &str, namespace: &str) -> Result<(), Error> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": NAME,
            "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(ca_pem)},
        }],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
        "current-context": NAME,
    });
    // On one line, as every other tool writes it: people cut these files with grep.
    let plain = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let yaml = serde_saphyr::to_string_with_options(&config, plain);
    let yaml = yaml.map_err(|error| Error::Kubeconfig(error.into()))?;
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists()) {
        files::private_directory(directory)?;
    }
    // Nothing is written where nothing has to be: a disk may be full, or a copy be watched.
    if files::read(path).is_ok_and(|found| found.as_deref() == Some(&*yaml)) {
        return Ok(());
    }
    files::write_derived(path, &yaml)
}
