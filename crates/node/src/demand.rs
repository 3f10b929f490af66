//! What a pod needs of a machine, by Kubernetes' rules.
//!
//! Init containers run one after the other before the others, sidecars from their turn to the end. So a pod needs the
//! larger of what runs in the end and of what its most demanding init step needs beside the sidecars started before it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::quantity::{QuantityError, parse_millis, units};

/// Name of the resource that GPUs are asked for by.
pub const GPU: &str = "nvidia.com/gpu";
/// Every pod takes one of these.
pub const PODS: &str = "pods";

/// Amounts per resource, in thousandths of its unit. What is not in it is not needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand(BTreeMap<String, i128>);

impl Demand {
    /// What the pod needs, its place among the pods of the machine included.
    pub fn of(pod: &Pod) -> Result<Self, QuantityError> {
        let mut demand = pod.spec.as_ref().map(of_spec).transpose()?.unwrap_or_default();
        demand.set(PODS, 1000);
        Ok(demand)
    }

    /// The amount of one resource, in thousandths.
    pub fn millis(&self, resource: &str) -> i128 {
        self.0.get(resource).copied().unwrap_or_default()
    }

    /// How many GPUs.
    pub fn gpus(&self) -> usize {
        usize::try_from(units(self.millis(GPU))).unwrap_or(usize::MAX)
    }

    /// Every resource that is needed at all.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i128)> {
        self.0.iter().map(|(resource, millis)| (resource.as_str(), *millis))
    }

    /// Sets one amount; what is not positive is not needed. Only processors can be shared: of all else there is no
    /// part smaller than one.
    pub fn set(&mut self, resource: &str, millis: i128) {
        let millis = if resource == "cpu" { millis } else { units(millis).saturating_mul(1000) };
        if millis > 0 {
            self.0.insert(resource.to_owned(), millis);
        } else {
            self.0.remove(resource);
        }
    }

    /// Adds another demand: both at the same time.
    pub fn add(&mut self, other: &Self) {
        for (resource, millis) in other.iter() {
            self.set(resource, self.millis(resource).saturating_add(millis));
        }
    }

    /// Becomes enough for either: one after the other.
    fn cover(&mut self, other: &Self) {
        for (resource, millis) in other.iter() {
            self.set(resource, self.millis(resource).max(millis));
        }
    }
}

fn of_spec(spec: &PodSpec) -> Result<Demand, QuantityError> {
    let mut total = Demand::default();
    for container in &spec.containers {
        total.add(&of_container(container)?);
    }
    let (mut sidecars, mut init) = (Demand::default(), Demand::default());
    for container in spec.init_containers.iter().flatten() {
        let mut step = of_container(container)?;
        if is_sidecar(container) {
            total.add(&step);
            sidecars.add(&step);
            init.cover(&sidecars);
        } else {
            step.add(&sidecars);
            init.cover(&step);
        }
    }
    total.cover(&init);
    // What is said for the pod as a whole takes the place of the sum, for the resources it is said for.
    if let Some(resources) = &spec.resources {
        for (resource, millis) in of_requirements(resources)?.iter() {
            total.set(resource, millis);
        }
    }
    total.add(&amounts(spec.overhead.iter().flatten())?);
    Ok(total)
}

/// An init container that goes on running beside the others.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Requests of one container; a limit without a request is one.
pub fn of_container(container: &Container) -> Result<Demand, QuantityError> {
    container.resources.as_ref().map(of_requirements).transpose().map(Option::unwrap_or_default)
}

fn of_requirements(resources: &ResourceRequirements) -> Result<Demand, QuantityError> {
    let limits = resources.limits.iter().flatten();
    let requests = resources.requests.iter().flatten();
    amounts(limits.chain(requests))
}

/// Later amounts take the place of earlier ones.
fn amounts<'a>(list: impl Iterator<Item = (&'a String, &'a Quantity)>) -> Result<Demand, QuantityError> {
    let mut demand = Demand::default();
    for (resource, quantity) in list {
        demand.set(resource, parse_millis(&quantity.0)?);
    }
    Ok(demand)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn demand(spec: Value) -> Demand {
        let pod = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
        Demand::of(&pod).unwrap()
    }

    fn container(requests: Value, limits: Value) -> Value {
        json!({ "name": "a", "resources": { "requests": requests, "limits": limits } })
    }

    #[test]
    fn containers_add_up_and_limits_stand_in_for_requests() {
        let one = container(json!({ "cpu": "500m" }), json!({ "cpu": "2", "nvidia.com/gpu": "1" }));
        let two = container(json!({}), json!({ "cpu": "1", "memory": "1Gi" }));
        let demand = demand(json!({ "containers": [one, two] }));
        assert_eq!(demand.millis("cpu"), 1500);
        assert_eq!(demand.millis("memory"), (1 << 30) * 1000);
        assert_eq!(demand.gpus(), 1);
        assert_eq!(demand.millis(PODS), 1000);
    }

    #[test]
    fn a_pod_needs_the_larger_of_its_init_steps_and_its_end() {
        let cpu = |n: u32, policy: Option<&str>| json!({ "name": "a", "restartPolicy": policy, "resources": { "requests": { "cpu": n } } });
        let always = Some("Always");
        let cases = [
            (json!([cpu(5, None)]), 5000),
            (json!([cpu(1, None)]), 2000),
            (json!([cpu(1, always)]), 3000),
            (json!([cpu(1, always), cpu(4, None)]), 5000),
            (json!([cpu(4, None), cpu(1, always)]), 4000),
            (json!([cpu(3, always), cpu(3, always)]), 8000),
        ];
        for (init, expected) in cases {
            let spec = json!({ "initContainers": init, "containers": [cpu(2, None)] });
            assert_eq!(demand(spec.clone()).millis("cpu"), expected, "{spec}");
        }
    }

    #[test]
    fn the_pods_own_figures_count_and_overhead_comes_on_top() {
        let spec = json!({
            "containers": [container(json!({ "cpu": "1", "memory": "1" }), json!({}))],
            "resources": { "requests": { "cpu": "3" } },
            "overhead": { "cpu": "250m" },
        });
        let demand = demand(spec);
        assert_eq!((demand.millis("cpu"), demand.millis("memory")), (3250, 1000));
    }

    #[test]
    fn a_quantity_that_is_none_is_an_error_and_a_negative_one_nothing() {
        let spec = |cpu: &str| {
            let pod = json!({ "metadata": {}, "spec": { "containers": [container(json!({ "cpu": cpu }), json!({}))] } });
            Demand::of(&serde_json::from_value(pod).unwrap())
        };
        assert_eq!(spec("much").unwrap_err().text, "much");
        assert_eq!(spec("-4").unwrap().millis("cpu"), 0);
    }

    proptest! {
        #[test]
        fn more_containers_never_need_less(amounts in proptest::collection::vec(0_u32..10_000, 1..6)) {
            let list: Vec<Value> = amounts.iter().map(|n| container(json!({ "cpu": format!("{n}m") }), json!({}))).collect();
            let fewer: Vec<Value> = list.iter().skip(1).cloned().collect();
            let all = demand(json!({ "containers": list })).millis("cpu");
            prop_assert_eq!(all, i128::from(amounts.iter().sum::<u32>()));
            let less = demand(json!({ "containers": fewer })).millis("cpu");
            prop_assert!(all >= less);
        }
    }
}
