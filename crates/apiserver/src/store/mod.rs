//! Where objects live: an in-memory index that answers every read, over a [`Backend`] that makes writes durable.

pub mod backend;
