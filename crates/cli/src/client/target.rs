//! How a user names things: `NAME`, `KIND/NAME` or `KIND NAME`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use serde_json::Value;
use trainyard_core::Kind;

use super::cluster::{Cluster, name_kind};
use super::fields::{name, namespace, uid};
use super::pages::{self, Listed, Pages};
use super::resource::Resource;

/// How many names an error lists.
const SHOWN: usize = 10;
/// How many objects are asked for one by one. Beyond that, reading all of them takes less.
const ASKED: usize = 32;

/// A job on the server.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) kind: &'static Kind,
    pub(crate) resource: Resource,
    pub(crate) object: Value,
}

impl Job {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        name(&self.object)
    }

    /// Its namespace.
    pub(crate) fn namespace(&self) -> &str {
        namespace(&self.object)
    }

    /// Its identity.
    pub(crate) fn uid(&self) -> &str {
        uid(&self.object)
    }

    /// Its path.
    pub(crate) fn path(&self) -> String {
        self.resource.object(self.namespace(), self.name())
    }

    /// `pytorchjob.kubeflow.org/a`.
    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.resource.qualified(), self.name())
    }
}

/// One thing that a user named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    /// The word for its kind, if there was one.
    pub(crate) kind: Option<&'a str>,
    /// Its name.
    pub(crate) name: &'a str,
}

/// The first word, where it may be the kind of the words after it.
pub(crate) fn leading_kind(words: &[String]) -> Option<&str> {
    match words {
        [kind, _, ..] if !kind.contains('/') => Some(kind),
        _ => None,
    }
}

/// Reads names; `kind` says that the first word is the kind of those after it.
pub(crate) fn parse(words: &[String], kind: bool) -> anyhow::Result<Vec<Named<'_>>> {
    let (kind, names) = match words {
        [first, names @ ..] if kind => (Some(first.as_str()), names),
        all => (None, all),
    };
    names.iter().map(|word| one(word, kind)).collect()
}

fn one<'a>(word: &'a str, kind: Option<&'a str>) -> anyhow::Result<Named<'a>> {
    match (word.split_once('/'), kind) {
        (Some((own, name)), None) if !own.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Named { kind: Some(own), name })
        }
        (Some(_), Some(kind)) => bail!("{word:?}: the kind is said twice: {kind} before it and in it"),
        (Some(_), None) => bail!("{word:?} is no name: write NAME, KIND/NAME or KIND NAME"),
        (None, _) if word.is_empty() => bail!("an empty name: write NAME, KIND/NAME or KIND NAME"),
        (None, kind) => Ok(Named { kind, name: word }),
    }
}

/// The one job that is meant.
pub(crate) async fn job(cluster: &Cluster, words: &[String]) -> anyhow::Result<Job> {
    let mut all = jobs(cluster, words).await?;
    match (all.pop(), all.is_empty()) {
        (Some(job), true) => Ok(job),
        _ => {
            bail!("{} jobs are named: this command takes one, as NAME, KIND/NAME or KIND NAME", all.len() + 1)
        }
    }
}

/// The jobs that are meant, all of which exist.
pub(crate) async fn jobs(cluster: &Cluster, words: &[String]) -> anyhow::Result<Vec<Job>> {
    let kinds = cluster.job_kinds().await?;
    let is_kind = |word: &str| kinds.iter().any(|(_, resource)| resource.is_called(word));
    let named = parse(words, leading_kind(words).is_some_and(is_kind))?;
    let mut found = Vec::new();
    for (named, job) in named.iter().zip(lookup(cluster, &kinds, &named).await?) {
        match job {
            Some(job) => found.push(job),
            None => bail!(absent(cluster, &kinds, *named).await?),
        }
    }
    Ok(found)
}

