//! The addresses replicas are told: names of services, or ports of this machine, or
//! both where replicas have the network of their machine.

use crate::job::{JobView, Slot};
use crate::seen::{Addressing, Helpers, Options, PortBlock};

/// How the replicas of one job reach each other.
#[derive(Clone, Copy, Debug)]
pub struct Net<'a> {
    job: &'a JobView,
    options: &'a Options,
    block: Option<PortBlock>,
}

impl<'a> Net<'a> {
    /// By service names; on the ports of `block` when there is one.
    pub fn new(job: &'a JobView, options: &'a Options, block: Option<PortBlock>) -> Self {
        Self { job, options, block }
    }

    /// What is put beside the user's containers.
    pub fn helpers(&self) -> &'a Helpers {
        &self.options.helpers
    }

    /// True when replicas find each other by the names of services, and not all on this machine.
    pub fn by_service(&self) -> bool {
        self.block.is_none() || self.options.addressing == Addressing::Service
    }

    /// The host of a replica, as its peers in the same namespace name it.
    pub fn host(&self, slot: Slot<'_>) -> String {
        if self.by_service() { slot.child_name(self.job) } else { "127.0.0.1".into() }
    }

    /// The port of a replica.
    pub fn port(&self, slot: Slot<'_>) -> u16 {
        self.host_port(slot).unwrap_or(slot.role.port)
    }

    /// The port of a replica on its machine, when it has to be one nobody else uses.
    pub fn host_port(&self, slot: Slot<'_>) -> Option<u16> {
        let block = self.block.filter(|_| !self.by_service() || slot.role.on_host_network())?;
        let offset = u16::try_from(self.job.ordinal(slot)).unwrap_or(u16::MAX);
        Some(block.base.saturating_add(offset))
    }

    /// `host:port`, the host good in every namespace.
    pub fn endpoint_qualified(&self, slot: Slot<'_>) -> String {
        let port = self.port(slot);
        if !self.by_service() {
            return format!("{}:{port}", self.host(slot));
        }
        let domain = self.options.cluster_domain.as_deref().filter(|domain| !domain.is_empty());
        let suffix = domain.map(|domain| format!(".{domain}")).unwrap_or_default();
        format!("{}.{}.svc{suffix}:{port}", self.host(slot), self.job.namespace)
    }
}
