//! The contract: rows of requests that are answered by a real control plane and by the embedded server, and compared with
//! answers that were recorded from the real one.
//!
//! | variable | what it does |
//! |---|---|
//! | `TRAINYARD_CONTRACT_ROW=TEXT` | runs the rows whose names contain it (or one of several, with commas), and shows every difference |
//! | `TRAINYARD_CONTRACT=embedded` | leaves the real one out |
//! | `TRAINYARD_RECORD=1` | records the answers of the real one |
#![cfg(test)]

mod client;
mod content;
mod diff;
mod golden;
mod normal;
mod random;
mod row;
mod run;
mod servers;

use futures::{StreamExt, stream};
use serde_json::Value;
use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use client::Target;
use golden::Goldens;
use row::Row;

/// Rows at once on each server.
const PARALLEL: usize = 6;
/// How long anything may take: long, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);
/// The same while answers are recorded, and nothing good is expected of ours yet.
const RECORDING_PATIENCE: Duration = Duration::from_secs(6);

/// The theme of what is left out on purpose.
const NOT_SERVED: &str = "not-served";

type Results = BTreeMap<String, Result<Value, String>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_answer_as_recorded() {
    let wanted = env::var("TRAINYARD_CONTRACT_ROW").unwrap_or_default();
    let record = env::var("TRAINYARD_RECORD").is_ok_and(|record| record == "1");
    let rows: Vec<Row> =
        row::all().into_iter().filter(|row| wanted.split(',').any(|part| row.name.contains(part))).collect();

    let embedded = servers::Embedded::start().await;
    let ours = async {
        define(&embedded.target).await;
        run_all(&embedded.target, &rows, if record { RECORDING_PATIENCE } else { PATIENCE }).await
    };
    let theirs = async {
        if env::var("TRAINYARD_CONTRACT").is_ok_and(|which| which == "embedded") {
            return None;
        }
        let real = servers::real().await?;
        let served: Vec<Row> = rows.iter().filter(|row| row.theme != NOT_SERVED).cloned().collect();
        Some(run_all(&real.target, &served, PATIENCE).await)
    };
    let (ours, theirs) = tokio::join!(ours, theirs);
    embedded.stop().await;

    if record {
        let mut answers = theirs.clone().expect("answers are recorded from a real control plane");
        for row in rows.iter().filter(|row| row.theme == NOT_SERVED) {
            answers.insert(row.name.clone(), ours[&row.name].clone());
        }
        keep(&rows, &answers);
    }
    let goldens: Goldens = rows.iter().flat_map(|row| golden::read(&row.theme)).collect();
    let mut problems = Vec::new();
    for (row, lines) in theirs.iter().flat_map(|theirs| compare(theirs, &goldens)) {
        problems.push(format!(
            "{row}: the real one answers otherwise than recorded\n    {}",
            lines.join("\n    ")
        ));
    }
    let failing = compare(&ours, &goldens);
    for (row, lines) in &failing {
        problems.push(format!("{row}: the embedded one differs\n    {}", lines.join("\n    ")));
    }
    println!("{} of {} rows pass on the embedded server", ours.len() - failing.len(), ours.len());
    assert!(problems.is_empty(), "\n{}\n{} problems", problems.join("\n"), problems.len());
}

async fn run_all(target: &Target, rows: &[Row], patience: Duration) -> Results {
    let runs =
        rows.iter().map(|row| async move { (row.name.clone(), run::run(target, row, patience).await) });
    stream::iter(runs).buffer_unordered(PARALLEL).collect().await
}

/// Makes the definitions of `fixtures/`, which all rows may use.
async fn define(target: &Target) {
    for (name, text) in row::files(&row::folder().join("fixtures")) {
        let steps =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("fixtures/{name}.yaml: {error}"));
        let row = Row {
            name: format!("fixture-{name}"),
            account: false,
            given: BTreeMap::new(),
            requests: steps,
            theme: String::new(),
        };
        run::run(target, &row, PATIENCE).await.unwrap_or_else(|why| panic!("fixtures/{name}.yaml: {why}"));
    }
}

/// Rows whose answers are not the recorded ones, with the differences.
fn compare(results: &Results, goldens: &Goldens) -> BTreeMap<String, Vec<String>> {
    let mut failing = BTreeMap::new();
    for (row, result) in results {
        let lines = match (result, goldens.get(row)) {
            (Err(why), _) => vec![why.clone()],
            (_, None) => vec!["nothing was recorded: TRAINYARD_RECORD=1".to_owned()],
            (Ok(found), Some(expected)) => diff::differences(expected, found),
        };
        if !lines.is_empty() {
            failing.insert(row.clone(), lines);
        }
    }
    failing
}

/// Records answers; those of rows that did not run stay.
fn keep(rows: &[Row], results: &Results) {
    let known = row::all();
    let mut themes: BTreeMap<&str, Goldens> = BTreeMap::new();
    for row in rows {
        let goldens = themes.entry(&row.theme).or_insert_with(|| golden::read(&row.theme));
        match &results[&row.name] {
            Ok(answers) => drop(goldens.insert(row.name.clone(), answers.clone())),
            Err(why) => println!("{} cannot be recorded: {why}", row.name),
        }
    }
    for (theme, goldens) in &mut themes {
        goldens.retain(|name, _| known.iter().any(|row| row.theme == *theme && row.name == *name));
        golden::write(theme, goldens);
    }
}
