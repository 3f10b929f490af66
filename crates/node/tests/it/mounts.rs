//! What a container sees at which path, and that nobody else does.

use std::fs;
use std::path::{Path, PathBuf};

use trainyard_node::runtime::{ContainerSpec, ExitReason, Mount};

use crate::harness::{Bench, whole_log};

fn mount(source: &Path, target: &str) -> Mount {
    Mount { source: source.to_owned(), target: PathBuf::from(target), ..Mount::default() }
}

/// Nothing to test where namespaces are forbidden, except that it is said.
fn permitted(bench: &Bench) -> bool {
    match bench.runtime.can_mount() {
        Ok(()) => true,
        Err(reason) => {
            println!("SKIPPED: {reason}");
            assert!(!reason.is_empty());
            false
        }
    }
}

fn volume(bench: &Bench, name: &str) -> PathBuf {
    let dir = bench.root.path().join(name);
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("file"), format!("from {name}\n")).unwrap();
    dir
}

async fn output(bench: &Bench, name: &str, spec: &ContainerSpec) -> String {
    let dir = bench.dir(name);
    let exit = bench.run(&dir, spec).await;
    let log = whole_log(&dir).await;
    assert_eq!(exit.code, 0, "{exit:?}: {log}");
    assert_eq!(fs::read_dir(dir.join("mnt")).unwrap().count(), 0, "nothing stays behind");
    log
}

#[tokio::test]
async fn places_that_exist_and_places_that_do_not() {
    let bench = Bench::new();
    if !permitted(&bench) {
        return;
    }
    let before: Vec<_> = ["/", "/etc", "/mnt", "/usr/share"].map(listing).to_vec();
    let (one, two) = (volume(&bench, "one"), volume(&bench, "two"));
    let cases = [
        "/mnt",
        "/trainyard-test",
        "/trainyard-test/a/b",
        "/etc/trainyard-test/deep",
        "/usr/share/trainyard-x",
    ];
    for (n, target) in cases.into_iter().enumerate() {
        let script = format!(
            "cat {target}/file; echo new > {target}/{n}; test -e /etc/passwd && test -x /bin/sh && test -e /dev/null \
             && test -d /proc/self && test -d /usr/share && ls / > /dev/null"
        );
        let mut spec = bench.shell(&script);
        spec.mounts = vec![mount(&one, target)];
        assert_eq!(output(&bench, &format!("case-{n}"), &spec).await, "from one\n", "{target}");
        assert_eq!(fs::read_to_string(one.join(n.to_string())).unwrap(), "new\n", "{target}");
    }
    let mut spec =
        bench.shell("cat /etc/ty-a/file /etc/ty-b/c/file /ty/file /ty/in/side/file; echo x > /ty/kept");
    spec.mounts = vec![
        mount(&two, "/ty/in/side"),
        mount(&one, "/etc/ty-a"),
        mount(&two, "/etc/ty-b/c"),
        mount(&one, "/ty"),
    ];
    assert_eq!(output(&bench, "many", &spec).await, "from one\nfrom two\nfrom one\nfrom two\n");
    assert_eq!(
        fs::read_to_string(one.join("kept")).unwrap(),
        "x\n",
        "a mount below it does not cover a volume"
    );
    assert_eq!(["/", "/etc", "/mnt", "/usr/share"].map(listing).to_vec(), before);
}

