//! How many files a process may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Lets this process open as many files as it may at most: every running container costs it one. What was allowed before is
/// returned, for its containers: programs that walk over all possible descriptors are slow with a high limit.
pub fn raise_open_files() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok()?;
    Some(soft)
}

/// Sets the soft limit of this process.
pub(crate) fn limit_open_files(soft: u64) {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // A limit that cannot be lowered stays as it is, which breaks nothing.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, soft.min(hard), hard);
    }
}
