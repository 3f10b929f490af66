//! A namespace as a user of this machine.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::passwd::{group, login, passwd};
use super::{HELPER, WORK};
use crate::runtime::Mount;

/// A namespace as a user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenant {
    /// The namespace.
    pub(crate) namespace: String,
    /// Its user, whose group has the same number.
    pub(crate) user: u32,
    /// What the user is called.
    pub(crate) login: String,
    /// What the node keeps for the namespace.
    pub(crate) dir: PathBuf,
}

impl Tenant {
    /// Makes what a container of the namespace needs of the system: a list of users with its own in it.
    pub(crate) fn admit(namespace: &str, user: u32, dir: PathBuf) -> io::Result<Self> {
        crate::disk::create(&dir)?;
        let machine = read("/etc/passwd");
        let login = login(namespace, user, &machine);
        write_public(&dir.join("passwd"), &passwd(&machine, &login, user, WORK))?;
        write_public(&dir.join("group"), &group(&read("/etc/group"), &login, user))?;
        Ok(Self { namespace: namespace.to_owned(), user, login, dir })
    }

    /// Where the namespace's claims lie.
    pub(crate) fn claims(&self) -> PathBuf {
        self.dir.join("claims")
    }

    /// The list of users and this program, for a container to see.
    pub(crate) fn mounts(&self, program: &Path) -> [Mount; 3] {
        let own = [
            (self.dir.join("passwd"), "/etc/passwd"),
            (self.dir.join("group"), "/etc/group"),
            (program.to_owned(), HELPER),
        ];
        own.map(|(source, target)| Mount { source, target: target.into(), read_only: true, opened: None })
    }
}

/// Adds what the node mounts to what the container mounts itself, which comes first.
pub(crate) fn add(mounts: &mut Vec<Mount>, ours: Vec<Mount>) {
    for mount in ours {
        if mounts.iter().all(|other| other.target != mount.target) {
            mounts.push(mount);
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Writes a file that everybody may read who gets there; containers that run keep the one they have.
fn write_public(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    let next = path.with_extension("new");
    fs::write(&next, text)?;
    fs::set_permissions(&next, fs::Permissions::from_mode(0o644))?;
    fs::rename(&next, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_brings_its_own_users_keeps_them() {
        let dir = tempfile::tempdir().unwrap();
        let tenant = Tenant::admit("team", 7, dir.path().join("ns")).unwrap();
        let own = Mount {
            source: PathBuf::from("/mine"),
            target: PathBuf::from("/etc/passwd"),
            ..Mount::default()
        };
        let mut mounts = vec![own.clone()];
        add(&mut mounts, tenant.mounts(Path::new("/bin/trainyard")).into());
        let targets: Vec<&str> = mounts.iter().filter_map(|mount| mount.target.to_str()).collect();
        assert_eq!(targets, ["/etc/passwd", "/etc/group", HELPER]);
        assert_eq!(mounts[0], own);
        assert!(mounts[1..].iter().all(|mount| mount.read_only));
        let users = fs::read_to_string(tenant.dir.join("passwd")).unwrap();
        assert!(
            users.ends_with(&format!("{}:x:7:7:a namespace of trainyard:{WORK}:/bin/sh\n", tenant.login)),
            "{users}"
        );
    }
}
