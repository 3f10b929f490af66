//! Becoming the container's program: user, directory, environment, and a message for people when that fails.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl::set_no_new_privs;
use nix::sys::stat::{Mode, fstat, umask};
use nix::unistd::{AccessFlags, Gid, Uid, access, chdir, fchown, geteuid, setgid, setgroups, setuid};

use crate::runtime::ContainerSpec;

/// Where programs are looked for when the environment does not say: as in a shell.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Takes on the container's user and goes to its directory.
pub(super) fn settle(spec: &ContainerSpec) -> Result<(), String> {
    become_user(spec)?;
    if spec.isolated {
        // On what it shares with others, `/tmp` for example, its files are its own.
        umask(Mode::from_bits_truncate(0o077));
    }
    if spec.no_new_privs {
        set_no_new_privs().map_err(|error| format!("its rights cannot be limited: {}", text(error)))?;
    }
    chdir(&spec.working_dir).map_err(|error| {
        let dir = spec.working_dir.display();
        format!(
            "the working directory `{dir}` cannot be entered: {}; create it or set workingDir",
            text(error)
        )
    })
}

/// Why a program was not started.
pub(super) struct NotStarted {
    /// For whoever wrote the manifest: what helps is said, too.
    pub(super) people: String,
    /// As a container runtime says it: clients of `exec` look for these words.
    pub(super) runtime: String,
}

impl From<String> for NotStarted {
    fn from(why: String) -> Self {
        Self { people: why.clone(), runtime: why }
    }
}

/// Becomes the program; returns only if that failed, with the reason.
pub(super) fn exec(spec: &ContainerSpec, command: &[String], stdin: Stdio) -> NotStarted {
    let Some((name, arguments)) = command.split_first() else {
        return "there is no command to run; set command in the container".to_owned().into();
    };
    let program = match find(name, &spec.env) {
        Ok(program) => program,
        Err(people) => {
            return NotStarted {
                people,
                runtime: format!("exec: {name:?}: executable file not found in $PATH"),
            };
        }
    };
    obey_signals();
    let error =
        Command::new(&program).arg0(name).args(arguments).env_clear().envs(&spec.env).stdin(stdin).exec();
    NotStarted { people: why_not(&program, &error), runtime: in_runtime_words(&program, &error) }
}

/// What was ignored when the control plane started (interrupts, if a script started it beside others; hang-ups, after
/// `nohup`) would be ignored by the program too. A signal that is caught is a plain one again in a new program.
fn obey_signals() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    let ignored = (1..=libc::SIGSYS).filter(|number| mask >> (number - 1) & 1 == 1);
    for signal in ignored.filter(|number| !signal_hook::consts::FORBIDDEN.contains(number)) {
        let _stays_ignored = signal_hook::flag::register(signal, Arc::default());
    }
}

/// Gives the standard streams to the container's user: otherwise a program cannot open `/dev/stdout` by its name. What is
/// neither a pipe nor a terminal is not the container's alone.
fn hand_over_streams(user: u32) {
    fn hand_over(stream: impl AsFd + IsTerminal, user: u32) {
        let is_pipe = fstat(&stream).is_ok_and(|kind| kind.st_mode & libc::S_IFMT == libc::S_IFIFO);
        if is_pipe || stream.is_terminal() {
            let _only_its_name_does_not_work = fchown(&stream, Some(Uid::from_raw(user)), None);
        }
    }
    hand_over(io::stdin(), user);
    hand_over(io::stdout(), user);
    hand_over(io::stderr(), user);
}

fn become_user(spec: &ContainerSpec) -> Result<(), String> {
    let Some(user) = spec.user.or(spec.group) else { return Ok(()) };
    let group = Gid::from_raw(spec.group.unwrap_or(user));
    if !geteuid().is_root() {
        let same = spec.user.is_none_or(|user| Uid::from_raw(user) == geteuid());
        let hint = "start the node as root or leave runAsUser out";
        return if same { Ok(()) } else { Err(format!("only root can run it as user {user}; {hint}")) };
    }
    spec.user.into_iter().for_each(hand_over_streams);
    let groups: Vec<Gid> =
        [group].into_iter().chain(spec.groups.iter().copied().map(Gid::from_raw)).collect();
    let done = setgroups(&groups).and_then(|()| setgid(group));
    let done = done.and_then(|()| spec.user.map_or(Ok(()), |user| setuid(Uid::from_raw(user))));
    done.map_err(|error| format!("it cannot run as user {user}: {}", text(error)))
}

/// Looks for the program as a shell would, in the `PATH` that the program itself will have.
fn find(name: &str, env: &BTreeMap<String, String>) -> Result<PathBuf, String> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = env.get("PATH").map_or(PATH, String::as_str);
    let mut unusable = None;
    for dir in path.split(':').filter(|_| !name.is_empty()) {
        let candidate = Path::new(if dir.is_empty() { "." } else { dir }).join(name);
        if !candidate.is_file() {
            continue;
        }
        if access(&candidate, AccessFlags::X_OK).is_ok() {
            return Ok(candidate);
        }
        unusable.get_or_insert(candidate);
    }
    Err(match unusable {
        Some(file) => format!("`{}` is not executable; chmod +x it", file.display()),
        None => format!("no such program `{name}` in PATH ({path}); install it, or give its whole path"),
    })
}

fn why_not(program: &Path, error: &io::Error) -> String {
    let program_name = program.display();
    match error.kind() {
        io::ErrorKind::NotFound if program.exists() => {
            format!(
                "`{program_name}` cannot be started: the interpreter it names (first line, or loader) is missing"
            )
        }
        io::ErrorKind::NotFound => format!("no such program `{program_name}`; check the container's command"),
        io::ErrorKind::PermissionDenied if program.is_dir() => {
            format!("`{program_name}` is a directory, not a program; check the container's command")
        }
        io::ErrorKind::PermissionDenied => {
            format!("`{program_name}` is not executable for this user; chmod +x it")
        }
        _ => format!("`{program_name}` cannot be started: {error}"),
    }
}

fn in_runtime_words(program: &Path, error: &io::Error) -> String {
    let name = program.display();
    match error.kind() {
        io::ErrorKind::NotFound if program.exists() => format!("exec {name}: no such file or directory"),
        io::ErrorKind::NotFound => format!("exec: \"{name}\": stat {name}: no such file or directory"),
        io::ErrorKind::PermissionDenied => format!("exec: \"{name}\": permission denied"),
        _ => format!("exec {name}: {error}"),
    }
}

/// What went wrong, in the words of the system.
pub(super) fn text(error: Errno) -> String {
    error.desc().to_owned()
}