type Kinds = [(&'static Kind, Resource)];

/// The jobs that words name, each if it exists. A bare name is looked for among all kinds. Few are asked for one by one;
/// for many the jobs of the namespace are read once.
pub(crate) async fn lookup(
    cluster: &Cluster,
    kinds: &Kinds,
    named: &[Named<'_>],
) -> anyhow::Result<Vec<Option<Job>>> {
    let meant = named.iter().map(|named| meant(kinds, *named)).collect::<anyhow::Result<Vec<_>>>()?;
    if meant.iter().map(Vec::len).sum::<usize>() > ASKED {
        return among_all(cluster, kinds, named).await;
    }
    let mut jobs = Vec::new();
    for (named, meant) in named.iter().zip(meant) {
        let mut found = Vec::new();
        for (kind, resource) in meant {
            let path = resource.object(&cluster.namespace, named.name);
            if let Some(object) = cluster.get(&path).await? {
                found.push(Job { kind, resource: resource.clone(), object });
            }
        }
        jobs.push(only(named.name, found)?);
    }
    Ok(jobs)
}

async fn among_all(
    cluster: &Cluster,
    kinds: &Kinds,
    named: &[Named<'_>],
) -> anyhow::Result<Vec<Option<Job>>> {
    let names: BTreeSet<&str> = named.iter().map(|named| named.name).collect();
    let mut found: BTreeMap<String, Vec<Job>> = BTreeMap::new();
    for (kind, resource) in kinds {
        let is_meant = |named: &Named<'_>| named.kind.is_none_or(|word| resource.is_called(word));
        if !named.iter().any(is_meant) {
            continue;
        }
        let listed = Listed { resource, namespace: Some(&cluster.namespace), selector: "" };
        let mut pages = Pages::of(cluster, listed);
        while let Some(page) = pages.next().await? {
            for json in page {
                let mut object: Value = serde_json::from_str(json.get())?;
                if names.contains(name(&object)) {
                    name_kind(&mut object, resource);
                    let job = Job { kind, resource: resource.clone(), object };
                    found.entry(job.name().to_owned()).or_default().push(job);
                }
            }
        }
    }
    let mut jobs = Vec::new();
    for named in named {
        let is_meant = |job: &&Job| named.kind.is_none_or(|word| job.resource.is_called(word));
        let of_name = found.get(named.name).into_iter().flatten().filter(is_meant).cloned();
        jobs.push(only(named.name, of_name.collect())?);
    }
    Ok(jobs)
}

/// The one job of a name.
fn only(name: &str, mut found: Vec<Job>) -> anyhow::Result<Option<Job>> {
    if found.len() > 1 {
        let names: Vec<String> =
            found.iter().map(|job| format!("{}/{name}", job.resource.singular)).collect();
        bail!("{name} is ambiguous: say which of {} is meant", names.join(", "));
    }
    Ok(found.pop())
}

/// The kinds that are meant: all of them, if none was said.
fn meant<'a>(kinds: &'a Kinds, named: Named<'_>) -> anyhow::Result<Vec<&'a (&'static Kind, Resource)>> {
    let is_meant = |resource: &Resource| named.kind.is_none_or(|word| resource.is_called(word));
    let meant: Vec<_> = kinds.iter().filter(|(_, resource)| is_meant(resource)).collect();
    if meant.is_empty() {
        let known: Vec<&str> = kinds.iter().map(|(_, resource)| resource.singular.as_str()).collect();
        let (word, name) = (named.kind.unwrap_or_default(), named.name);
        bail!("{word}/{name}: no such job kind: the server has {}", known.join(", "));
    }
    Ok(meant)
}

/// There is no such job: what there is instead.
pub(crate) async fn absent(cluster: &Cluster, kinds: &Kinds, named: Named<'_>) -> anyhow::Result<String> {
    let (mut there, mut more) = (Vec::new(), 0);
    for (_, resource) in meant(kinds, named)? {
        let listed = Listed { resource, namespace: Some(&cluster.namespace), selector: "" };
        let (jobs, beyond) = pages::first(cluster, listed, SHOWN).await?;
        more += beyond;
        for job in jobs {
            let job: Value = serde_json::from_str(job.get())?;
            there.push(format!("{}/{}", resource.singular, name(&job)));
        }
    }
    let what = named.kind.map_or_else(|| named.name.to_owned(), |kind| format!("{kind}/{}", named.name));
    let space = &cluster.namespace;
    if there.is_empty() {
        return Ok(format!(
            "no job {what} in namespace {space}, nor any other: create one with `trainyard apply`, or name another \
             namespace with -n (`trainyard list -A` shows all)"
        ));
    }
    more += there.len().saturating_sub(SHOWN);
    there.truncate(SHOWN);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    Ok(format!("no job {what} in namespace {space}: there is {}{rest}", there.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn read(text: &str, kind: bool) -> Vec<(Option<String>, String)> {
        let words = words(text);
        let all = parse(&words, kind).unwrap();
        all.iter().map(|named| (named.kind.map(str::to_owned), named.name.to_owned())).collect()
    }

    #[test]
    fn three_ways_to_name_a_thing() {
        let named = |kind: Option<&str>, name: &str| (kind.map(str::to_owned), name.to_owned());
        assert_eq!(read("a", false), [named(None, "a")]);
        assert_eq!(read("tfjob/a b", false), [named(Some("tfjob"), "a"), named(None, "b")]);
        assert_eq!(read("tfjob a b", true), [named(Some("tfjob"), "a"), named(Some("tfjob"), "b")]);
        assert_eq!(leading_kind(&words("tfjob a")), Some("tfjob"));
        assert_eq!(leading_kind(&words("tfjob/a b")), None);
        assert_eq!(leading_kind(&words("tfjob")), None);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for (text, kind) in [("/a", false), ("a/", false), ("a/b/c", false), ("tfjob tfjob/a", true)] {
            assert!(parse(&words(text), kind).is_err(), "{text}");
        }
    }
}
