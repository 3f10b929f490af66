//! The allocator (ADR 8). Its settings are in `.cargo/config.toml`: jemalloc takes them when it is built.

#[global_allocator]
static HEAP: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// From now on a thread gives free pages back to the machine, also when nobody allocates. For processes that stay:
/// a shim must be alone in its process to enter namespaces, and the other commands are soon over.
pub(crate) fn give_back() {
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::warn!(%error, "free memory is given back only while other memory is asked for");
    }
}
