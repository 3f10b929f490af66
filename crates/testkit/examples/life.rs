//! `make life`: a PyTorchJob from create to Succeeded, on the real operator and the in-process API server.
//!
//! The kubelet follows a script (one worker is killed and comes back), and time is virtual: a minute of training takes
//! milliseconds, and shows the same transitions that a cluster would.

use std::cell::RefCell;

use serde_json::Value;
use trainyard_testkit::kubelet::PodScript;
use trainyard_testkit::plane::Plane;

const MANIFEST: &str = include_str!("life.yaml");

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plane = Plane::builder()
        .scripts(|pod| match (pod.role.as_str(), pod.index, pod.earlier) {
            ("master", _, _) => PodScript::exits(0, 60).starts_after(2),
            ("worker", 1, 0) => PodScript::exits(137, 20).starts_after(3),
            _ => PodScript::runs().starts_after(3),
        })
        .start()
        .await;
    let manifest: Value = serde_saphyr::from_str(MANIFEST)?;
    let start = plane.now();
    plane.create(manifest).await;
    let last = RefCell::new(String::new());
    plane
        .until("the job ends and its workers are cleaned up", |world| {
            let pods = world.pods("mnist");
            let pods: Vec<String> = pods.iter().map(|pod| describe(pod)).collect();
            let line = format!("{:<44} {}", world.shape("mnist"), pods.join(" "));
            if world.job("mnist").is_some_and(|job| job.get("status").is_some()) && *last.borrow() != line {
                let elapsed = plane.now().duration_since(start).as_secs();
                say(&format!("{elapsed:>4} s  {line}"));
                last.replace(line);
            }
            world.is_finished("mnist") && world.pods("mnist").len() == 1
        })
        .await;
    say("\nevents:");
    for event in plane.events("mnist").await {
        let text = |field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        say(&format!("  {:<24} {}", text("reason"), text("message")));
    }
    Ok(())
}

fn describe(pod: &Value) -> String {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let ending = if pod.pointer("/metadata/deletionTimestamp").is_some() { "/ending" } else { "" };
    format!("{}={}{ending}", text("/metadata/name"), text("/status/phase"))
}

#[expect(clippy::print_stdout, reason = "it is here to be read")]
fn say(line: &str) {
    println!("{line}");
}
