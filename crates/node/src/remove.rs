//! Removes directories that others have filled, however they did it.
//!
//! A program may nest directories deeper than a stack or a path is long, or take its own rights away. Nothing here
//! recurses, and no link is followed.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::path::Path;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, chmodat, fchmod, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

/// Levels that are gone down, each with an open directory. What lies deeper is moved up first.
const DEPTH: usize = 32;

/// Removes a directory with all that is in it. What cannot be removed stays, and everything else goes.
///
/// # Errors
/// When something is left, or when there is no such directory.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let root = match open_anyway(CWD, path) {
        // Whoever put something else there does not get at what it leads to.
        Err(Errno::LOOP | Errno::NOTDIR) => return fs::remove_file(path),
        root => root?,
    };
    loop {
        let mut pass = Pass { root: &root, done: 0, trouble: None };
        pass.run()?;
        match pass.trouble {
            None => return fs::remove_dir(path),
            Some(Errno::NOTEMPTY) if pass.done > 0 => {}
            Some(error) => return Err(error.into()),
        }
    }
}

fn open(at: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// Does something in a directory; once more with all rights to it, if its owner took them away. To an administrator
/// rights do not matter, so what is changed here never belongs to somebody else.
fn permitted(at: BorrowedFd<'_>, mut work: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    match work() {
        Err(Errno::ACCESS) => fchmod(at, Mode::RWXU).and_then(|()| work()),
        done => done,
    }
}

/// Opens a directory, also one whose owner took the right to read it away.
fn open_anyway(at: BorrowedFd<'_>, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    match open(at, name) {
        Err(Errno::ACCESS) => {
            chmodat(at, name, Mode::RWXU, AtFlags::empty())?;
            open(at, name)
        }
        opened => opened,
    }
}

/// One walk over what is there.
struct Pass<'a> {
    root: &'a OwnedFd,
    /// What was removed or moved.
    done: u64,
    /// Why something is still there.
    trouble: Option<Errno>,
}

impl Pass<'_> {
    fn run(&mut self) -> Result<(), Errno> {
        let mut way = vec![(CString::default(), Dir::read_from(self.root)?)];
        loop {
            let depth = way.len();
            let Some((_, dir)) = way.last_mut() else { return Ok(()) };
            let Some(entry) = dir.read() else {
                self.leave(&mut way)?;
                continue;
            };
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let at = dir.fd()?;
            match permitted(at, || unlinkat(at, name, AtFlags::empty())) {
                Ok(()) => self.done += 1,
                Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) if depth >= DEPTH => self.move_up(at, name),
                Err(Errno::ISDIR) => match open_anyway(at, name) {
                    Ok(below) => {
                        let name = name.to_owned();
                        way.push((name, Dir::new(below)?));
                    }
                    Err(error) => self.failed(error),
                },
                Err(error) => self.failed(error),
            }
        }
    }

    /// The last directory of the way has been read to its end.
    fn leave(&mut self, way: &mut Vec<(CString, Dir)>) -> Result<(), Errno> {
        let left = way.pop();
        let (Some((name, _)), Some((_, above))) = (left, way.last()) else { return Ok(()) };
        let at = above.fd()?;
        match permitted(at, || unlinkat(at, &name, AtFlags::REMOVEDIR)) {
            Ok(()) => self.done += 1,
            Err(error) => self.failed(error),
        }
        Ok(())
    }

    /// Lets a deep directory be one of the first level. The next walk meets it there.
    fn move_up(&mut self, at: BorrowedFd<'_>, name: &CStr) {
        for number in self.done.. {
            let new = format!(".deep-{number}");
            let rename = || renameat_with(at, name, self.root, &new, RenameFlags::NOREPLACE);
            let moved = match rename() {
                // It has to be writable itself, too, because it gets another directory above it.
                Err(Errno::ACCESS) => fchmod(at, Mode::RWXU)
                    .and_then(|()| chmodat(at, name, Mode::RWXU, AtFlags::empty()))
                    .and_then(|()| rename()),
                moved => moved,
            };
            match moved {
                Err(Errno::EXIST) => {}
                Err(error) => return self.failed(error),
                Ok(()) => break,
            }
        }
        self.done += 1;
        // The place it has now may have been passed already.
        self.failed(Errno::NOTEMPTY);
    }

    /// Something is still there. That it is full is the least of reasons: another walk may help.
    fn failed(&mut self, error: Errno) {
        if self.trouble.is_none_or(|known| known == Errno::NOTEMPTY) {
            self.trouble = Some(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Uid, mkdirat};
    use rustix::thread::set_thread_res_uid;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    use std::path::PathBuf;

    /// Directories in each other, with a file in each.
    fn nest(top: &Path, levels: usize) {
        let mut at = open(CWD, top).unwrap();
        for _ in 0..levels {
            let flags = OFlags::CREATE | OFlags::WRONLY;
            openat(&at, "file", flags, Mode::RUSR).unwrap();
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = open(std::os::fd::AsFd::as_fd(&at), "d").unwrap();
        }
    }

    /// The stack is as small as the system allows, and a path has at most 4096 bytes.
    #[test]
    fn no_depth_is_too_deep() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("tree");
        fs::create_dir_all(tree.join("wide/.deep-0")).unwrap();
        fs::create_dir(tree.join(".deep-1")).unwrap();
        nest(&tree, 20_000);
        nest(&tree.join("wide"), 100);
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        thread.spawn(move || remove_tree(&tree)).unwrap().join().unwrap().unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_lead_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let (tree, other) = (root.path().join("tree"), root.path().join("other"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "").unwrap();
        symlink(&other, tree.join("link")).unwrap();
        remove_tree(&tree).unwrap();
        symlink(&other, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(other.join("kept").exists() && fs::symlink_metadata(&tree).is_err());
        assert_eq!(remove_tree(&tree).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// As a user to whom rights matter.
    #[test]
    fn directories_without_rights_go_too() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("tree");
        fs::create_dir(&tree).unwrap();
        nest(&tree, 70);
        let as_root = nix::unistd::geteuid().is_root();
        let below = (0..=70).map(|levels| (0..levels).fold(tree.clone(), |at, _| at.join("d")));
        let modes = [0o000, 0o500, 0o400, 0o200, 0o100].into_iter().cycle();
        let mut dirs: Vec<(PathBuf, u32)> = below.zip(modes).collect();
        dirs.reverse();
        for (dir, mode) in &dirs {
            if as_root {
                chown(dir, Some(65534), None).unwrap();
            }
            fs::set_permissions(dir, fs::Permissions::from_mode(*mode)).unwrap();
        }
        if as_root {
            chown(root.path(), Some(65534), None).unwrap();
        }
        let removed = std::thread::spawn(move || {
            if as_root {
                let nobody = Uid::from_raw(65534);
                // Of this thread alone.
                set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            remove_tree(&tree)
        });
        removed.join().unwrap().unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
