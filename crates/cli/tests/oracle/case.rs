//! Cases: a job, what happens to it, and how the operator was started.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use trainyard_testkit::rest::text;

use crate::flat::Pattern;
use crate::generated;
use crate::script::Step;

/// How an operator was started; each has a namespace of this name to look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Setting {
    /// With no option that changes jobs.
    Plain,
    /// With `CUSTOM_CLUSTER_DOMAIN`.
    Domain,
    /// With Volcano as the gang scheduler.
    Volcano,
    /// With the coscheduling plugin as the gang scheduler.
    Plugins,
}

impl Setting {
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Domain, Self::Volcano, Self::Plugins];

    pub(crate) fn namespace(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Domain => "domain",
            Self::Volcano => "volcano",
            Self::Plugins => "plugins",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The file's name without its extension.
    pub(crate) name: String,
    pub(crate) setting: Setting,
    pub(crate) job: Value,
    /// What is there before the job.
    pub(crate) others: Vec<Value>,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// Those in a folder, the peer's own examples, and generated ones.
    pub(crate) fn all(folder: &Path, peer: &Path) -> Vec<Self> {
        let mut cases: Vec<Self> =
            yaml_files(folder).iter().map(|(name, text)| Self::parse(name, text)).collect();
        cases.extend(generated::cases());
        cases.extend(examples(&peer.join("examples")));
        let mut seen = BTreeSet::new();
        for case in &cases {
            assert!(seen.insert((case.setting, case.job_name().to_owned())), "{}: not alone", case.name);
        }
        let wanted = std::env::var("TRAINYARD_CASES").ok();
        cases.retain(|case| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.split(',').any(|one| Pattern::new(one).matches(&case.name)))
        });
        cases
    }

    /// The script, the job, and what has to be there before it, as documents of one file.
    fn parse(name: &str, text: &str) -> Self {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut documents = documents.into_iter();
        let (Some(script), Some(job)) = (documents.next(), documents.next()) else {
            panic!("{name}: a script, then a job")
        };
        let setting = match script.get("setting").and_then(Value::as_str) {
            None => Setting::Plain,
            Some(wanted) => {
                *Setting::ALL.iter().find(|setting| setting.namespace() == wanted).expect("a setting")
            }
        };
        assert!(!text_of(&script, "about").is_empty(), "{name}: what is it about?");
        let steps = script["steps"].as_array().unwrap_or_else(|| panic!("{name}: no steps"));
        let steps = steps.iter().map(|line| line.as_str().unwrap_or_else(|| panic!("{name}: {line}")));
        Self::new(name, setting, job, documents.collect(), steps)
    }

    pub(crate) fn new<'a>(
        name: &str,
        setting: Setting,
        job: Value,
        others: Vec<Value>,
        steps: impl Iterator<Item = &'a str>,
    ) -> Self {
        let steps = std::iter::once("look").chain(steps).map(Step::parse).collect();
        Self { name: name.to_owned(), setting, job, others, steps }
    }

    /// One of its steps, as reports call it.
    pub(crate) fn step(&self, index: usize) -> String {
        format!("{index} ({})", self.steps[index].line)
    }

    pub(crate) fn kind(&self) -> &str {
        text(&self.job, "/kind")
    }

    pub(crate) fn job_name(&self) -> &str {
        text(&self.job, "/metadata/name")
    }
}

fn text_of<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The YAML files of a folder, in order, with their names.
fn yaml_files(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// What the peer's authors show to their users: each runs and ends well.
fn examples(folder: &Path) -> Vec<Case> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        folders.extend(entries.filter(|path| path.is_dir()));
        folders.sort();
        for (name, text) in yaml_files(&folder) {
            let Ok(documents) = serde_saphyr::from_multiple::<Value>(&text) else { continue };
            let jobs = documents.into_iter().filter(|object| {
                text_of(object, "apiVersion") == crate::api::JOBS && is_compared(text_of(object, "kind"))
            });
            for mut job in jobs {
                let place = folder.file_name().unwrap().to_string_lossy().replace('_', "-");
                let kind = text_of(&job, "kind").to_lowercase();
                let name = format!("{kind}-example-{place}-{name}").replace('_', "-").to_lowercase();
                // Room for what the names of its pods add.
                job["metadata"]["name"] = format!("example-{}", found.len()).into();
                if let Some(metadata) = job["metadata"].as_object_mut() {
                    metadata.remove("namespace");
                }
                let steps = ["run all".to_owned(), format!("succeed {}", deciders(&job))];
                let steps = steps.iter().map(String::as_str);
                found.push(Case::new(&name, Setting::Plain, job, Vec::new(), steps));
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The pods on whose success a job ends.
fn deciders(job: &Value) -> String {
    let roles =
        job["spec"].as_object().into_iter().flatten().find(|(field, _)| field.ends_with("ReplicaSpecs"));
    let roles = roles.map(|(_, roles)| roles.clone()).unwrap_or_default();
    let leader = [("Chief", "chief-0"), ("Master", "master-0"), ("Launcher", "launcher")];
    if let Some((_, pod)) = leader.iter().find(|(role, _)| roles.get(role).is_some()) {
        return (*pod).to_owned();
    }
    let workers = if job["kind"] == "TFJob" { 1 } else { roles["Worker"]["replicas"].as_u64().unwrap_or(1) };
    let names: Vec<String> = (0..workers).map(|index| format!("worker-{index}")).collect();
    names.join(" ")
}

fn is_compared(kind: &str) -> bool {
    trainyard_core::Catalog::default().kinds.iter().any(|known| known.name == kind)
}
