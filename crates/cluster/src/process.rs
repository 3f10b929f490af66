//! One program of the control plane, or beside it, and the certainty that it does not outlive us.
//!
//! Each program runs under a small shell that reads from a pipe. The pipe's other end is in this process and closes when
//! this process ends, in whatever way: then the shell kills the program. No signal handler and no `unsafe` is needed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;
use crate::build::tail;

/// The guard. `$@` is the program; fd 3 is our pipe.
const GUARD: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- & program=$!
{ read -r _ <&3; kill -KILL "$program" 2>/dev/null; } & watcher=$!
exec 3<&-
wait "$program"; code=$?
kill "$watcher" 2>/dev/null
exit "$code"
"#;

/// How long a program may take to get ready: far more than it needs, for machines that are busy with other tests.
const READY: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(50);
/// How many lines of a log are shown.
const TAIL: usize = 25;

/// A program that runs while this value lives.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    guard: Child,
}

impl Process {
    /// Starts a program with its output in `folder/NAME.log`.
    ///
    /// # Errors
    /// When it cannot be started, or its log not be written.
    pub fn start(program: &Path, folder: &Path, arguments: &[String]) -> Result<Self, Error> {
        Self::start_with(program, folder, arguments, &[])
    }

    /// The same with these variables added to its environment.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_with(
        program: &Path,
        folder: &Path,
        arguments: &[String],
        environment: &[(&str, &OsStr)],
    ) -> Result<Self, Error> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fs::create_dir_all(folder).map_err(Error::at(folder))?;
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).map_err(Error::at(&log))?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C at the terminal is for us; we end them in order.
            .process_group(0)
            .spawn()
            .map_err(Error::at(program))?;
        Ok(Self { name, log, guard })
    }

    /// Whether it still runs; what it said last if not.
    ///
    /// # Errors
    /// [`Error::Start`] when it has ended.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.guard.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.failed(format!("ended with {status}"))),
        }
    }

    /// Waits until `ready` says yes.
    pub(crate) fn wait_until(&mut self, ready: impl Fn() -> bool) -> Result<(), Error> {
        let begin = Instant::now();
        while !ready() {
            self.check()?;
            if begin.elapsed() > READY {
                return Err(self.failed(format!("was not ready after {} s", READY.as_secs())));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn failed(&self, why: String) -> Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        Error::Start { program: self.name.clone(), why, log: tail(&log, TAIL) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // The guard ends right after its program, which was killed: there is nothing to wait long for.
        let _status = self.guard.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(folder: &Path) -> Process {
        let script = format!("echo $$ >{}/pid; exec sleep 1000", folder.display());
        Process::start(Path::new("/bin/sh"), folder, &["-c".into(), script]).unwrap()
    }

    fn pid(folder: &Path) -> Option<String> {
        let text = fs::read_to_string(folder.join("pid")).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn runs(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(sleep)") && !stat.contains(") Z ")
    }

    #[test]
    fn a_program_ends_with_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = sleeper(folder.path());
        process.wait_until(|| pid(folder.path()).is_some_and(|pid| runs(&pid))).unwrap();
        drop(process);
        assert!(!runs(&pid(folder.path()).unwrap()));
    }

    #[test]
    fn a_program_that_ends_early_shows_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo no luck; exit 3".to_owned();
        let mut process =
            Process::start(Path::new("/bin/sh"), folder.path(), &["-c".into(), script]).unwrap();
        let error = process.wait_until(|| false).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no luck"), "{error}");
    }

    /// Its owner is killed with no chance to tidy up: here a copy of this test, which starts a program and waits.
    #[test]
    fn a_program_ends_when_its_owner_is_killed() {
        const FOLDER: &str = "TRAINYARD_TEST_OWNER";
        if let Some(folder) = std::env::var_os(FOLDER) {
            let _process = sleeper(Path::new(&folder));
            thread::sleep(Duration::from_secs(1000));
        }
        let folder = tempfile::tempdir().unwrap();
        let this = std::env::current_exe().unwrap();
        let mut owner = Command::new(this)
            .args(["--exact", "process::tests::a_program_ends_when_its_owner_is_killed"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        let wait = |what: &str, done: &dyn Fn() -> bool| {
            while !done() {
                assert!(begin.elapsed() < READY, "{what}");
                thread::sleep(PAUSE);
            }
        };
        wait("the program did not start", &|| pid(folder.path()).is_some_and(|pid| runs(&pid)));
        owner.kill().unwrap();
        owner.wait().unwrap();
        let pid = pid(folder.path()).unwrap();
        wait("the program outlived its owner", &|| !runs(&pid));
    }
}
