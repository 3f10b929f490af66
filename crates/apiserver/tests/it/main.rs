//! The contract of the API server, driven through its router as a client would.

#[cfg(test)]
mod apply;
mod builtins;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod collect;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod custom;
#[cfg(test)]
mod discovery;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod extensions;
#[cfg(test)]
mod fulldisk;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod large;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod patches;
#[cfg(test)]
mod pods;
#[cfg(test)]
mod property;
#[cfg(test)]
mod rbac;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod reviews;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod watches;
#[cfg(test)]
mod webhooks;
#[cfg(test)]
mod wire;
#[cfg(test)]
mod workloads;
