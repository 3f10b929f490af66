//! A case: moves over one or two kinds, as a row that either server can run.

use serde_json::json;
use std::collections::BTreeMap;

use super::dice::Dice;
use super::moves::{Draw, Move, step};
use super::world::{Kind, World, set};
use crate::row::{Row, Step};

/// The object that ends a watch.
const LAST: &str = "zz-last";

#[derive(Clone)]
pub(super) struct Case {
    pub(super) seed: u64,
    /// The plurals of the kinds it is about.
    pub(super) kinds: Vec<String>,
    pub(super) moves: Vec<Move>,
    /// Whether all that happened is watched, and all that is left is listed.
    pub(super) watched: bool,
}

impl Case {
    pub(super) fn draw(world: &World, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let kinds: Vec<&Kind> = (0..1 + dice.below(2)).map(|_| dice.pick(&world.kinds)).collect();
        let count = 5 + dice.below(12);
        let mut moves = Vec::new();
        for _ in 0..count {
            let kind = *dice.pick(&kinds);
            let mut draw = Draw { dice, world, kind };
            moves.push(draw.next());
            dice = draw.dice;
        }
        let mut kinds: Vec<String> = kinds.iter().map(|kind| kind.plural.clone()).collect();
        kinds.dedup();
        Self { seed, kinds, moves, watched: true }
    }

    pub(super) fn requests(&self) -> usize {
        self.moves.iter().map(Vec::len).sum()
    }

    pub(super) fn row(&self, world: &World, name: &str) -> Row {
        let kinds: Vec<&Kind> = world.kinds.iter().filter(|kind| self.kinds.contains(&kind.plural)).collect();
        let moves = self.moves.iter().flatten().cloned();
        let requests = if self.watched {
            let opened = kinds.iter().flat_map(|kind| open(kind));
            opened.chain(moves).chain(kinds.iter().flat_map(|kind| close(kind))).collect()
        } else {
            moves.collect()
        };
        let account = kinds.iter().any(|kind| kind.account);
        Row { name: name.to_owned(), account, given: given(), requests, theme: String::new() }
    }
}

/// Versions and identities of objects that no answer has named yet.
fn given() -> BTreeMap<String, String> {
    let of = |name: &str| {
        [("old", "1"), ("new", "1"), ("uid", "11111111-1111-1111-1111-111111111111")]
            .map(|(what, value)| (format!("{what}-{name}"), value.to_owned()))
    };
    ["a", "b", "c"].iter().flat_map(|name| of(name)).collect()
}

fn skip(kind: &Kind) -> Vec<(&'static str, String)> {
    kind.skip.iter().map(|skip| ("fieldSelector", skip.clone())).collect()
}

/// A watch of everything, and one of what a selector chooses.
fn open(kind: &Kind) -> [Step; 2] {
    let mut all = skip(kind);
    all.push(("watch", "true".into()));
    let mut some = all.clone();
    some.push(("labelSelector", "l=x".into()));
    let opened = |name: &str, options: &[(&'static str, String)]| Step {
        open: Some(format!("{name}-{}", kind.plural)),
        ..step("GET", &kind.at, options)
    };
    [opened("all", &all), opened("some", &some)]
}

/// The list of what is left, and all events up to those of one more object.
fn close(kind: &Kind) -> [Step; 4] {
    let mut last = kind.base.clone();
    set(&mut last, "/apiVersion", json!(kind.api_version));
    set(&mut last, "/kind", json!(kind.kind));
    set(&mut last, "/metadata", json!({"name": LAST, "labels": {"l": "x"}}));
    let read = |name: &str| Step {
        read: Some(format!("{name}-{}", kind.plural)),
        through: Some(LAST.into()),
        ..Step::default()
    };
    [
        step("GET", &kind.at, &skip(kind)),
        Step { body: Some(last), save: BTreeMap::new(), ..step("POST", &kind.at, &[]) },
        read("all"),
        read("some"),
    ]
}
