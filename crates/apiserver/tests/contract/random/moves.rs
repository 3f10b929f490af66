//! Random requests. A move is one request, or a few that only make sense together.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::dice::Dice;
use super::patches;
use super::world::{Kind, Part, World, set};
use crate::row::Step;

pub(super) type Move = Vec<Step>;

const NAMES: [&str; 3] = ["a", "b", "c"];
const LABELS: [&str; 11] =
    ["l=x", "l!=x", "l in (x,y)", "l", "!l", "l notin (x),m", "m>1", "l=x,m=1", "l==y", "l in (", "a b"];
const ACCEPT: [&str; 5] = [
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// One draw: the dice, and what they are about.
pub(super) struct Draw<'a> {
    pub(super) dice: Dice,
    pub(super) world: &'a World,
    pub(super) kind: &'a Kind,
}

impl Draw<'_> {
    /// The next move.
    pub(super) fn next(&mut self) -> Move {
        let name = *self.dice.pick(&NAMES);
        match self.dice.below(30) {
            0..=4 => vec![self.create(name)],
            5 => vec![self.get(name)],
            6..=7 => vec![self.list()],
            // How many pages there are depends on all objects, those of controllers too.
            8 if self.kind.skip.is_none() => self.pages(),
            9..=11 => self.replace(name),
            12 => self.put_back(name),
            13..=20 => vec![self.patch(name, "")],
            21..=23 if self.kind.status => vec![self.status(name)],
            24 if self.kind.scale => vec![self.scale(name)],
            24 if self.kind.plural == "pods" => vec![self.pod(name)],
            25..=27 => self.delete(name),
            28 => vec![self.delete_collection()],
            _ => vec![self.release(name)],
        }
    }

    fn url(&self, name: &str, part: &str) -> String {
        format!("{}/{name}{part}", self.kind.at)
    }

    /// Options that every write takes.
    pub(super) fn options(&mut self) -> Vec<(&'static str, String)> {
        let mut options = Vec::new();
        if self.dice.once_in(3) {
            options.push(("fieldManager", (*self.dice.pick(&["one", "two"])).to_owned()));
        }
        if self.dice.once_in(10) {
            options.push(("dryRun", "All".to_owned()));
        }
        if self.dice.once_in(3) {
            options.push(("fieldValidation", (*self.dice.pick(&["Strict", "Warn", "Ignore"])).to_owned()));
        }
        options
    }

    fn create(&mut self, name: &str) -> Step {
        let mut body = self.world.object(&mut self.dice, self.kind, name, Part::Spec);
        if self.dice.once_in(8) {
            set(&mut body, "/metadata/name", Value::Null);
            // Of two names with one prefix, either may come first in a list.
            let prefix = format!("made{}-", self.dice.below(10_000));
            set(&mut body, "/metadata/generateName", json!(prefix));
        }
        let options = self.options();
        Step { body: Some(body), save: saves(name), ..step("POST", &self.kind.at, &options) }
    }

    fn get(&mut self, name: &str) -> Step {
        let accept = self.accept().filter(|accept| !accept.contains("List"));
        Step { accept, ..step("GET", &self.url(name, ""), &[]) }
    }

    fn accept(&mut self) -> Option<String> {
        self.dice.once_in(3).then(|| (*self.dice.pick(&ACCEPT)).to_owned())
    }

    /// Selectors; what controllers write is never selected.
    fn selectors(&mut self) -> Vec<(&'static str, String)> {
        let mut options = Vec::new();
        if self.dice.once_in(2) {
            options.push(("labelSelector", (*self.dice.pick(&LABELS)).to_owned()));
        }
        let chosen = self.dice.once_in(3).then(|| self.dice.pick(&self.kind.selectors).clone());
        let fields: Vec<String> = self.kind.skip.iter().cloned().chain(chosen).collect();
        if !fields.is_empty() {
            options.push(("fieldSelector", fields.join(",")));
        }
        options
    }

    fn list(&mut self) -> Step {
        let options = self.selectors();
        Step { accept: self.accept(), ..step("GET", &self.kind.at, &options) }
    }

    /// A list in pages, with a change between two of them or none.
    fn pages(&mut self) -> Move {
        let mut options = self.selectors();
        options.push(("limit", (1 + self.dice.below(2)).to_string()));
        let save = BTreeMap::from([("next".to_owned(), "/metadata/continue?".to_owned())]);
        let mut moves = vec![Step { save: save.clone(), ..step("GET", &self.kind.at, &options) }];
        if self.dice.once_in(2) {
            let name = *self.dice.pick(&NAMES);
            moves.push(if self.dice.once_in(2) { self.create(name) } else { self.patch(name, "") });
        }
        for _ in 0..2 {
            let page = step("GET", &self.kind.at, &options);
            let page = format!("{}&continue=${{next}}", page.r#do);
            moves.push(Step { r#do: page, save: save.clone(), ..Step::default() });
        }
        moves
    }

    fn replace(&mut self, name: &str) -> Move {
        let mut body = self.world.object(&mut self.dice, self.kind, name, Part::Spec);
        let options = self.options();
        let mut moves = Vec::new();
        // A dry run that creates shows the version that it was sent, and that would be one more.
        let dry = options.iter().any(|(name, _)| *name == "dryRun");
        match self.dice.below(6) {
            _ if dry => {}
            0 | 1 => {
                moves.push(Step { save: saves(name), ..step("GET", &self.url(name, ""), &[]) });
                set(&mut body, "/metadata/resourceVersion", json!(format!("${{new-{name}}}")));
            }
            2 => set(&mut body, "/metadata/resourceVersion", json!(format!("${{old-{name}}}"))),
            3 => set(&mut body, "/metadata/uid", json!(format!("${{uid-{name}}}"))),
            _ => {}
        }
        moves.push(Step { body: Some(body), ..step("PUT", &self.url(name, ""), &options) });
        moves
    }

    /// Reads an object and writes it unchanged.
    fn put_back(&mut self, name: &str) -> Move {
        let url = self.url(name, "");
        let options = self.options();
        let get = Step { keep: Some("object".into()), ..step("GET", &url, &[]) };
        let mut moves = vec![get];
        if self.dice.once_in(3) {
            moves.push(self.patch(name, ""));
        }
        moves.push(Step {
            kept: Some("object".into()),
            r#type: Some("application/json".into()),
            ..step("PUT", &url, &options)
        });
        moves
    }

    fn patch(&mut self, name: &str, part: &str) -> Step {
        let (patch, body) = patches::draw(self, name, part);
        let mut options = self.options();
        if patch == "apply" {
            options.retain(|(option, _)| *option != "fieldManager");
            options.push(("fieldManager", (*self.dice.pick(&["one", "two", "three"])).to_owned()));
            if self.dice.once_in(3) {
                options.push(("force", "true".to_owned()));
            }
        }
        let url = self.url(name, part);
        Step { patch: Some(patch.into()), body: Some(body), ..step("PATCH", &url, &options) }
    }

    fn status(&mut self, name: &str) -> Step {
        if self.dice.once_in(3) {
            let body = self.world.object(&mut self.dice, self.kind, name, Part::Status);
            let options = self.options();
            return Step { body: Some(body), ..step("PUT", &self.url(name, "/status"), &options) };
        }
        self.patch(name, "/status")
    }

    fn scale(&mut self, name: &str) -> Step {
        let url = self.url(name, "/scale");
        let numbers = [json!(0), json!(2), json!(7), json!(-1), json!(99), json!("1"), Value::Null];
        let replicas = self.dice.pick(&numbers);
        let options = self.options();
        let mut body =
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}});
        match self.dice.below(3) {
            0 => step("GET", &url, &[]),
            1 => Step {
                patch: Some("merge".into()),
                body: Some(json!({"spec": {"replicas": replicas}})),
                ..step("PATCH", &url, &options)
            },
            _ => {
                set(&mut body, "/metadata/name", json!(name));
                set(&mut body, "/metadata/namespace", json!("${ns}"));
                Step { body: Some(body), ..step("PUT", &url, &options) }
            }
        }
    }

    /// What only pods can do.
    fn pod(&mut self, name: &str) -> Step {
        if self.dice.once_in(2) {
            let body = json!({"metadata": {"name": name}, "target": {"name": "n"}});
            return Step { body: Some(body), ..step("POST", &self.url(name, "/binding"), &[]) };
        }
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        Step { body: Some(body), ..step("POST", &self.url(name, "/eviction"), &[]) }
    }

    fn delete(&mut self, name: &str) -> Move {
        let url = self.url(name, "");
        let mut body = json!({});
        // A real garbage collector takes half a minute to notice a new definition.
        let policies = if self.kind.custom { 3 } else { 5 };
        let policy = *self.dice.pick(&["", "", "Background", "Foreground", "Orphan"][..policies]);
        if !policy.is_empty() {
            set(&mut body, "/propagationPolicy", json!(policy));
        }
        if self.dice.once_in(3) {
            set(
                &mut body,
                "/gracePeriodSeconds",
                self.dice.pick(&[json!(0), json!(0), json!(5), json!(-1), Value::Null]).clone(),
            );
        }
        if self.dice.once_in(4) {
            let uid = format!("${{uid-{name}}}");
            set(&mut body, "/preconditions/uid", json!(self.dice.pick(&[uid, "other".to_owned()])));
        }
        if self.dice.once_in(6) {
            let version = format!("${{old-{name}}}");
            set(&mut body, "/preconditions/resourceVersion", json!(version));
        }
        if self.dice.once_in(10) {
            set(&mut body, "/dryRun", json!(["All"]));
        }
        let body = (body != json!({})).then_some(body);
        let mut moves = vec![Step { body, ..step("DELETE", &url, &[]) }];
        if matches!(policy, "Foreground" | "Orphan") {
            moves.push(Step { collected: true, ..step("GET", &url, &[]) });
        }
        moves
    }

    fn delete_collection(&mut self) -> Step {
        let mut options = self.selectors();
        if self.dice.once_in(6) {
            options.push(("dryRun", "All".to_owned()));
        }
        step("DELETE", &self.kind.at, &options)
    }

    /// Takes the finalizers away, so that what was deleted can go.
    fn release(&mut self, name: &str) -> Step {
        let body = Some(json!({"metadata": {"finalizers": null}}));
        Step { patch: Some("merge".into()), body, ..step("PATCH", &self.url(name, ""), &[]) }
    }
}

/// A request without a body.
pub(super) fn step(method: &str, path: &str, options: &[(&'static str, String)]) -> Step {
    let pairs: Vec<String> = options
        .iter()
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)))
        .collect();
    let mark = if pairs.is_empty() { "" } else { "?" };
    Step { r#do: format!("{method} {path}{mark}{}", pairs.join("&")), ..Step::default() }
}

/// Versions and identity of an object, for later requests. `old` is not renewed by reading.
fn saves(name: &str) -> BTreeMap<String, String> {
    let version = "/metadata/resourceVersion?".to_owned();
    BTreeMap::from([
        (format!("new-{name}"), version.clone()),
        (format!("old-{name}"), format!("{version}?")),
        (format!("uid-{name}"), "/metadata/uid?".to_owned()),
    ])
}
