//! Which priority a pod has: that of its class, or of the class that is everybody's.

use serde_json::{Value, json};
use std::sync::Arc;

use crate::failure::Failure;
use crate::object::{meta, name_in_refusals};
use crate::registry::Served;
use crate::store::{Key, Range, Store, Stored, contains};

const TABLE: &str = "scheduling.k8s.io/priorityclasses";
const PREEMPTS: &str = "PreemptLowerPriority";

/// What a class gives to a pod.
struct Class {
    name: String,
    value: i64,
    preemption: String,
}

impl Class {
    fn of(object: &Value) -> Self {
        let policy = object.get("preemptionPolicy").and_then(Value::as_str).unwrap_or(PREEMPTS);
        Self {
            name: meta(object, "name").to_owned(),
            value: object.get("value").and_then(Value::as_i64).unwrap_or(0),
            preemption: policy.to_owned(),
        }
    }
}

/// Writes the priority into a pod that is being created.
pub(crate) fn assign(store: &Store, served: &Served, pod: &mut Value) -> Result<(), Failure> {
    let name = name_in_refusals(pod).to_owned();
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    let forbidden = |why: String| Err(Failure::forbidden(served, &name, &why, None));
    let class = match spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default() {
        "" => everybodys(store),
        asked => match store.latest(&Key::new(&TABLE.into(), "", asked)) {
            None => return forbidden(format!("no PriorityClass with name {asked} was found")),
            Some(stored) => Class::of(&stored.value().map_err(Failure::internal)?),
        },
    };
    if let Some(given) = spec.get("priority").and_then(Value::as_i64).filter(|given| *given != class.value) {
        return forbidden(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {} from the given PriorityClass name",
            class.value
        ));
    }
    let given = spec.get("preemptionPolicy").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != class.preemption {
        return forbidden(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {} from the given PriorityClass name",
            class.preemption
        ));
    }
    if !class.name.is_empty() {
        spec.insert("priorityClassName".into(), class.name.into());
    }
    spec.insert("priority".into(), class.value.into());
    spec.insert("preemptionPolicy".into(), class.preemption.into());
    Ok(())
}

/// The class of pods that name none: the lowest of those that say they are, or 0.
fn everybodys(store: &Store) -> Class {
    let range = Range { prefix: "", after: None, limit: usize::MAX };
    // Nearly none says so, and to look for it in a text is far cheaper than to read the text.
    let says_so = |stored: &Arc<Stored>| contains(&stored.bytes, b"\"globalDefault\":true");
    let all =
        store.page(TABLE, range).items.into_iter().filter(says_so).filter_map(|stored| stored.value().ok());
    let named = all.filter(|class| class.get("globalDefault") == Some(&Value::Bool(true)));
    let lowest = named.map(|class| Class::of(&class)).min_by_key(|class| class.value);
    lowest.unwrap_or_else(|| Class { name: String::new(), value: 0, preemption: PREEMPTS.into() })
}

/// Refuses a second class that is everybody's.
pub(crate) fn check_default(store: &Store, served: &Served, class: &Value) -> Result<(), Failure> {
    if class.get("globalDefault") != Some(&json!(true)) {
        return Ok(());
    }
    let known = everybodys(store);
    let name = meta(class, "name");
    if known.name.is_empty() || known.name == name {
        return Ok(());
    }
    let why =
        format!("PriorityClass {} is already marked as default. Only one default can exist", known.name);
    Err(Failure::forbidden(served, name, &why, None))
}
