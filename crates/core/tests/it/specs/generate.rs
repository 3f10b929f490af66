//! Specs of every kind as users, scripts and accidents write them: whole ones, and ones in which anything may be missing,
//! empty, negative, huge, too long or of the wrong type.

use serde_json::{Map, Value, json};
use trainyard_core::*;

/// Random numbers that are the same for the same seed, everywhere (splitmix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.roll() % u64::try_from(n.max(1)).unwrap()).unwrap()
    }

    /// True once in `n` times.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// A manifest of any kind.
pub(super) fn manifest(dice: &mut Dice) -> (&'static Kind, Value) {
    let kind = *dice.pick(kinds::ALL);
    let mut manifest = whole(dice, kind);
    let damage = *dice.pick(&[0, 0, 1, 1, 2, 3, 8]);
    for _ in 0..damage {
        break_something(dice, &mut manifest);
    }
    if dice.once_in(4) {
        // What lies below it is there or it is not.
        thin_out(dice, &mut manifest);
    }
    (kind, manifest)
}

/// A job in which everything is said.
fn whole(dice: &mut Dice, kind: &Kind) -> Value {
    let facts = Catalog::default().framework(kind.framework).unwrap().facts();
    let mut specs = Map::new();
    for role in facts.roles {
        let often = if facts.leaders.first() == Some(role) || *role == facts.followers { 4 } else { 3 };
        if dice.once_in(often) == (often == 3) {
            specs.insert((*role).to_owned(), replica_spec(dice, facts, facts.leaders.contains(role)));
        }
    }
    let mut spec = Map::from_iter([
        ("runPolicy".to_owned(), run_policy(dice)),
        (kind.replica_specs.to_owned(), Value::Object(specs)),
    ]);
    for (name, value) in options() {
        if dice.once_in(8) {
            spec.insert(name.to_owned(), value);
        }
    }
    let mut job = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name,
        "metadata": {
            "name": "job", "namespace": "team", "uid": "job-uid", "resourceVersion": "7",
            "annotations": { "trainyard.dev/restart-scope": "job", "note": "n" },
        },
        "spec": spec,
    });
    if dice.once_in(4) {
        let asked = *dice.pick(&["true", "false", "", "yes"]);
        job["metadata"]["annotations"]["trainyard.dev/host-ports"] = asked.into();
    }
    if dice.once_in(6) {
        let record = *dice.pick(&RECORDS);
        job["metadata"]["annotations"]["trainyard.dev/record"] = record.into();
    }
    if dice.once_in(6) {
        job["status"] = json!({
            "conditions": [{ "type": *dice.pick(&["Created", "Running", "Restarting", "Failed"]), "status": "True",
                "reason": "R", "message": "m", "lastUpdateTime": "2026-01-01T00:00:00Z" }],
            "replicaStatuses": { "Worker": { "active": 1 } },
            "startTime": "1969-12-31T23:59:59Z",
        });
    }
    job
}

/// What the operator may have written down, or somebody else.
const RECORDS: [&str; 4] = [
    "{}",
    "no record",
    r#"{"v":1,"attempt":3,"restarts":2,"finished":{"Worker":[0]},"replaced":{"Worker":{"1":2}}}"#,
    r#"{"v":9,"attempt":4294967295,"restarts":4294967295,"ports":{"base":65535,"size":65535},"finished":{"":[7]},
        "replaced":{"Worker":{"0":4294967295}}}"#,
];

