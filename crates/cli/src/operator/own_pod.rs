//! The pod that this operator runs in, if it runs in one: its image has everything that helpers need.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

/// Where a pod finds the namespace of its account, which is its own.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// What the operator's container is called where there are others beside it.
const NAMES: [&str; 4] = ["trainyard", "training-operator", "operator", "manager"];

/// Which pod it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnPod {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl OwnPod {
    /// By the environment; nothing outside of a pod.
    pub(super) fn find() -> Option<Self> {
        let file = std::fs::read_to_string(NAMESPACE_FILE).ok();
        Self::of(|name| std::env::var(name).ok(), file.as_deref())
    }

    /// What the downward API says comes first. Without a namespace this is no pod: every machine has a host name.
    fn of(variable: impl Fn(&str) -> Option<String>, file: Option<&str>) -> Option<Self> {
        let of =
            |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|text| !text.is_empty()));
        let given = of(&["POD_NAME", "MY_POD_NAME"]);
        let file = file.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let namespace = match (&given, file) {
            (_, Some(file)) => of(&["POD_NAMESPACE", "MY_POD_NAMESPACE"]).unwrap_or(file),
            (Some(_), None) => of(&["POD_NAMESPACE", "MY_POD_NAMESPACE"])?,
            (None, None) => return None,
        };
        Some(Self { namespace, name: given.or_else(|| of(&["HOSTNAME"]))? })
    }

    /// The image that this operator runs from.
    pub(super) async fn image(&self, client: &Client) -> anyhow::Result<String> {
        let Self { namespace, name } = self;
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let pod = trainyard_operator::rest::send(client, Method::GET, &path, &json!(null)).await?;
        image(&pod).ok_or_else(|| anyhow::anyhow!("pod {namespace}/{name} has no container with an image"))
    }
}

fn image(pod: &Value) -> Option<String> {
    let containers = pod.pointer("/spec/containers")?.as_array()?;
    let text =
        |container: &Value, field: &str| container.get(field).and_then(Value::as_str).map(str::to_owned);
    let named = |name: &&str| containers.iter().find(|c| text(c, "name").as_deref() == Some(*name));
    let own = NAMES.iter().find_map(named).or_else(|| containers.first())?;
    text(own, "image").filter(|image| !image.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)], file: Option<&str>) -> Option<String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        OwnPod::of(variable, file).map(|pod| format!("{}/{}", pod.namespace, pod.name))
    }

    #[test]
    fn a_pod_is_known_by_the_downward_api_or_by_its_account() {
        let host = ("HOSTNAME", "op-1");
        assert_eq!(find(&[host], None), None, "a laptop");
        assert_eq!(find(&[host], Some("kubeflow\n")).as_deref(), Some("kubeflow/op-1"));
        let given = [host, ("POD_NAME", "a"), ("POD_NAMESPACE", "b")];
        assert_eq!(find(&given, None).as_deref(), Some("b/a"), "a pod without a token");
        assert_eq!(find(&given, Some("kubeflow")).as_deref(), Some("b/a"));
        let partly = [host, ("POD_NAME", ""), ("MY_POD_NAMESPACE", "b")];
        assert_eq!(find(&partly, None), None, "a namespace alone is given to operators outside of pods, too");
        assert_eq!(find(&partly, Some("b")).as_deref(), Some("b/op-1"));
    }

    #[test]
    fn the_image_is_that_of_the_operator_and_not_of_what_runs_beside_it() {
        let pod = |names: &[&str]| {
            let containers: Vec<Value> =
                names.iter().map(|name| json!({ "name": name, "image": format!("{name}:1") })).collect();
            json!({ "spec": { "containers": containers } })
        };
        assert_eq!(image(&pod(&["x"])).as_deref(), Some("x:1"));
        assert_eq!(image(&pod(&["proxy", "training-operator"])).as_deref(), Some("training-operator:1"));
        assert_eq!(image(&json!({})), None);
    }
}
