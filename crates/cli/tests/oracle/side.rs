//! One of the two that are compared: an operator, its settings, and a control plane with nobody else in it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures::StreamExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use trainyard_cluster::{Cluster, Process, free_port};
use trainyard_testkit::rest::{Rest, name};

use crate::case::{Case, Setting};
use crate::kubelet::{self, LONG, NODE, PAUSE};
use crate::quiet::{self, Quiet};
use crate::snapshot::{Life, Namespace};
use crate::webhook;

/// Requests of this test under way at once.
const AT_ONCE: usize = 8;
/// What brings kubectl to launchers, where nobody says more.
const KUBECTL_DELIVERY: &str = "ghcr.io/kubeflow/training-v1/kubectl-delivery:latest";
/// The domain in the setting of that name.
const DOMAIN: &str = "training.example";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operator<'a> {
    Peer { program: &'a Path, sources: &'a Path },
    Trainyard { sources: &'a Path },
}

pub(crate) struct Side {
    rest: Rest,
    operators: Vec<Process>,
    quiet: Quiet,
    settings: Vec<Setting>,
    /// Pods that stay although they were deleted, by the will of a script.
    held: BTreeSet<String>,
    /// Where the API server asks about jobs.
    webhook: u16,
}

impl Side {
    /// Starts an operator for each setting that a case wants.
    pub(crate) async fn start(cluster: &Cluster, operator: Operator<'_>, cases: &[Case]) -> Self {
        let rest = Rest::new(client(cluster.kubeconfig()).await);
        let (Operator::Peer { sources, .. } | Operator::Trainyard { sources }) = operator;
        let node = json!({ "metadata": { "name": NODE } });
        rest.post("/api/v1/nodes", &node).await.unwrap();
        define(&rest, &sources.join("manifests/base/crds")).await;
        define(&rest, &crate::folder().join("definitions")).await;
        let settings =
            Setting::ALL.into_iter().filter(|wanted| cases.iter().any(|case| case.setting == *wanted));
        let settings: Vec<Setting> = settings.collect();
        for setting in &settings {
            namespace(&rest, setting.namespace()).await;
        }
        let webhook = free_port().unwrap();
        let operators = match operator {
            Operator::Peer { program, sources } => {
                peers(cluster, &rest, program, sources, &settings, webhook).await
            }
            Operator::Trainyard { .. } => all_of_ours(cluster, &settings, webhook),
        };
        let quiet = Quiet::of(cases);
        let mut side = Self { rest, operators, quiet, settings, held: BTreeSet::new(), webhook };
        side.settle().await;
        side
    }

    /// Replaces the operators by ours, in the middle of everything.
    pub(crate) async fn hand_over(&mut self, cluster: &Cluster) {
        self.operators.clear();
        self.operators = all_of_ours(cluster, &self.settings, self.webhook);
        self.settle().await;
    }

    /// Takes all cases through their steps, and returns what was seen of each.
    pub(crate) async fn live(&mut self, cases: &[Case]) -> Vec<Life> {
        let mut lives: Vec<Life> = cases.iter().map(|_| Life::default()).collect();
        self.rounds(cases, &mut lives, 0..rounds(cases)).await;
        self.quiet.narrow(cases.iter());
        self.settle().await;
        self.quiet.events(&self.rest).await;
        for (case, life) in cases.iter().zip(&mut lives) {
            life.add_events(&self.rest, case).await;
        }
        lives
    }

    /// The same, with ours in the place of the peer after so many steps. Events are not told twice: they are left out.
    pub(crate) async fn live_with_change(
        &mut self,
        cases: &[Case],
        cluster: &Cluster,
        after: usize,
    ) -> Vec<Life> {
        let mut lives: Vec<Life> = cases.iter().map(|_| Life::default()).collect();
        self.rounds(cases, &mut lives, 0..after).await;
        self.hand_over(cluster).await;
        self.rounds(cases, &mut lives, after..rounds(cases)).await;
        lives
    }

