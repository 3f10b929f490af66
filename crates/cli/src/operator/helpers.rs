//! Flags about the containers that are put beside the user's.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kube::Client;
use serde_json::Value;

use super::own_pod::OwnPod;

/// What the training-operator waits for a master with; it has a shell and `nslookup`.
const WAIT: &str = "alpine:3.10";
/// What the training-operator brings `kubectl` with.
const KUBECTL: &str = "ghcr.io/kubeflow/training-v1/kubectl-delivery:latest";

/// Containers that are put beside the user's.
#[derive(clap::Args)]
pub(super) struct Helpers {
    /// An image of Trainyard's, of which the containers beside the user's are made [default: in a pod, the image that this
    /// operator runs from; elsewhere the images of the training-operator].
    #[arg(long, value_name = "IMAGE")]
    helper_image: Option<String>,
    /// Another image for the init container with which PyTorch workers wait for their master; it needs `sh` and `nslookup`.
    #[arg(long, value_name = "IMAGE")]
    pytorch_init_container_image: Option<String>,
    /// How often that container looks for the master.
    #[arg(long, default_value_t = 100, value_name = "TRIES")]
    pytorch_init_container_max_tries: u32,
    /// A file with init containers to be used instead; none if it does not exist.
    #[arg(long, default_value = "/etc/config/initContainer.yaml", value_name = "FILE")]
    pytorch_init_container_template_file: PathBuf,
    /// Another image that brings kubectl to the launchers of MPI jobs.
    #[arg(long, value_name = "IMAGE")]
    mpi_kubectl_delivery_image: Option<String>,
}

impl Helpers {
    /// As the flags say. What they leave open is for [`Helpers::settle`].
    pub(super) fn options(&self) -> anyhow::Result<trainyard_core::Helpers> {
        let usual = trainyard_core::Helpers::default();
        Ok(trainyard_core::Helpers {
            image: self.helper_image.clone().unwrap_or(usual.image),
            wait_image: self.pytorch_init_container_image.clone(),
            wait_tries: self.pytorch_init_container_max_tries,
            wait_template: template(&self.pytorch_init_container_template_file)?,
            kubectl_image: self.mpi_kubectl_delivery_image.clone(),
            program: usual.program,
        })
    }
}

impl Helpers {
    /// Sees to it that the images of helpers exist: no image of Trainyard's is published under a name that is known here.
    pub(super) async fn settle(&self, client: &Client, helpers: &mut trainyard_core::Helpers) {
        if self.helper_image.is_some() {
            return;
        }
        let image = match OwnPod::find() {
            None => None,
            Some(pod) => match pod.image(client).await {
                Ok(image) => Some(image),
                Err(error) => {
                    let OwnPod { namespace, name } = pod;
                    let error = format!("{error:#}");
                    tracing::warn!(
                        namespace,
                        name,
                        error,
                        "cannot read the operator's own pod: --helper-image names an image for helpers"
                    );
                    None
                }
            },
        };
        choose(helpers, image);
        let trainyard_core::Helpers { image, wait_image, kubectl_image, .. } = &*helpers;
        tracing::info!(image, wait_image, kubectl_image, "images of helpers");
    }
}

/// The operator's own image has this very program in it. Without one the training-operator's helpers do.
fn choose(helpers: &mut trainyard_core::Helpers, own: Option<String>) {
    if let Some(image) = own {
        helpers.image = image;
        if let Ok(program) = std::env::current_exe() {
            helpers.program = program.to_string_lossy().into_owned();
        }
        return;
    }
    helpers.wait_image.get_or_insert_with(|| WAIT.to_owned());
    helpers.kubectl_image.get_or_insert_with(|| KUBECTL.to_owned());
}

/// The init containers in a file, if there is one.
fn template(file: &Path) -> anyhow::Result<Option<Vec<Value>>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    // As they stand its variables are no YAML: they are given names that are plain words.
    let words = trainyard_core::Helpers::VARIABLES.iter();
    let text = words.fold(text, |text, (variable, word)| text.replace(variable, word));
    let no_list = || format!("{} is no list of containers", file.display());
    match trainyard_host::yaml::documents(&text).with_context(no_list)?.as_mut_slice() {
        [] | [Value::Null] => Ok(Some(Vec::new())),
        [Value::Array(containers)] => Ok(Some(std::mem::take(containers))),
        _ => bail!(no_list()),
    }
}
