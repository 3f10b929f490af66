//! Roles that are the sum of others: a small controller that keeps them so.

use serde_json::{Map, Value};

use super::{CLUSTER_ROLES, GROUP};
use crate::app::App;
use crate::failure::Failure;
use crate::object::{at, meta, meta_map};
use crate::selector::LabelSelector;
use crate::store::Range;

/// Follows changes of cluster roles until the server stops.
pub(crate) async fn run(app: &App) {
    let mut wake = app.store.subscribe(&CLUSTER_ROLES.into());
    loop {
        if let Err(failure) = sync(app).await {
            tracing::warn!(status = %failure.status(), "a role could not be aggregated; the next change tries again");
        }
        if wake.changed().await.is_err() {
            return;
        }
    }
}

async fn sync(app: &App) -> Result<(), Failure> {
    let all = Range { prefix: "", after: None, limit: usize::MAX };
    let stored = app.store.page(CLUSTER_ROLES, all).items;
    let roles: Vec<Value> = stored.iter().filter_map(|role| role.value().ok()).collect();
    let catalog = app.catalog();
    let Some(served) = catalog.get(GROUP, "v1", "clusterroles") else {
        return Ok(());
    };
    for (role, rules) in sums(&roles) {
        let Some(stored) = stored.iter().find(|stored| stored.key.name() == role) else { continue };
        let edit = |object: &mut Value| set_rules(object, &rules);
        app.edit(served, &stored.key, &stored.uid, edit).await?;
    }
    Ok(())
}

/// Sets the rules of a role; false when it has them already.
pub(super) fn set_rules(role: &mut Value, rules: &[Value]) -> bool {
    let own = role.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if own == rules {
        return false;
    }
    role.as_object_mut().map(|map| map.insert("rules".into(), rules.to_vec().into())).is_some()
}

/// The roles whose rules are not the sum of those they select, with that sum.
pub(super) fn sums(roles: &[Value]) -> Vec<(&str, Vec<Value>)> {
    let mut ordered: Vec<&Value> = roles.iter().collect();
    ordered.sort_by_key(|role| meta(role, "name"));
    let mut changed = Vec::new();
    for role in &ordered {
        let Some(selectors) = at(role, "aggregationRule.clusterRoleSelectors").and_then(Value::as_array)
        else {
            continue;
        };
        let name = meta(role, "name");
        let mut sum: Vec<Value> = Vec::new();
        for selector in selectors {
            let Ok(selector) = LabelSelector::from_object(selector) else { continue };
            let others = ordered.iter().filter(|other| meta(other, "name") != name);
            for other in others.filter(|other| selector.matches(labels(other))) {
                for rule in rules(other) {
                    if !sum.contains(rule) {
                        sum.push(rule.clone());
                    }
                }
            }
        }
        if rules(role) != sum.as_slice() {
            changed.push((name, sum));
        }
    }
    changed
}

fn labels(role: &Value) -> Option<&Map<String, Value>> {
    meta_map(role)?.get("labels")?.as_object()
}

fn rules(role: &Value) -> &[Value] {
    role.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sum_has_each_rule_once_in_order_of_names() {
        let rule = |resource: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]});
        let part = |name: &str, rules: Value| json!({"metadata": {"name": name, "labels": {"to": "x"}}, "rules": rules});
        let roles = [
            part("b", json!([rule("pods"), rule("nodes")])),
            part("a", json!([rule("pods")])),
            part("none", Value::Null),
            json!({"metadata": {"name": "x", "labels": {"to": "x"}}, "rules": null,
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "x"}}]}}),
        ];
        assert_eq!(sums(&roles), [("x", vec![rule("pods"), rule("nodes")])]);
        let mut sum = roles[3].clone();
        assert!(set_rules(&mut sum, &[rule("pods"), rule("nodes")]));
        assert!(sums(&[roles[0].clone(), roles[1].clone(), sum]).is_empty());
    }
}
