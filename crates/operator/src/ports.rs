//! Which job holds which host ports on this machine.
//!
//! The truth is in the jobs' records. But between a plan that picks a block and the moment its record is seen by
//! everyone lies time in which another job could pick the same one. So picking and noting happen under one lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_core::{PortBlock, PortSpace};

/// The blocks in use, by the identity of the job.
#[derive(Debug)]
pub(crate) struct PortBook {
    range: Option<(u16, u16)>,
    blocks: BTreeMap<Arc<str>, PortBlock>,
}

impl PortBook {
    pub(crate) fn new(range: Option<(u16, u16)>) -> Self {
        Self { range, blocks: BTreeMap::new() }
    }

    /// What a job may pick from.
    pub(crate) fn space(&self, uid: &str) -> Option<PortSpace> {
        let (first, last) = self.range?;
        let others = self.blocks.iter().filter(|(holder, _)| &***holder != uid);
        Some(PortSpace { first, last, taken: others.map(|(_, block)| *block).collect() })
    }

    /// A job holds this block now, or none.
    pub(crate) fn hold(&mut self, uid: &Arc<str>, block: Option<PortBlock>) {
        match block {
            Some(block) => {
                self.blocks.insert(Arc::clone(uid), block);
            }
            None => {
                self.blocks.remove(uid);
            }
        }
    }

    /// A job was seen for the first time by this operator, with this block in its record. What is noted by a plan
    /// is newer and stays.
    pub(crate) fn found(&mut self, uid: &Arc<str>, block: Option<PortBlock>) {
        if let Some(block) = block {
            self.blocks.entry(Arc::clone(uid)).or_insert(block);
        }
    }

    /// A job is gone.
    pub(crate) fn release(&mut self, uid: &str) {
        self.blocks.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_sees_the_blocks_of_others_until_they_let_go() {
        let mut book = PortBook::new(Some((100, 199)));
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let block = |base| PortBlock { base, size: 8 };
        book.found(&a, Some(block(100)));
        book.hold(&b, Some(block(108)));
        book.found(&b, Some(block(116)));
        assert_eq!(
            book.space("a").unwrap().taken,
            [block(108)],
            "what a plan noted is newer than what was found"
        );
        assert_eq!(book.space("c").unwrap().taken.len(), 2);
        book.hold(&a, None);
        book.release("b");
        assert!(book.space("c").unwrap().taken.is_empty());
        assert!(PortBook::new(None).space("a").is_none());
    }
}