/// What some kinds know beside replicas; the others must not mind it.
fn options() -> [(&'static str, Value); 9] {
    let metrics = json!([{ "type": "Resource", "resource": {
        "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } } }]);
    [
        ("successPolicy", json!("AllWorkers")),
        ("enableDynamicWorker", json!(true)),
        ("nprocPerNode", json!("2")),
        ("slotsPerWorker", json!(2)),
        ("mainContainer", json!("mpi")),
        ("cleanPodPolicy", json!("All")),
        (
            "elasticPolicy",
            json!({ "minReplicas": 1, "maxReplicas": 3, "maxRestarts": 2, "metrics": metrics }),
        ),
        (
            "elasticPolicy",
            json!({ "rdzvBackend": "etcd", "rdzvPort": 29400, "rdzvHost": "h", "rdzvId": "i",
            "rdzvConf": [{ "key": "timeout", "value": "5" }], "standalone": true, "nProcPerNode": 2 }),
        ),
        ("unknownToAnybody", json!({ "a": [1] })),
    ]
}

fn run_policy(dice: &mut Dice) -> Value {
    let mut policy = json!({
        "cleanPodPolicy": *dice.pick(&["All", "Running", "None"]),
        "ttlSecondsAfterFinished": 60,
        "activeDeadlineSeconds": 600,
        "backoffLimit": 3,
        "suspend": dice.once_in(6),
        "schedulingPolicy": {
            "minAvailable": 1, "queue": "q", "minResources": { "cpu": "1" }, "priorityClass": "high",
            "scheduleTimeoutSeconds": 30,
        },
    });
    if dice.once_in(8) {
        policy["managedBy"] =
            json!(*dice.pick(&["kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"]));
    }
    policy
}

fn replica_spec(dice: &mut Dice, facts: &Facts, leads: bool) -> Value {
    json!({
        "replicas": if leads { 1 } else { *dice.pick(&[0, 1, 1, 2, 2, 3]) },
        "restartPolicy": *dice.pick(&["Always", "OnFailure", "Never", "ExitCode"]),
        "template": {
            "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" }, "finalizers": ["example.com/x"] },
            "spec": {
                "containers": [
                    {
                        "name": facts.container, "image": "example.com/train:1", "command": ["train"], "args": ["-v"],
                        "env": [{ "name": "A", "value": "b" }, { "name": "B", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }],
                        "ports": [{ "name": facts.port_name, "containerPort": 4000 }, { "containerPort": 8080 }],
                        "resources": { "requests": { "cpu": "500m", "memory": "1Gi" }, "limits": { "nvidia.com/gpu": 1 } },
                        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                    },
                    { "name": "side", "image": "example.com/side" },
                ],
                "initContainers": [{ "name": "init", "image": "example.com/init" }],
                "volumes": [{ "name": "data", "emptyDir": {} }],
                "restartPolicy": "Always", "schedulerName": "other", "serviceAccountName": "me",
                "nodeSelector": { "disk": "ssd" }, "tolerations": [{ "key": "gpu", "operator": "Exists" }],
                "hostNetwork": true, "terminationGracePeriodSeconds": 30,
            },
        },
    })
}

/// A value that somebody may have meant, or not.
fn odd(dice: &mut Dice) -> Value {
    let long = || "x".repeat(200);
    match dice.below(26) {
        0 => Value::Null,
        1 => json!(""),
        2 => json!(-1),
        3 => json!(0),
        4 => json!(i32::MAX),
        5 => json!(i64::from(i32::MAX) + 1),
        6 => json!(i64::MIN),
        7 => json!(u64::MAX),
        8 => json!(1e300),
        9 => json!(0.5),
        10 => json!(true),
        11 => json!([]),
        12 => json!({}),
        13 => json!(long()),
        14 => json!("größe-名前-🚂\u{0}\u{202e}"),
        15 => json!([null, [], {}, "", -1]),
        16 => json!({ "": { "": [] }, long(): long() }),
        17 => json!("-1"),
        18 => json!("9".repeat(40)),
        19 => json!("1Ei"),
        20 => json!("Always"),
        21 => json!(" \t\n"),
        22 => json!("../../etc/passwd"),
        23 => json!("UPPER_case.dots"),
        24 => json!(65536),
        _ => json!(if dice.once_in(100) { 9_999 } else { 7 }),
    }
}

/// Takes something away, puts something else in its place, or puts something beside it.
fn break_something(dice: &mut Dice, manifest: &mut Value) {
    let mut at = manifest;
    // Mostly deep down, sometimes high up: one step in six ends the way.
    while has_members(at) && !dice.once_in(6) {
        let len = at.as_array().map_or_else(|| at.as_object().map_or(0, Map::len), Vec::len);
        let n = dice.below(len);
        at = match at {
            Value::Array(items) => items.get_mut(n).unwrap(),
            Value::Object(members) => members.values_mut().nth(n).unwrap(),
            _ => unreachable!("it has members"),
        };
    }
    match at {
        Value::Object(members) if !members.is_empty() && dice.once_in(2) => {
            let name = members.keys().nth(dice.below(members.len())).unwrap().clone();
            let value = members.remove(&name).unwrap();
            // A key in another spelling, or none at all.
            match dice.below(4) {
                0 => drop(members.insert(name.to_uppercase(), value)),
                1 => drop(members.insert("n".repeat(200), value)),
                _ => {}
            }
        }
        Value::Array(items) if !items.is_empty() && dice.once_in(2) => {
            let n = dice.below(items.len());
            if dice.once_in(2) {
                items.push(items[n].clone());
            } else {
                items.remove(n);
            }
        }
        at => *at = odd(dice),
    }
}

fn has_members(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Leaves optional things out, everywhere.
fn thin_out(dice: &mut Dice, value: &mut Value) {
    const KEPT: [&str; 8] =
        ["spec", "metadata", "name", "image", "template", "containers", "namespace", "uid"];
    match value {
        Value::Object(members) => {
            members.retain(|name, _| KEPT.contains(&&**name) || name.ends_with("Specs") || !dice.once_in(2));
            members.values_mut().for_each(|value| thin_out(dice, value));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| thin_out(dice, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
