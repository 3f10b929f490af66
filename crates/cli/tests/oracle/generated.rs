//! Cases that nobody thought of: drawn from a seed, which `TRAINYARD_SEED` changes.

use serde_json::{Value, json};

use crate::api::JOBS;
use crate::case::{Case, Setting};

/// How many.
const CASES: u64 = 30;
const SEED: u64 = 20_260_101;

/// A kind, where its replicas are, what its container and its port are called, and its roles; the first one decides.
type Kind = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

const KINDS: [Kind; 5] = [
    ("TFJob", "tfReplicaSpecs", "tensorflow", "tfjob-port", &["Chief", "Worker", "PS", "Evaluator"]),
    ("PyTorchJob", "pytorchReplicaSpecs", "pytorch", "pytorchjob-port", &["Master", "Worker"]),
    ("XGBoostJob", "xgbReplicaSpecs", "xgboost", "xgboostjob-port", &["Master", "Worker"]),
    ("PaddleJob", "paddleReplicaSpecs", "paddle", "master", &["Master", "Worker"]),
    ("JAXJob", "jaxReplicaSpecs", "jax", "jaxjob-port", &["Worker"]),
];

pub(crate) fn cases() -> Vec<Case> {
    let seed = std::env::var("TRAINYARD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    (0..CASES).map(|number| case(number, &mut Dice(seed.wrapping_add(number << 32)))).collect()
}

/// Numbers that look random and are the same for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    fn one_of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

fn case(number: u64, dice: &mut Dice) -> Case {
    let kind = KINDS[usize::try_from(number).unwrap() % KINDS.len()];
    let (name, specs, _, _, roles) = kind;
    let called = format!("generated-{number}");
    let policy = dice.one_of(&["Never", "OnFailure", "Always", "ExitCode"]);
    let mut replicas = json!({});
    let mut pods = Vec::new();
    for (position, role) in roles.iter().enumerate() {
        let leads = position == 0;
        let needed = leads || *role == "Worker";
        if !needed && dice.chance(2) {
            continue;
        }
        let count = if leads && roles.len() > 1 { 1 } else { 1 + dice.below(3) };
        replicas[*role] =
            json!({ "replicas": count, "restartPolicy": policy, "template": template(kind, dice) });
        pods.extend((0..count).map(|index| format!("{}-{index}", role.to_lowercase())));
    }
    let mut run_policy = json!({ "cleanPodPolicy": dice.one_of(&["None", "Running", "All"]) });
    if dice.chance(3) {
        run_policy["ttlSecondsAfterFinished"] = json!(1000);
    }
    let job = json!({ "apiVersion": JOBS, "kind": name, "metadata": { "name": called },
        "spec": { "runPolicy": run_policy, specs: replicas } });
    let steps = steps(&pods, &fates(name, policy), dice);
    Case::new(&called, Setting::Plain, job, Vec::new(), steps.iter().map(String::as_str))
}

/// What becomes of one pod.
#[derive(Clone, Copy)]
enum Fate {
    Fails,
    IsEvicted,
    IsDeleted,
    Lives,
}

/// What may happen in a generated case: where the peer fails a job that goes on here, the rest would be no comparison. Those
/// ends have cases of their own.
fn fates(kind: &str, policy: &str) -> Vec<Fate> {
    let mut fates = vec![Fate::Lives];
    if kind != "XGBoostJob" || ["Never", "ExitCode"].contains(&policy) {
        fates.extend([Fate::Fails, Fate::IsEvicted]);
    }
    if !["TFJob", "XGBoostJob"].contains(&kind) {
        fates.push(Fate::IsDeleted);
    }
    fates
}

fn template((_, _, container, port, _): Kind, dice: &mut Dice) -> Value {
    let mut main = json!({ "name": container, "image": "none" });
    if dice.chance(2) {
        main["env"] = json!([{ "name": "MINE", "value": "1" }, { "name": "RANK", "value": "x" }]);
    }
    if dice.chance(3) {
        main["ports"] = json!([{ "name": port, "containerPort": 1024 + dice.below(60_000) }]);
    }
    if dice.chance(3) {
        main["args"] = json!(["--epochs", dice.below(10).to_string()]);
        main["resources"] = json!({ "limits": { "cpu": "2", "memory": "1Gi" } });
    }
    let mut containers = vec![main];
    if dice.chance(3) {
        containers.insert(dice.below(2), json!({ "name": "helper", "image": "none" }));
    }
    let mut template = json!({ "spec": { "containers": containers } });
    if dice.chance(2) {
        template["metadata"] = json!({ "labels": { "team": "a" }, "annotations": { "note": "b" } });
    }
    template
}

/// Some run, one meets its end, the rest run, and in the end the first one succeeds.
fn steps(pods: &[String], fates: &[Fate], dice: &mut Dice) -> Vec<String> {
    let mut steps = Vec::new();
    if dice.chance(3) {
        steps.push(format!("run {}", pods[dice.below(pods.len())]));
    }
    steps.push("run all".to_owned());
    if dice.chance(3) {
        steps.push("patch {spec: {runPolicy: {suspend: true}}}".to_owned());
        steps.push("patch {spec: {runPolicy: {suspend: false}}}".to_owned());
        steps.push("run all".to_owned());
    }
    let victim = dice.one_of(pods);
    match dice.one_of(fates) {
        Fate::Fails => steps.push(format!("fail {victim} exit {}", dice.one_of(&[1, 2, 127, 128, 137, 143]))),
        Fate::IsEvicted => steps.push(format!("evict {victim}")),
        Fate::IsDeleted => steps.extend([format!("delete {victim}"), format!("finish {victim}")]),
        Fate::Lives => {}
    }
    steps.push("run all".to_owned());
    steps.push(format!("succeed {}", pods[0]));
    steps
}