    async fn rounds(&mut self, cases: &[Case], lives: &mut [Life], rounds: Range<usize>) {
        for round in rounds {
            self.quiet.narrow(cases.iter().filter(|case| round < case.steps.len()));
            let told = self.perform(cases, lives, round).await;
            self.settle().await;
            self.nudge(cases, round).await;
            self.look(cases, lives, round, &told).await;
        }
    }

    /// One step of each case that has one.
    async fn perform(&mut self, cases: &[Case], lives: &mut [Life], round: usize) -> Vec<Vec<String>> {
        for case in cases {
            if let Some(step) = case.steps.get(round) {
                kubelet::hold(case, step, &mut self.held);
            }
        }
        let rest = &self.rest;
        if round == 0 {
            let created = futures::stream::iter(cases).map(|case| kubelet::create(rest, case));
            let refusals: Vec<Option<String>> = created.buffered(AT_ONCE).collect().await;
            for (life, refusal) in lives.iter_mut().zip(refusals) {
                life.refusal = refusal;
            }
        }
        let done = futures::stream::iter(cases).map(|case| async move {
            match case.steps.get(round) {
                Some(step) => kubelet::perform(rest, case, step).await,
                None => Vec::new(),
            }
        });
        done.buffered(AT_ONCE).collect().await
    }

    /// Wakes the jobs of a setting in which the peer loses events now and then.
    async fn nudge(&mut self, cases: &[Case], round: usize) {
        let deaf = cases.iter().filter(|case| case.setting == Setting::Plugins && round < case.steps.len());
        let mut any = false;
        for case in deaf {
            let nudge = quiet::nudge(round as u64);
            any |= self.rest.merge(&kubelet::path(case), &nudge).await.is_ok();
        }
        if any {
            self.settle().await;
        }
    }

    /// Waits until the operator is done, and the node with the pods that were to end.
    async fn settle(&mut self) {
        loop {
            let operators = &mut self.operators;
            let alive = || operators.iter_mut().for_each(|operator| operator.check().unwrap());
            self.quiet.wait(&self.rest, alive).await;
            let mut ended = false;
            for setting in &self.settings {
                ended |= kubelet::finish(&self.rest, setting.namespace(), &self.held).await;
            }
            if !ended {
                return;
            }
        }
    }

    async fn look(&self, cases: &[Case], lives: &mut [Life], round: usize, told: &[Vec<String>]) {
        for setting in Setting::ALL {
            let now = |case: &&Case| case.setting == setting && round < case.steps.len();
            let kinds: BTreeSet<&str> = cases.iter().filter(now).map(Case::kind).collect();
            if kinds.is_empty() {
                continue;
            }
            let namespace = Namespace::read(&self.rest, setting, &kinds).await;
            let here = cases.iter().zip(lives.iter_mut()).zip(told);
            for ((case, life), told) in here.filter(|((case, _), _)| case.setting == setting) {
                if round < case.steps.len() {
                    life.look(case, &namespace, told);
                }
            }
        }
    }
}

/// The steps of the longest case.
fn rounds(cases: &[Case]) -> usize {
    cases.iter().map(|case| case.steps.len()).max().unwrap_or(0)
}

