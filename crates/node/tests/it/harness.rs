//! A runtime with a directory of its own, and conditions to wait for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::Timestamp;
use tempfile::TempDir;
use trainyard_node::lock::FileLock;
use trainyard_node::runtime::logs::{self, LogQuery};
use trainyard_node::runtime::{ContainerSpec, Exit, Instance, Limits, LogRules, Orphan, Runtime};

/// Long enough for the slowest machine: nothing is ever measured by it.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) root: TempDir,
    pub(crate) plane: Option<FileLock>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let plane = Some(FileLock::acquire(&root.path().join("plane.lock")).unwrap());
        Self { runtime: Runtime::new(shim(), clock()), root, plane }
    }

    /// The directory of a run, laid out as the node does it.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        self.root.path().join("pods/uid/containers").join(name).join("0")
    }

    pub(crate) fn spec(&self, command: &[&str]) -> ContainerSpec {
        ContainerSpec {
            label: "default/test/main".to_owned(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            env: BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
            working_dir: PathBuf::from("/"),
            mounts: Vec::new(),
            user: None,
            group: None,
            groups: Vec::new(),
            isolated: false,
            no_new_privs: false,
            limits: Limits::default(),
            stdin: false,
            stdin_once: false,
            tty: false,
            open_files: None,
            log: LogRules { max_bytes: 64 << 20, max_files: 5 },
            orphan: Orphan {
                lock: self.root.path().join("plane.lock"),
                after_seconds: None,
                grace_seconds: 1,
            },
        }
    }

    pub(crate) fn shell(&self, script: &str) -> ContainerSpec {
        self.spec(&["sh", "-c", script])
    }

    /// Starts it and waits for its end.
    pub(crate) async fn run(&self, dir: &Path, spec: &ContainerSpec) -> Exit {
        self.runtime.start(dir, spec).await.unwrap();
        self.ended(dir).await
    }

    pub(crate) async fn ended(&self, dir: &Path) -> Exit {
        tokio::time::timeout(LIMIT, self.runtime.ended(dir)).await.expect("it does not end").unwrap()
    }

    /// Starts it and waits until its program runs.
    pub(crate) async fn begin(&self, dir: &Path, spec: &ContainerSpec) -> i32 {
        self.runtime.start(dir, spec).await.unwrap();
        match tokio::time::timeout(LIMIT, self.runtime.started(dir))
            .await
            .expect("it does not start")
            .unwrap()
        {
            Instance::Running { pid, .. } => pid,
            other => panic!("it does not run: {other:?}"),
        }
    }
}

impl Drop for Bench {
    /// A test that fails leaves nothing running.
    fn drop(&mut self) {
        let runs =
            trainyard_node::runtime::end_all(&self.root.path().join("pods"), Duration::ZERO, clock()());
        for run in runs.unwrap_or_default() {
            let until = Instant::now() + Duration::from_secs(10);
            while Instant::now() < until && !matches!(self.runtime.look(&run), Ok(Instance::Ended(_))) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "shims run in the machine's time")]
pub(crate) fn clock() -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
    Arc::new(Timestamp::now)
}

/// The example that is the shim alone.
pub(crate) fn shim() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let shim = own.parent().and_then(Path::parent).unwrap().join("examples/shim");
    assert!(shim.exists(), "the example `shim` is not built: run `cargo test -p trainyard-node`");
    shim
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut met: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !met() {
        assert!(Instant::now() < limit, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a file says, once it says something.
pub(crate) async fn content(path: &Path) -> String {
    until(&format!("{} has a line", path.display()), || {
        fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n'))
    })
    .await;
    fs::read_to_string(path).unwrap()
}

pub(crate) async fn log(dir: &Path, query: LogQuery) -> String {
    let chunks: Vec<_> =
        tokio::time::timeout(LIMIT, logs::read(dir.to_owned(), query).collect()).await.unwrap();
    let bytes: Vec<u8> = chunks.into_iter().flat_map(|chunk| chunk.unwrap().to_vec()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) async fn whole_log(dir: &Path) -> String {
    log(dir, LogQuery::default()).await
}

/// Alive, and not just waiting to be collected.
pub(crate) fn alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}

/// The shim's process, from its lock.
pub(crate) fn shim_of(dir: &Path) -> i32 {
    trainyard_node::lock::holder(&dir.join("shim.lock")).unwrap().try_into().unwrap()
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
