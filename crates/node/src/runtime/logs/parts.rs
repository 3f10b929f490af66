//! The files of a log, which may be put aside while they are read.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::runtime::files::LOG;

/// One file of a log, opened: it stays readable whatever becomes of its name.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: File,
    pub(super) inode: u64,
}

/// All files of a log, oldest first.
///
/// They are looked at newest first, for names only ever grow older: a file that is put aside meanwhile is seen twice,
/// and never missed.
pub(super) fn parts(dir: &Path) -> io::Result<Vec<Part>> {
    let mut found: Vec<Part> = Vec::new();
    for n in 0..=oldest(dir) + 1 {
        let name = if n == 0 { LOG.to_owned() } else { format!("{LOG}.{n}") };
        let file = match File::open(dir.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let inode = file.metadata()?.ino();
        if found.iter().all(|part| part.inode != inode) {
            found.push(Part { file, inode });
        }
    }
    found.reverse();
    Ok(found)
}

fn oldest(dir: &Path) -> u32 {
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let numbers = names.filter_map(|name| name.to_str()?.strip_prefix(LOG)?.strip_prefix('.')?.parse().ok());
    numbers.max().unwrap_or(0)
}