fn listing(dir: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn single_files_and_read_only_volumes() {
    let bench = Bench::new();
    if !permitted(&bench) {
        return;
    }
    let one = volume(&bench, "one");
    let mut spec = bench.shell(
        "cat /etc/hostname /etc/trainyard.conf /opt/ty/x/conf; { echo no > /mnt/no; } 2>/dev/null && exit 1; cat /mnt/file",
    );
    let file = one.join("file");
    spec.mounts = vec![
        mount(&file, "/etc/hostname"),
        mount(&file, "/etc/trainyard.conf"),
        mount(&file, "/opt/ty/x/conf"),
    ];
    spec.mounts.push(Mount { read_only: true, ..mount(&one, "/mnt") });
    let hostname = fs::read("/etc/hostname").ok();
    assert_eq!(output(&bench, "files", &spec).await, "from one\n".repeat(4));
    assert_eq!(fs::read("/etc/hostname").ok(), hostname);
    assert!(!one.join("no").exists());
}

#[tokio::test]
async fn a_source_that_another_mount_hides_is_still_mounted() {
    let bench = Bench::new();
    if !permitted(&bench) {
        return;
    }
    let (one, two) = (volume(&bench, "one"), volume(&bench, "two"));
    let mut spec = bench.shell(&format!("cat {}/file /mnt/file", one.display()));
    spec.mounts = vec![mount(&two, one.to_str().unwrap()), mount(&one, "/mnt")];
    assert_eq!(output(&bench, "hidden", &spec).await, "from two\nfrom one\n");
}

#[tokio::test]
async fn a_volume_over_a_directory_above_the_run_is_mounted() {
    let bench = Bench::new();
    if !permitted(&bench) {
        return;
    }
    let (one, two) = (volume(&bench, "one"), volume(&bench, "two"));
    let above = fs::canonicalize(bench.root.path()).unwrap();
    let above = above.to_str().unwrap();
    let work = bench.root.path().join("work");
    fs::create_dir(&work).unwrap();
    // Beside it a place below the root that does not exist, one that does, one to be covered, and the way back.
    let own = fs::canonicalize(&work).unwrap();
    let own = own.to_str().unwrap();
    let mut spec = bench.shell(&format!(
        "cat {above}/file /mnt/file /ty-new/file /etc/ty-below/file; echo new > made; pwd; ls {above}"
    ));
    spec.working_dir = PathBuf::from(own);
    spec.mounts = vec![
        mount(&one, above),
        mount(&two, "/mnt"),
        mount(&two, "/ty-new"),
        mount(&two, "/etc/ty-below"),
        mount(&work, own),
    ];
    let expected = format!("from one\n{}{own}\nfile\nwork\n", "from two\n".repeat(3));
    assert_eq!(output(&bench, "above", &spec).await, expected);
    assert_eq!(fs::read_to_string(work.join("made")).unwrap(), "new\n");
}

#[tokio::test]
async fn a_mount_that_cannot_be_made_is_named() {
    let bench = Bench::new();
    if !permitted(&bench) {
        return;
    }
    let one = volume(&bench, "one");
    let cases = [
        (mount(Path::new("/no/such/volume"), "/mnt"), "`/no/such/volume` cannot be mounted at `/mnt`"),
        (mount(&one, "/etc/passwd"), "a directory onto a file"),
        (mount(&one.join("file"), "/etc"), "a file onto a directory"),
        (mount(&one, "/mnt/../etc"), "without `..`"),
        (mount(&one, "/proc/new"), "/proc"),
    ];
    for (n, (mount, message)) in cases.into_iter().enumerate() {
        let mut spec = bench.spec(&["true"]);
        spec.mounts = vec![mount];
        let exit = bench.run(&bench.dir(&n.to_string()), &spec).await;
        assert_eq!((exit.code, exit.reason), (128, ExitReason::StartError));
        assert!(exit.message.as_ref().unwrap().contains(message), "{exit:?}");
    }
}

#[tokio::test]
async fn a_path_mounted_onto_itself_needs_no_namespace() {
    let bench = Bench::new();
    let one = volume(&bench, "one");
    let mut spec = bench.shell(&format!("cat {}/file; readlink /proc/self/ns/mnt", one.display()));
    spec.mounts = vec![mount(&one, one.to_str().unwrap())];
    let dir = bench.dir("same");
    bench.run(&dir, &spec).await;
    let own = fs::read_link("/proc/self/ns/mnt").unwrap();
    assert_eq!(whole_log(&dir).await, format!("from one\n{}\n", own.display()));
}

#[tokio::test]
async fn a_path_at_its_own_place_can_be_read_only() {
    let bench = Bench::new();
    if !permitted(&bench) {
        return;
    }
    let data = volume(&bench, "data");
    let at = data.to_string_lossy().into_owned();
    let mut spec = bench.shell(&format!("cat {at}/file; touch {at}/new 2>/dev/null || echo kept"));
    spec.mounts = vec![Mount { read_only: true, ..mount(&data, &at) }];
    assert_eq!(output(&bench, "own", &spec).await, "from data\nkept\n");
    assert!(!data.join("new").exists());
}

#[tokio::test]
async fn two_volumes_below_a_directory_that_is_not_there() {
    let bench = Bench::new();
    if !permitted(&bench) {
        return;
    }
    let (one, two) = (volume(&bench, "one"), volume(&bench, "two"));
    let mut spec = bench.shell("cat /no-such-data/a/file /no-such-data/b/file");
    spec.mounts = vec![mount(&one, "/no-such-data/a"), mount(&two, "/no-such-data/b")];
    assert_eq!(output(&bench, "two", &spec).await, "from one\nfrom two\n");
}
