//! All jobs with what belongs to them, in one pass and little memory.
//!
//! Servers list objects in the order of `namespace/name`, and the children of a job are called after it: `job-…`. So
//! jobs, pods and services are read side by side, a job is complete once the others have come past its name, and then
//! what is known of its children is dropped. A child that has another name is rare: its job is read by itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::value::RawValue;
use trainyard_api::labels::JOB_NAME;
use trainyard_core::{Kind, PodView, ServiceView};
use trainyard_operator::{Controller, read_pod, read_service};

use super::cluster::{Cluster, name_kind};
use super::pages::{Listed, Pages};
use super::resource::Resource;
use super::target::Job;
use super::trouble::Trouble;
use super::why::{Belongings, Family};

/// Shows every job of these kinds. One that turns out to be incomplete is shown again. Returns how many children were
/// known at once at most.
pub(crate) async fn each(
    cluster: &Cluster,
    kinds: &[(&'static Kind, Resource)],
    namespace: Option<&str>,
    show: impl FnMut(&Job, &Family),
) -> anyhow::Result<usize> {
    let listed = |resource, selector| Listed { resource, namespace, selector };
    let mut jobs: Vec<Row<Job>> = Vec::new();
    for (kind, resource) in kinds {
        jobs.push(Row::new(Pages::of(cluster, listed(resource, "")), job(kind, resource)));
    }
    let catalog = cluster.catalog;
    let (pods, services) = (Resource::pods(), Resource::core("services", "Service"));
    let mut pods = Row::new(Pages::of(cluster, listed(&pods, JOB_NAME)), move |json| {
        let (controller, view) = read_pod(&catalog, json.get())?;
        let key = key(&controller.namespace, &view.name);
        Some((key, (controller, Child::Pod(Box::new(view), Trouble::read(json.get())))))
    });
    let mut services = Row::new(Pages::of(cluster, listed(&services, JOB_NAME)), move |json| {
        let (controller, view) = read_service(&catalog, json.get())?;
        Some((key(&controller.namespace, &view.name), (controller, Child::Service(view))))
    });
    let mut gathering = Gathering::new(cluster, show);
    while let Some(next) = next(&mut jobs, &mut pods, &mut services).await? {
        let key = match &next {
            Next::Job(key, _) | Next::Child(key, ..) => key,
        };
        gathering.close_before(key);
        match next {
            Next::Job(key, job) => gathering.open(key, *job),
            Next::Child(_, controller, child) => gathering.add(&controller, child),
        }
    }
    gathering.finish().await
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn job(kind: &'static Kind, resource: &Resource) -> impl Fn(&RawValue) -> Option<(String, Job)> + use<> {
    let resource = resource.clone();
    move |json| {
        let mut object = serde_json::from_str(json.get()).ok()?;
        name_kind(&mut object, &resource);
        let job = Job { kind, resource: resource.clone(), object };
        Some((key(job.namespace(), job.name()), job))
    }
}

/// Something that belongs to a job.
enum Child {
    Pod(Box<PodView>, Option<Trouble>),
    Service(ServiceView),
}

/// What comes next in the order of names.
enum Next {
    Job(String, Box<Job>),
    Child(String, Controller, Child),
}

type Children = Row<(Controller, Child)>;

/// The first of all that are still to come. Of those with the same name jobs are first.
async fn next(
    jobs: &mut [Row<Job>],
    pods: &mut Children,
    services: &mut Children,
) -> anyhow::Result<Option<Next>> {
    let mut first: Option<(String, usize)> = None;
    for (number, row) in jobs.iter_mut().enumerate() {
        let head = row.head().await?;
        if let Some(head) = head.filter(|head| first.as_ref().is_none_or(|(first, _)| *head < first.as_str()))
        {
            first = Some((head.to_owned(), number));
        }
    }
    let pod = pods.head().await?;
    let service = services.head().await?;
    let child = match (pod, service) {
        (Some(pod), Some(service)) => Some(pod.min(service)),
        (pod, service) => pod.or(service),
    };
    let job = first.filter(|(job, _)| child.is_none_or(|child| job.as_str() <= child));
    if let Some((_, number)) = job {
        let taken = jobs.get_mut(number).and_then(Row::take);
        return Ok(taken.map(|(key, job)| Next::Job(key, Box::new(job))));
    }
    let is_pod = pod.is_some() && pod == child;
    let taken = if is_pod { pods.take() } else { services.take() };
    Ok(taken.map(|(key, (controller, child))| Next::Child(key, controller, child)))
}

/// A list in order, read object by object. What `read` makes nothing of is passed over.
struct Row<T> {
    pages: Pages,
    #[expect(clippy::type_complexity, reason = "it is written once")]
    read: Box<dyn Fn(&RawValue) -> Option<(String, T)> + Send>,
    page: VecDeque<Box<RawValue>>,
    head: Option<(String, T)>,
}

impl<T> Row<T> {
    fn new(pages: Pages, read: impl Fn(&RawValue) -> Option<(String, T)> + Send + 'static) -> Self {
        Self { pages, read: Box::new(read), page: VecDeque::new(), head: None }
    }

    /// The name of the next object.
    async fn head(&mut self) -> anyhow::Result<Option<&str>> {
        while self.head.is_none() {
            match self.page.pop_front() {
                Some(json) => self.head = (self.read)(&json),
                None => match self.pages.next().await? {
                    Some(page) => self.page = page.into(),
                    None => break,
                },
            }
        }
        Ok(self.head.as_ref().map(|(key, _)| key.as_str()))
    }

    fn take(&mut self) -> Option<(String, T)> {
        self.head.take()
    }
}

/// A job whose children are still to come.
struct Open {
    key: String,
    job: Job,
    belongings: Belongings,
}

/// The jobs that are open, and where those are that were shown.
struct Gathering<'a, F> {
    cluster: &'a Cluster,
    show: F,
    /// Few: jobs whose names begin with each other's.
    open: Vec<Open>,
    /// Where each job is that was shown, by its identity.
    shown: BTreeMap<Box<str>, (&'static Kind, Resource, String)>,
    /// The owners of children that came when their job was not open.
    strays: BTreeSet<Box<str>>,
    /// Children of the jobs that are open, and the most there were.
    known: usize,
    most: usize,
}

impl<'a, F: FnMut(&Job, &Family)> Gathering<'a, F> {
    fn new(cluster: &'a Cluster, show: F) -> Self {
        let (open, shown, strays) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        Self { cluster, show, open, shown, strays, known: 0, most: 0 }
    }

    fn open(&mut self, key: String, job: Job) {
        self.open.push(Open { key, job, belongings: Belongings::default() });
    }

    fn add(&mut self, controller: &Controller, child: Child) {
        let Some(open) = self.open.iter_mut().find(|open| open.job.uid() == &*controller.uid) else {
            self.strays.insert(controller.uid.clone());
            return;
        };
        self.known += 1;
        self.most = self.most.max(self.known);
        match child {
            Child::Pod(view, trouble) => {
                open.belongings.kin.pods.push(*view);
                open.belongings.troubles.extend(trouble);
            }
            Child::Service(view) => open.belongings.kin.services.push(view),
        }
    }

    /// Shows the jobs whose children would all have come before this name.
    fn close_before(&mut self, key: &str) {
        let belongs = |open: &Open| {
            key.strip_prefix(&open.key).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let complete: Vec<Open> = self.open.extract_if(.., |open| !belongs(open)).collect();
        complete.into_iter().for_each(|open| self.close(open));
    }

    fn close(&mut self, open: Open) {
        let Open { job, belongings, .. } = open;
        self.known -= belongings.kin.pods.len() + belongings.kin.services.len();
        let family = Family::new(self.cluster, &job, belongings);
        (self.show)(&job, &family);
        self.shown.insert(job.uid().into(), (job.kind, job.resource.clone(), job.path()));
    }

    /// Shows what is left.
    async fn finish(mut self) -> anyhow::Result<usize> {
        for open in std::mem::take(&mut self.open) {
            self.close(open);
        }
        for uid in &self.strays {
            let Some((kind, resource, path)) = self.shown.get(uid) else { continue };
            let Some(object) = self.cluster.get(path).await? else { continue };
            let job = Job { kind, resource: resource.clone(), object };
            let family = Family::read(self.cluster, &job, |_| Ok(())).await?;
            (self.show)(&job, &family);
        }
        Ok(self.most)
    }
}

#[cfg(test)]
mod tests;
