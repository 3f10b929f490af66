//! The shim itself: one loop that moves output into the log, hears of children and requests, and keeps the time.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::WaitStatus;
use nix::unistd::{chdir, setsid};

use super::input::Input;
use super::log::{Log, Source};
use super::start::{Started, start};
use super::{claim, kill, now, outcome};
use crate::runtime::ContainerSpec;
use crate::runtime::cgroup::Cgroups;
use crate::runtime::files::{StopRequest, read_spec};
use crate::runtime::state::State;
use crate::{lock, secrets};

/// How often requests and the control plane's lock are looked at without being told to.
const TICK: Duration = Duration::from_secs(1);
/// Everything that could still write is dead when the rest of the output is read; only a stranger can hold a pipe open.
const DRAIN: Duration = Duration::from_secs(5);
/// After less than this, the next output is left to gather for a moment: a program that writes line by line must not cost
/// a wake-up and a write for each.
const LITTLE: usize = 8 * 1024;
/// That moment.
const GATHER: Duration = Duration::from_millis(5);
/// What a pipe holds.
const CHUNK: usize = 64 * 1024;

/// Runs the container of this directory if nobody else does or did. The exit code of a shim that could not even claim
/// its run is the error's number.
pub(super) fn main(dir: &Path) -> ExitCode {
    match run(dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(error.raw_os_error().and_then(|n| u8::try_from(n).ok()).unwrap_or(1)),
    }
}

fn run(dir: &Path) -> io::Result<()> {
    let signals = listen()?;
    let _leads_a_session_already = setsid();
    chdir("/")?;
    umask(Mode::from_bits_truncate(0o022));
    prctl::set_child_subreaper(true)?;
    let Some(_lock) = claim::claim(dir)? else { return Ok(()) };
    let tried_at = now();
    let failed = |message: String| (outcome::start_error(message, tried_at), None);
    let (exit, lost) = match read_spec(dir) {
        Err(error) => failed(format!("its description cannot be read: {error}")),
        Ok(spec) => {
            let groups = Cgroups::create(dir, spec.limits);
            let end = match start(dir, &spec) {
                Err(error) => failed(format!("no process could be started: {error}")),
                Ok(started) => Supervisor::new(dir, &spec, &groups, signals, started).run(),
            };
            groups.remove();
            end
        }
    };
    // Before the end is told: whoever sees the end finds no secrets.
    let _removed_by_the_next_look = secrets::forget_spec(dir);
    State::Ended { exit, lost }.write(dir)
}

/// Signals are read from a descriptor. A file size limit is to fail a write, not to end the shim.
fn listen() -> io::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    let mut blocked = set;
    blocked.add(Signal::SIGXFSZ);
    blocked.thread_set_mask()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

struct Supervisor<'a> {
    dir: PathBuf,
    spec: &'a ContainerSpec,
    groups: &'a Cgroups,
    signals: SignalFd,
    pid: nix::unistd::Pid,
    stdout: Option<File>,
    stderr: Option<File>,
    verdict: Option<File>,
    input: Input,
    complaint: Vec<u8>,
    log: Log,
    buffer: Vec<u8>,
    started_at: Timestamp,
    /// How the program ended, once it has.
    ended: Option<WaitStatus>,
    none_left: bool,
    /// When everything is ended at the latest; set by a request to stop.
    deadline: Option<Instant>,
    /// Since when nobody has held the control plane's lock.
    alone_since: Option<Instant>,
    next_tick: Instant,
    /// Until then output gathers.
    next_read: Instant,
}

impl<'a> Supervisor<'a> {
    fn new(
        dir: &Path,
        spec: &'a ContainerSpec,
        groups: &'a Cgroups,
        signals: SignalFd,
        started: Started,
    ) -> Self {
        Self {
            dir: dir.to_owned(),
            spec,
            groups,
            signals,
            pid: started.pid,
            stdout: Some(started.stdout),
            stderr: started.stderr,
            verdict: Some(started.verdict),
            input: started.input,
            complaint: Vec::new(),
            log: Log::new(dir, spec.log),
            buffer: vec![0; CHUNK],
            started_at: now(),
            ended: None,
            none_left: false,
            deadline: None,
            alone_since: None,
            next_tick: Instant::now(),
            next_read: Instant::now(),
        }
    }

