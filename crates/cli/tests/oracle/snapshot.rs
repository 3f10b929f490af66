//! Everything about a job at one moment: the object, its children, and in the end the reasons of its events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use trainyard_testkit::rest::{Rest, name, text};

use crate::api::{CHILDREN, JOBS, collection_of, items};
use crate::case::{Case, Setting};
use crate::flat::{Fields, flatten};

/// What became of one case, step by step.
#[derive(Debug, Default)]
pub(crate) struct Life {
    pub(crate) steps: Vec<Fields>,
    /// What the server said when it refused the job.
    pub(crate) refusal: Option<String>,
    /// How often something was told about the job.
    pub(crate) events: u64,
    /// Pods that were seen, by name: the same name again is another pod.
    incarnations: BTreeMap<String, Vec<String>>,
}

/// All objects of a namespace at one moment.
pub(crate) struct Namespace {
    children: Vec<(&'static str, Value)>,
    jobs: Vec<Value>,
}

impl Namespace {
    pub(crate) async fn read(rest: &Rest, setting: Setting, kinds: &BTreeSet<&str>) -> Self {
        let mut children = Vec::new();
        for (plural, root) in CHILDREN {
            let path = format!("{root}/namespaces/{}/{plural}", setting.namespace());
            children.extend(items(rest, &path).await.into_iter().map(|object| (plural, object)));
        }
        let mut jobs = Vec::new();
        for kind in kinds {
            let path = collection_of(&json!({ "apiVersion": JOBS, "kind": kind }), setting.namespace());
            // In a list an object does not say what it is.
            let of_kind = items(rest, &path).await.into_iter();
            jobs.extend(of_kind.map(|mut job| {
                job["kind"] = json!(kind);
                job
            }));
        }
        Self { children, jobs }
    }

    fn job(&self, case: &Case) -> Option<&Value> {
        self.jobs.iter().find(|job| name(job) == case.job_name() && job["kind"] == case.kind())
    }
}

impl Life {
    /// Adds what there is now; `told` is what of the step could not be done.
    pub(crate) fn look(&mut self, case: &Case, namespace: &Namespace, told: &[String]) {
        let mut fields = Fields::new();
        let job = namespace.job(case);
        if let Some(refusal) = self.refusal(job) {
            fields.extend(refusal);
            self.steps.push(fields);
            return;
        }
        match job {
            Some(job) => {
                flatten("job/metadata", &job["metadata"], &mut fields);
                if let Some(status) = job.get("status") {
                    flatten("job/status", status, &mut fields);
                }
            }
            None => drop(fields.insert("job".into(), "gone".into())),
        }
        for (plural, child) in namespace.children.iter().filter(|(_, child)| belongs(child, case)) {
            let short =
                name(child).strip_prefix(case.job_name()).unwrap_or(name(child)).trim_start_matches('-');
            let path = format!("{plural}/{}", if short.is_empty() { "itself" } else { short });
            flatten(&path, &without_driven(plural, child), &mut fields);
            if *plural == "pods" {
                fields.insert(format!("{path}/phase"), text(child, "/status/phase").to_owned());
                fields.insert(format!("{path}/incarnation"), self.incarnation(child).to_string());
            }
        }
        if !told.is_empty() {
            fields.insert("step".into(), told.join("; "));
        }
        self.steps.push(fields);
    }

    /// A job that is against the rules: who said so, and what.
    fn refusal(&self, job: Option<&Value>) -> Option<Fields> {
        let (by, said) = match (&self.refusal, job) {
            (Some(message), _) => match message.split_once("denied the request: ") {
                Some((_, said)) => ("webhook", said.to_owned()),
                None => ("server", message.clone()),
            },
            (None, Some(job)) => ("status", invalid_spec(job)?),
            (None, None) => return None,
        };
        Some([("refused/by".to_owned(), by.to_owned()), ("refused/because".to_owned(), said)].into())
    }

    fn incarnation(&mut self, pod: &Value) -> usize {
        let seen = self.incarnations.entry(name(pod).to_owned()).or_default();
        let uid = text(pod, "/metadata/uid").to_owned();
        match seen.iter().position(|known| *known == uid) {
            Some(index) => index,
            None => {
                seen.push(uid);
                seen.len() - 1
            }
        }
    }

    /// Adds the reasons of the events about the job to its last moment.
    pub(crate) async fn add_events(&mut self, rest: &Rest, case: &Case) {
        let query = format!("?fieldSelector=involvedObject.name={}", case.job_name());
        let path = format!("/api/v1/namespaces/{}/events{query}", case.setting.namespace());
        let Some(last) = self.steps.last_mut().filter(|last| !last.contains_key("refused/by")) else {
            return;
        };
        for event in items(rest, &path).await {
            let source = text(&event, "/source/component");
            let key = format!("events/{}/{}", text(&event, "/type"), text(&event, "/reason"));
            last.insert(key, source.to_owned());
            self.events += event["count"].as_u64().unwrap_or(1);
        }
    }
}

/// What is wrong with a spec, from the condition that says so.
fn invalid_spec(job: &Value) -> Option<String> {
    let conditions = job["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| text(condition, "/reason").ends_with("InvalidSpec"))?;
    let (_, said) = text(found, "/message").split_once("the spec is invalid: ")?;
    Some(said.trim_end_matches(". Correct it and create the job again.").to_owned())
}

/// Whether an object was made for the job, or stands in its case's file.
fn belongs(child: &Value, case: &Case) -> bool {
    let owners = child["metadata"]["ownerReferences"].as_array();
    let owned = owners
        .into_iter()
        .flatten()
        .any(|owner| text(owner, "/name") == case.job_name() && text(owner, "/kind") == case.kind());
    let given = case.others.iter().any(|other| name(other) == name(child));
    owned || given
}

/// A pod's status is this test's own work.
fn without_driven(plural: &str, child: &Value) -> Value {
    let mut child = child.clone();
    if let Some(object) = child.as_object_mut().filter(|_| plural == "pods") {
        object.remove("status");
    }
    child
}