async fn client(kubeconfig: &Path) -> kube::Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// The peer's own definitions, on both sides: a swap changes nothing about them.
async fn define(rest: &Rest, folder: &Path) {
    let collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let definition: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        if definition["kind"] == "CustomResourceDefinition" {
            names.push(name(&definition).to_owned());
            rest.post(collection, &definition).await.unwrap();
        }
    }
    let begun = Instant::now();
    for name in names {
        let is_served = async || {
            let seen = rest.get(&format!("{collection}/{name}")).await.unwrap();
            let conditions = seen["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
        };
        while !is_served().await {
            assert!(begun.elapsed() < LONG, "{name} is not served");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A namespace with the account that pods need; a controller manager would make it.
async fn namespace(rest: &Rest, name: &str) {
    rest.post("/api/v1/namespaces", &json!({ "metadata": { "name": name } })).await.unwrap();
    let account = json!({ "metadata": { "name": "default" }, "automountServiceAccountToken": false });
    rest.post(&format!("/api/v1/namespaces/{name}/serviceaccounts"), &account).await.unwrap();
}

/// One of ours per setting; the first answers for the webhooks of all, where there are any.
fn all_of_ours(cluster: &Cluster, settings: &[Setting], webhook: u16) -> Vec<Process> {
    let ports = std::iter::once(webhook).chain(std::iter::repeat(0));
    settings.iter().zip(ports).map(|(setting, port)| ours(cluster, *setting, port)).collect()
}

fn ours(cluster: &Cluster, setting: Setting, webhook: u16) -> Process {
    let mut arguments = vec![
        "operator".to_owned(),
        format!("--namespace={}", setting.namespace()),
        format!("--kubeconfig={}", cluster.kubeconfig().display()),
        format!("--webhook-server-port={webhook}"),
    ];
    arguments.extend(options(setting));
    // The peer's defaults; ours are made of Trainyard's own image.
    arguments.extend(["--metrics-bind-address=0".into(), "--health-probe-bind-address=0".into()]);
    arguments.push("--pytorch-init-container-image=alpine:3.10".into());
    arguments.push(format!("--mpi-kubectl-delivery-image={KUBECTL_DELIVERY}"));
    let program = Path::new(env!("CARGO_BIN_EXE_trainyard"));
    Process::start_with(program, &logs(cluster, setting), &arguments, &variables(setting)).unwrap()
}

fn logs(cluster: &Cluster, setting: Setting) -> PathBuf {
    cluster.directory().join("log").join(setting.namespace())
}

fn variables(setting: Setting) -> Vec<(&'static str, &'static OsStr)> {
    match setting {
        Setting::Plain | Setting::Volcano | Setting::Plugins => Vec::new(),
        Setting::Domain => vec![("CUSTOM_CLUSTER_DOMAIN", OsStr::new(DOMAIN))],
    }
}

/// The options in which settings differ; both operators have them.
fn options(setting: Setting) -> Vec<String> {
    let gang = match setting {
        Setting::Plain | Setting::Domain => return Vec::new(),
        Setting::Volcano => "volcano",
        Setting::Plugins => "scheduler-plugins-scheduler",
    };
    vec![format!("--gang-scheduler-name={gang}")]
}

/// One peer per setting; the first answers for the webhooks of all.
async fn peers(
    cluster: &Cluster,
    rest: &Rest,
    program: &Path,
    sources: &Path,
    settings: &[Setting],
    port: u16,
) -> Vec<Process> {
    webhook::prepare(rest, sources, port).await;
    let start = |setting: Setting, port: u16| peer(cluster, program, setting, port);
    // One that reads its certificates before they are there ends with an error; it made them, and its successor finds them.
    let first = settings.first().copied().unwrap();
    let mut maker = start(first, port);
    let begun = Instant::now();
    while !webhook::deliver(rest, cluster.directory()).await {
        maker.check().unwrap();
        assert!(begun.elapsed() < LONG, "the peer made no certificates");
        tokio::time::sleep(PAUSE).await;
    }
    drop(maker);
    settings
        .iter()
        .map(|setting| start(*setting, if *setting == first { port } else { free_port().unwrap() }))
        .collect()
}

fn peer(cluster: &Cluster, program: &Path, setting: Setting, port: u16) -> Process {
    let mut arguments = vec![
        format!("--kubeconfig={}", cluster.kubeconfig().display()),
        format!("--namespace={}", setting.namespace()),
        "--metrics-bind-address=0".to_owned(),
        "--health-probe-bind-address=0".to_owned(),
        format!("--webhook-server-port={port}"),
        // Its limits would only make it slower.
        "--kube-api-qps=2000".to_owned(),
        "--kube-api-burst=4000".to_owned(),
    ];
    arguments.extend(options(setting));
    let mut environment = variables(setting);
    environment.push(("TMPDIR", cluster.directory().as_os_str()));
    Process::start_with(program, &logs(cluster, setting), &arguments, &environment).unwrap()
}
