//! The user of a namespace by name, for programs that ask the system: `getpwuid`, `getgrgid`.

/// The longest name that tools take.
const LONGEST: usize = 32;

/// What the user of a namespace is called. No user of the machine is called so.
pub(super) fn login(namespace: &str, user: u32, machine: &str) -> String {
    let speaking = format!("ty-{namespace}");
    let taken = machine.lines().any(|line| line.split(':').next() == Some(speaking.as_str()));
    if taken || speaking.len() > LONGEST { format!("ty-{user}") } else { speaking }
}

/// `/etc/passwd` of the machine and the user.
pub(super) fn passwd(machine: &str, login: &str, user: u32, home: &str) -> String {
    with(machine, &format!("{login}:x:{user}:{user}:a namespace of trainyard:{home}:/bin/sh"))
}

/// `/etc/group` of the machine and the user's group.
pub(super) fn group(machine: &str, login: &str, group: u32) -> String {
    with(machine, &format!("{login}:x:{group}:"))
}

fn with(machine: &str, line: &str) -> String {
    let machine = machine.trim_end_matches('\n');
    let between = if machine.is_empty() { "" } else { "\n" };
    format!("{machine}{between}{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_a_name_that_nobody_has() {
        assert_eq!(login("team-a", 7, "root:x:0"), "ty-team-a");
        assert_eq!(login("team-a", 7, "root:x:0\nty-team-a:x:9"), "ty-7");
        assert_eq!(login(&"long".repeat(15), 7, ""), "ty-7");
    }

    #[test]
    fn the_machines_own_users_stay() {
        let root = "root:x:0:0:root:/root:/bin/bash";
        let ours = "ty-a:x:7:7:a namespace of trainyard:/home:/bin/sh";
        for machine in [format!("{root}\n"), root.to_owned()] {
            assert_eq!(passwd(&machine, "ty-a", 7, "/home"), format!("{root}\n{ours}\n"));
        }
        assert_eq!(passwd("", "ty-a", 7, "/home"), format!("{ours}\n"));
        assert_eq!(group("root:x:0:\n", "ty-a", 7), "root:x:0:\nty-a:x:7:\n");
    }
}
