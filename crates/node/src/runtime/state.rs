//! The state file of a run: a block of fixed size that is reserved when a run is claimed and overwritten in place, so
//! that a disk that fills up afterwards cannot lose an exit code.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Exit;

/// The name of the file.
const NAME: &str = "state";
/// One block of any file system.
const SIZE: usize = 4096;
/// A reader may come in the middle of a write; this many times it looks again.
const LOOKS: u32 = 20;

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "camelCase")]
pub(crate) enum State {
    /// Claimed; the program does not run yet.
    Starting {
        /// When it was claimed.
        at: Timestamp,
    },
    /// The program runs.
    Running {
        /// Its process, which is its process group too.
        pid: i32,
        /// Since when.
        started_at: Timestamp,
    },
    /// It is over.
    Ended {
        /// How it ended.
        exit: Exit,
        /// What could not be said in the log any more: how many lines are missing at its end, and why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost: Option<String>,
    },
}

impl State {
    /// Reads the state; nothing if the run was never claimed.
    pub(crate) fn read(dir: &Path) -> io::Result<Option<Self>> {
        for _ in 0..LOOKS {
            match fs::read(dir.join(NAME)) {
                Ok(bytes) => {
                    if let Some(state) = decode(&bytes) {
                        return Ok(Some(state));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the state file is damaged"))
    }

    /// Writes the state over what was there, durably.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        self.put(dir)?.sync_data()
    }

    /// Writes a state that means nothing after a power cut, since then nothing runs any more.
    pub(crate) fn write_passing(&self, dir: &Path) -> io::Result<()> {
        self.put(dir).map(drop)
    }

    fn put(&self, dir: &Path) -> io::Result<File> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.join(NAME))?;
        file.write_all_at(&self.encode()?, 0)?;
        Ok(file)
    }

    /// JSON, its checksum on the next line, spaces up to the size. A message that is too long is cut.
    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut state = self.clone();
        loop {
            let json = serde_json::to_vec(&state)?;
            if json.len() + 18 <= SIZE {
                let mut block = json;
                block.extend_from_slice(format!("\n{:016x}", checksum(&block)).as_bytes());
                block.resize(SIZE - 1, b' ');
                block.push(b'\n');
                return Ok(block);
            }
            let Self::Ended { exit: Exit { message: Some(message), .. }, .. } = &mut state else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the state does not fit its file"));
            };
            let half = message.chars().count() / 2;
            *message = message.chars().take(half).collect::<String>();
        }
    }
}

fn decode(bytes: &[u8]) -> Option<State> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (json, rest) = text.split_once('\n')?;
    let sum = u64::from_str_radix(rest.get(..16)?, 16).ok()?;
    (sum == checksum(json.as_bytes())).then(|| serde_json::from_str(json).ok()).flatten()
}

/// FNV-1a: it has to notice a half-written block, no more.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ExitReason;

    fn ended(message: String) -> State {
        let at = Timestamp::UNIX_EPOCH;
        let reason = ExitReason::Error;
        let exit =
            Exit { code: 1, signal: None, reason, message: Some(message), started_at: at, finished_at: at };
        State::Ended { exit, lost: None }
    }

    #[test]
    fn a_state_always_takes_one_block() {
        let states =
            [State::Starting { at: Timestamp::UNIX_EPOCH }, ended("x".into()), ended("\n".repeat(9000))];
        for state in states {
            let block = state.encode().unwrap();
            assert_eq!(block.len(), SIZE);
            assert!(decode(&block).is_some());
        }
    }

    #[test]
    fn a_half_written_state_is_noticed() {
        let old = ended("aaaaaaaa".into()).encode().unwrap();
        let mut torn = ended("bbbbbbbb".into()).encode().unwrap();
        let cut = torn.iter().position(|&byte| byte == b'b').unwrap() + 4;
        torn[cut..].copy_from_slice(&old[cut..]);
        assert_eq!(decode(&torn), None);
    }
}