    /// How it ended, and what the log could not be told.
    fn run(mut self) -> (crate::runtime::Exit, Option<String>) {
        while !self.is_over() {
            if Instant::now() >= self.next_tick {
                self.tick();
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            self.wait(self.timeout());
            self.hear_signals();
            self.input.pass_on();
            if Instant::now() >= self.next_read && !self.read_all() && self.spec.is_interactive() {
                self.log.show_open_lines();
            }
        }
        let reaped = kill::kill_all(self.pid, self.groups);
        self.ended = self.ended.or(reaped.main);
        self.drain();
        let lost = self.log.unsaid();
        if self.complaint.is_empty() {
            return (outcome::ended(self.ended, self.spec, self.groups, self.started_at), lost);
        }
        let complaint = String::from_utf8_lossy(&self.complaint).into_owned();
        (outcome::start_error(complaint, self.started_at), lost)
    }

    /// The program's end is the container's; only in a stop the others get the rest of the grace period.
    fn is_over(&self) -> bool {
        self.ended.is_some() && (self.deadline.is_none() || self.none_left)
    }

    fn timeout(&self) -> Duration {
        let until = self.deadline.map_or(self.next_tick, |deadline| deadline.min(self.next_tick));
        until.saturating_duration_since(Instant::now())
    }

    fn wait(&self, timeout: Duration) {
        let gathering = self.next_read.saturating_duration_since(Instant::now());
        let timeout = if gathering.is_zero() { timeout } else { timeout.min(gathering) };
        // Rounded up: waking too early would mean to spin until the time has come.
        let millis = u16::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        let pipes = [&self.stdout, &self.stderr, &self.verdict].into_iter().flatten().map(AsFd::as_fd);
        let pipes = pipes.filter(|_| gathering.is_zero());
        let mut fds: Vec<PollFd<'_>> = std::iter::once(self.signals.as_fd())
            .chain(pipes)
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .chain(self.input.waits_for())
            .collect();
        let _looked_at_anyway = poll(&mut fds, PollTimeout::from(millis));
    }

    fn hear_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            match i32::try_from(info.ssi_signo).ok().and_then(|n| Signal::try_from(n).ok()) {
                Some(Signal::SIGCHLD) => {
                    let reaped = kill::reap(self.pid);
                    self.ended = self.ended.or(reaped.main);
                    self.none_left = reaped.none_left;
                }
                Some(Signal::SIGTERM) if !self.obey_request() => {
                    self.stop(Duration::from_secs(self.spec.orphan.grace_seconds));
                }
                Some(Signal::SIGUSR1) => {
                    self.obey_request();
                    self.input.obey(&self.dir);
                }
                _ => {}
            }
        }
    }

    fn tick(&mut self) {
        self.next_tick = Instant::now() + TICK;
        self.obey_request();
        self.input.obey(&self.dir);
        let Some(after) = self.spec.orphan.after_seconds else { return };
        if lock::is_held(&self.spec.orphan.lock) {
            self.alone_since = None;
            return;
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= Duration::from_secs(after) {
            self.stop(Duration::from_secs(self.spec.orphan.grace_seconds));
        }
    }

    /// Looks for a request to stop; whether there is one.
    fn obey_request(&mut self) -> bool {
        let request = StopRequest::read(&self.dir);
        if let Some(request) = &request {
            self.stop(request.grace());
        }
        request.is_some()
    }

    /// The first request asks politely; each may shorten the time, none lengthens it.
    fn stop(&mut self, grace: Duration) {
        let deadline = Instant::now().checked_add(grace);
        let first = self.deadline.is_none();
        let far = || Instant::now() + Duration::from_secs(u64::from(u32::MAX));
        let deadline = deadline.unwrap_or_else(far);
        self.deadline = Some(self.deadline.map_or(deadline, |before| before.min(deadline)));
        // The group's number is only safe while its leader was not collected.
        if first && !grace.is_zero() && self.ended.is_none() {
            let _just_ended = killpg(self.pid, Signal::SIGTERM);
        }
    }

    /// Reads once from each pipe; false when nothing was there.
    fn read_all(&mut self) -> bool {
        let read = self.read_output(Source::Stdout) + self.read_output(Source::Stderr);
        if (1..LITTLE).contains(&read) {
            self.next_read = Instant::now() + GATHER;
        }
        self.read_verdict();
        read > 0
    }

    fn read_output(&mut self, source: Source) -> usize {
        let pipe = match source {
            Source::Stdout => &mut self.stdout,
            Source::Stderr => &mut self.stderr,
        };
        let Some(reader) = pipe.as_mut() else { return 0 };
        match reader.read(&mut self.buffer) {
            Ok(0) => {
                *pipe = None;
                self.log.close(source);
                0
            }
            Ok(count) => {
                self.log.take(source, self.buffer.get(..count).unwrap_or_default());
                count
            }
            // The terminal of which nobody has the other end any more.
            Err(error) if error.raw_os_error() == Some(nix::libc::EIO) => {
                *pipe = None;
                self.log.close(source);
                0
            }
            Err(_) => 0,
        }
    }

    /// The pipe ends when the program starts, since it is closed then.
    fn read_verdict(&mut self) {
        let Some(reader) = self.verdict.as_mut() else { return };
        match reader.read(&mut self.buffer) {
            Ok(0) => {
                self.verdict = None;
                if self.complaint.is_empty() {
                    self.started_at = now();
                    let running = State::Running { pid: self.pid.as_raw(), started_at: self.started_at };
                    let _only_for_whoever_looks = running.write_passing(&self.dir);
                }
            }
            Ok(count) => self.complaint.extend_from_slice(self.buffer.get(..count).unwrap_or_default()),
            Err(_) => {}
        }
    }

    /// Everything that was written before the end comes into the log before the end is told.
    fn drain(&mut self) {
        let until = Instant::now() + DRAIN;
        while (self.stdout.is_some() || self.stderr.is_some()) && Instant::now() < until {
            if !self.read_all() {
                self.hear_signals();
                self.wait(until.saturating_duration_since(Instant::now()).min(TICK));
            }
        }
        self.read_verdict();
        self.log.close(Source::Stdout);
        self.log.close(Source::Stderr);
    }
}
