//! What the documentation shows of `make life` is what `make life` prints.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn the_docs_show_what_make_life_prints() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/library.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("```text\n").unwrap();
    let (shown, after) = rest.split_once("```\n").unwrap();
    // Examples are built with the tests and lie beside them.
    let tests = std::env::current_exe().unwrap();
    let life = tests.parent().unwrap().parent().unwrap().join("examples/life");
    let output = Command::new(&life).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: String = printed.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&page, format!("{before}```text\n{printed}```\n{after}")).unwrap();
    } else {
        assert_eq!(shown, printed, "run with UPDATE_GOLDEN=1 and read the difference");
    }
}
