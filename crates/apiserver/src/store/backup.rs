//! All objects as one stream of bytes, and back. It is made of records as the journal is, so that no bit of it can change
//! unnoticed, and its last record says how many objects there are, so that no part of it can be missing.

use std::sync::Arc;

use bytes::Bytes;

use super::backend::{Loaded, Write};
use super::identity::Identity;
use super::journal::record::{self, Record};
use super::stored::Stored;

const MAGIC: &[u8] = b"trainyard backup 1\n";
/// Objects are put together until a record has about this size.
const PART: usize = 256 << 10;

/// The stream of the objects of a store, part by part. They are shared with the store until their turn comes.
pub(crate) fn of(revision: u64, objects: Vec<Arc<Stored>>) -> impl Iterator<Item = Bytes> + Send {
    parts(
        revision,
        objects.into_iter().map(|object| (object.key.to_string(), object.revision, object.bytes.clone())),
    )
}

/// The stream of what a backend has.
pub fn of_loaded(loaded: Loaded) -> impl Iterator<Item = Bytes> + Send {
    parts(loaded.revision, loaded.objects.into_iter())
}

fn parts(
    revision: u64,
    mut objects: impl ExactSizeIterator<Item = (String, u64, Bytes)> + Send,
) -> impl Iterator<Item = Bytes> + Send {
    let (identity, count) = (Identity::new(), objects.len());
    let opening = Bytes::from([MAGIC, identity.bytes()].concat());
    let (mut done, mut ended) = (0, false);
    let records = std::iter::from_fn(move || {
        let (mut writes, mut size) = (Vec::new(), 0);
        while size < PART
            && let Some((key, revision, json)) = objects.next()
        {
            size += json.len();
            writes.push(Write { revision, key, value: Some(json) });
        }
        if writes.is_empty() && !ended {
            ended = true;
            writes.push(Write { revision, key: String::new(), value: Some(count.to_string().into()) });
        }
        let (before, mut part) = (done, Vec::with_capacity(size));
        done += writes.len() as u64;
        // A record that does not fit has no place in the store either; its absence shows when the stream is read.
        (!writes.is_empty())
            .then(|| record::encode(&identity, before, &writes, &mut part).map(|()| part.into()))?
    });
    std::iter::once(opening).chain(records)
}

/// Reads a stream.
///
/// # Errors
/// Says what is wrong with it.
pub fn read(stream: Bytes) -> Result<Loaded, String> {
    let rest = stream.strip_prefix(MAGIC).ok_or("this is no backup of trainyard, or of a newer one")?;
    let (identity, _) = rest.split_first_chunk::<{ Identity::LENGTH }>().ok_or("the backup is cut off")?;
    let identity = Identity::from_bytes(*identity);
    let mut at = MAGIC.len() + Identity::LENGTH;
    let mut objects: Vec<(String, u64, Bytes)> = Vec::new();
    loop {
        let damaged = || format!("the backup is damaged or cut off at byte {at}");
        let Record { previous, writes, end } = record::decode(&identity, &stream, at).ok_or_else(damaged)?;
        if previous != objects.len() as u64 {
            return Err(damaged());
        }
        match writes.as_slice() {
            [Write { revision, key, value: Some(count) }] if key.is_empty() => {
                let whole = count.as_ref() == objects.len().to_string().as_bytes() && end == stream.len();
                return if whole { Ok(Loaded { revision: *revision, objects }) } else { Err(damaged()) };
            }
            _ => {}
        }
        for write in writes {
            objects.push((write.key, write.revision, write.value.ok_or_else(damaged)?));
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Key;

    fn stored(name: &str, size: usize) -> Arc<Stored> {
        let key = Key::new(&"/configmaps".into(), "default", name);
        Arc::new(Stored::rehearsed(&key, &json!({ "data": "x".repeat(size) })).unwrap())
    }

    fn stream(revision: u64, objects: Vec<Arc<Stored>>) -> Vec<u8> {
        of(revision, objects).flatten().collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let objects: Vec<_> = (0..50).map(|n| stored(&format!("m{n}"), n * 2000)).collect();
        let loaded = read(stream(77, objects.clone()).into()).unwrap();
        assert_eq!((loaded.revision, loaded.objects.len()), (77, 50));
        for (object, (key, _, json)) in objects.iter().zip(&loaded.objects) {
            assert_eq!((object.key.to_string(), &object.bytes), (key.clone(), json));
        }
        assert_eq!(read(stream(3, Vec::new()).into()).unwrap().revision, 3);
    }

    #[test]
    fn no_part_of_it_can_change_or_be_missing() {
        let whole = stream(5, vec![stored("a", 5), stored("b", 400_000), stored("c", 5)]);
        let checked =
            (0..100).chain((100..whole.len() - 200).step_by(9973)).chain(whole.len() - 200..whole.len());
        for at in checked {
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            assert!(read(wrong.into()).is_err(), "byte {at}");
            assert!(read(whole[..at].to_vec().into()).is_err(), "{at} bytes");
        }
        assert!(read([whole, vec![0]].concat().into()).is_err());
    }
}
