//! How an object stands in the file: its JSON, and a checksum over key, revision and JSON. redb has checksums of whole
//! pages, and looks at them only after a crash: they tell that something is wrong, and not which object.

const SUM: usize = 4;

fn sum(key: &str, revision: u64, json: &[u8]) -> [u8; SUM] {
    let mut sum = crc32fast::Hasher::new();
    sum.update(key.as_bytes());
    sum.update(&revision.to_le_bytes());
    sum.update(json);
    sum.finalize().to_le_bytes()
}

pub(super) fn seal(key: &str, revision: u64, json: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(json.len() + SUM);
    sealed.extend_from_slice(json);
    sealed.extend_from_slice(&sum(key, revision, json));
    sealed
}

/// The JSON, if it is what was written under this key.
pub(super) fn open<'v>(key: &str, revision: u64, sealed: &'v [u8]) -> Option<&'v [u8]> {
    let (json, found) = sealed.split_last_chunk::<SUM>()?;
    (sum(key, revision, json) == *found).then_some(json)
}
