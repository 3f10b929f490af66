//! An `up` of one's own, and jobs for it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, LogParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// Nothing in these tests takes this long unless it is broken: machines may be slow, conditions are waited for.
pub(crate) const LONG: Duration = Duration::from_secs(180);

pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_trainyard");

/// A command of the binary with its own home.
pub(crate) fn trainyard(home: &Path) -> Command {
    of(Path::new(BIN), home)
}

fn of(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("HOME", home)
        .env_remove("XDG_DATA_HOME")
        .env_remove("XDG_STATE_HOME")
        .env_remove("KUBECONFIG");
    command.current_dir(home).stdin(Stdio::null());
    command
}

/// A running `up`. It is ended with everything it started when it is dropped.
pub(crate) struct Up {
    pub(crate) dir: PathBuf,
    program: PathBuf,
    child: Child,
    args: Vec<String>,
}

impl Up {
    pub(crate) async fn start(dir: &Path, args: &[&str]) -> Self {
        Self::start_with(Path::new(BIN), dir, args).await
    }

    /// An `up` of another copy of the program.
    pub(crate) async fn start_with(program: &Path, dir: &Path, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let child = spawn(program, dir, &args);
        let mut up = Self { dir: dir.to_owned(), program: program.to_owned(), child, args };
        up.until_ready().await;
        up
    }

    /// Starts it again after it was killed.
    pub(crate) async fn again(&mut self) {
        self.child = spawn(&self.program, &self.dir, &self.args);
        self.until_ready().await;
    }

    /// The same where nothing can be written: not even the kubeconfig goes before.
    pub(crate) async fn again_without_space(&mut self) {
        self.child = spawn_beside(&self.program, &self.dir, &self.args);
        self.until_ready().await;
    }

    /// Starts it again with `--salvage`, this once.
    pub(crate) async fn salvage(&mut self) {
        let args = [self.args.as_slice(), &["--salvage".to_owned()]].concat();
        self.child = spawn(&self.program, &self.dir, &args);
        self.until_ready().await;
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    async fn until_ready(&mut self) {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!(
                    "`up` ended with {status}: {}",
                    std::fs::read_to_string(self.dir.parent().unwrap().join("up.err")).unwrap_or_default()
                );
            }
            if let Some(client) = self.try_client().await
                && client.apiserver_version().await.is_ok()
                && client.request_text(http::Request::get("/readyz").body(Vec::new()).unwrap()).await.is_ok()
            {
                return;
            }
            assert!(begun.elapsed() < LONG, "`up` is not ready");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn try_client(&self) -> Option<Client> {
        let file = Kubeconfig::read_from(self.dir.join("kubeconfig")).ok()?;
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.ok()?;
        Client::try_from(config).ok()
    }

    pub(crate) async fn client(&self) -> Client {
        self.try_client().await.expect("a kubeconfig")
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as a user would, by a signal; its output comes back.
    pub(crate) fn terminate(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap();
    }

    /// A client command against it.
    pub(crate) fn command(&self, args: &[&str]) -> Output {
        let mut command = trainyard(&self.dir);
        command.env("KUBECONFIG", self.dir.join("kubeconfig")).args(args);
        command.output().unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let dir = self.dir.to_string_lossy().into_owned();
        let _ = trainyard(&self.dir).args(["down", "--grace-period", "0", "--data-dir", &dir]).output();
    }
}

fn spawn(program: &Path, dir: &Path, args: &[String]) -> Child {
    // A kubeconfig of the time before would lead to a port that is no longer there.
    let _ = std::fs::remove_file(dir.join("kubeconfig"));
    spawn_beside(program, dir, args)
}

fn spawn_beside(program: &Path, dir: &Path, args: &[String]) -> Child {
    let errors = std::fs::File::create(dir.parent().unwrap().join("up.err")).unwrap();
    let mut command = of(program, dir.parent().unwrap());
    command.arg("up").arg("--data-dir").arg(dir).args(["--port", "0"]).args(args);
    command.stdout(Stdio::null()).stderr(errors).spawn().unwrap()
}

/// A PyTorchJob of a master and workers that run a shell script.
pub(crate) fn job(name: &str, workers: u32, script: &str) -> Value {
    let template = json!({ "spec": { "containers": [{
        "name": "pytorch", "image": "none", "command": ["sh", "-c", script] }] } });
    let mut replicas = json!({ "Master": { "replicas": 1, "restartPolicy": "Never", "template": template } });
    if workers > 0 {
        replicas["Worker"] = json!({ "replicas": workers, "restartPolicy": "Never", "template": template });
    }
    json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": name, "namespace": "default" },
        "spec": { "pytorchReplicaSpecs": replicas } })
}

/// Changes every replica of a job.
pub(crate) fn each_replica(mut job: Value, change: impl Fn(&mut Value)) -> Value {
    for (_, replica) in job["spec"]["pytorchReplicaSpecs"].as_object_mut().unwrap() {
        change(replica);
    }
    job
}

pub(crate) fn jobs(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "kubeflow.org".into(),
        version: "v1".into(),
        api_version: "kubeflow.org/v1".into(),
        kind: "PyTorchJob".into(),
        plural: "pytorchjobs".into(),
    };
    Api::namespaced_with(client.clone(), "default", &resource)
}

pub(crate) async fn create(client: &Client, job: &Value) {
    let object: DynamicObject = serde_json::from_value(job.clone()).unwrap();
    jobs(client).create(&PostParams::default(), &object).await.unwrap();
}

pub(crate) async fn delete(client: &Client, name: &str) {
    jobs(client).delete(name, &DeleteParams::background()).await.unwrap();
}

/// The last condition that holds.
pub(crate) fn state(job: &DynamicObject) -> String {
    let conditions = job.data.pointer("/status/conditions").and_then(Value::as_array);
    let mut holds = conditions.into_iter().flatten().filter(|c| c["status"] == "True");
    holds.next_back().and_then(|c| c["type"].as_str()).unwrap_or_default().to_owned()
}

pub(crate) async fn pods(client: &Client, of: &str) -> Vec<k8s_openapi::api::core::v1::Pod> {
    let params = ListParams::default().labels(&format!("training.kubeflow.org/job-name={of}"));
    Api::namespaced(client.clone(), "default").list(&params).await.unwrap().items
}

pub(crate) async fn log(client: &Client, pod: &str) -> String {
    let api: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client.clone(), "default");
    api.logs(pod, &LogParams::default()).await.unwrap()
}

/// Waits until a job is in one of these states.
pub(crate) async fn until(client: &Client, name: &str, states: &[&str]) -> DynamicObject {
    let begun = Instant::now();
    loop {
        let found = jobs(client).get_opt(name).await.ok().flatten();
        if let Some(job) = &found
            && states.contains(&state(job).as_str())
        {
            return job.clone();
        }
        assert!(begun.elapsed() < LONG, "{name} is not {states:?}: {found:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for anything.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < LONG, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Processes of this machine whose environment holds a mark.
pub(crate) fn processes_with(mark: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        !environ.is_empty() && environ.split(|byte| *byte == 0).any(|var| var == mark.as_bytes())
    })
    .collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether containers can have mounts here, or why not: a test that needs them is then left out, and says so.
pub(crate) fn can_mount() -> Result<(), String> {
    trainyard_node::runtime::Runtime::new(BIN.into(), trainyard_operator::system_clock()).can_mount()
}
