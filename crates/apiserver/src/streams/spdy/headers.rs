//! Header blocks: names and values, packed with zlib and a dictionary, all blocks of a connection in one go.

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};

/// The dictionary of SPDY/3, a part of the protocol.
const DICTIONARY: &[u8] = include_bytes!("dictionary.bin");
/// What a block may become when it is unpacked.
const LARGEST: usize = 64 * 1024;
/// Headers in a block. Clients of Kubernetes send three.
const MOST: u32 = 100;

/// The packed form of no headers at all, at the beginning of what is sent: the beginning of a zlib stream with the
/// dictionary, and then as below.
const FIRST_EMPTY: &[u8] =
    &[0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2, 0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// The same later on: four bytes as they are (a count of zero), and the empty block that makes a reader look at them.
const NEXT_EMPTY: &[u8] = &[0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// A block that cannot be unpacked; nor can any later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header block is malformed")]
pub struct HeaderError;

/// The headers of a stream. Names are in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// A value; nothing if it is not there.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Unpacks the blocks of one connection, one after the other.
#[derive(Debug)]
pub struct Unpacker(Decompress);

impl Default for Unpacker {
    fn default() -> Self {
        Self(Decompress::new(true))
    }
}

impl Unpacker {
    /// The headers in the next block.
    ///
    /// # Errors
    /// When it is damaged, or too large.
    pub fn unpack(&mut self, block: &[u8]) -> Result<Headers, HeaderError> {
        let mut out = Vec::with_capacity(1024);
        let mut rest = block;
        loop {
            let (read, written) = (self.0.total_in(), out.len());
            let result = self.0.decompress_vec(rest, &mut out, FlushDecompress::Sync);
            let used = usize::try_from(self.0.total_in() - read).map_err(|_| HeaderError)?;
            rest = rest.get(used..).ok_or(HeaderError)?;
            match result {
                Ok(Status::StreamEnd) => break,
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(DICTIONARY).map_err(|_| HeaderError)?;
                    continue;
                }
                Err(_) => return Err(HeaderError),
            }
            if out.len() > LARGEST {
                return Err(HeaderError);
            }
            if out.len() == out.capacity() {
                out.reserve(out.len());
            } else if rest.is_empty() || (used == 0 && out.len() == written) {
                break;
            }
        }
        parse(Bytes::from(out))
    }
}

fn parse(mut block: Bytes) -> Result<Headers, HeaderError> {
    fn number(block: &mut Bytes) -> Result<u32, HeaderError> {
        block.try_get_u32().map_err(|_| HeaderError)
    }
    fn text(block: &mut Bytes) -> Result<String, HeaderError> {
        let length = usize::try_from(number(block)?).map_err(|_| HeaderError)?;
        if length > block.len() {
            return Err(HeaderError);
        }
        Ok(String::from_utf8_lossy(&block.split_to(length)).into_owned())
    }
    let count = number(&mut block)?;
    if count > MOST {
        return Err(HeaderError);
    }
    let pairs = (0..count).map(|_| Ok((text(&mut block)?.to_ascii_lowercase(), text(&mut block)?)));
    pairs.collect::<Result<_, _>>().map(Headers)
}

/// The packed form of no headers at all, for the first or a later reply of a connection. It takes no packing, since
/// bytes may stand in a zlib stream as they are.
pub fn empty(first: bool) -> &'static [u8] {
    if first { FIRST_EMPTY } else { NEXT_EMPTY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compress, Compression, FlushCompress};
    use proptest::prelude::*;

    struct Packer(Compress);

    impl Packer {
        fn new() -> Self {
            let mut compress = Compress::new(Compression::best(), true);
            compress.set_dictionary(DICTIONARY).unwrap();
            Self(compress)
        }

        fn pack(&mut self, plain: &[u8]) -> Vec<u8> {
            let mut packed = Vec::with_capacity(plain.len() + 1000);
            self.0.compress_vec(plain, &mut packed, FlushCompress::Sync).unwrap();
            packed
        }
    }

    fn plain(pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = u32::try_from(pairs.len()).unwrap().to_be_bytes().to_vec();
        for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
            bytes.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn blocks_are_unpacked_one_after_the_other() {
        let (mut packer, mut unpacker) = (Packer::new(), Unpacker::default());
        for pairs in [
            vec![("streamtype", "error"), ("port", "80"), ("requestid", "0")],
            vec![],
            vec![("Streamtype", "data"), ("accept-charset", "")],
        ] {
            let headers = unpacker.unpack(&packer.pack(&plain(&pairs))).unwrap();
            for (name, value) in pairs {
                assert_eq!(headers.get(&name.to_lowercase()), Some(value));
            }
            assert_eq!(headers.get("none"), None);
        }
    }

    #[test]
    fn our_own_empty_blocks_are_empty() {
        let mut unpacker = Unpacker::default();
        for first in [true, false, false] {
            assert_eq!(unpacker.unpack(empty(first)), Ok(Headers::default()));
        }
    }

    #[test]
    fn a_block_that_explodes_is_refused() {
        let mut packer = Packer::new();
        let name = "x".repeat(10 << 20);
        let packed = packer.pack(&plain(&[(&name, "")]));
        assert_eq!(Unpacker::default().unpack(&packed), Err(HeaderError));
        let many: Vec<_> = (0..200).map(|_| ("a", "b")).collect();
        assert_eq!(Unpacker::default().unpack(&Packer::new().pack(&plain(&many))), Err(HeaderError));
        let mut short = plain(&[("a", "b")]);
        short.pop();
        assert_eq!(Unpacker::default().unpack(&Packer::new().pack(&short)), Err(HeaderError));
    }

    proptest! {
        #[test]
        fn nothing_panics(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..4)) {
            let mut unpacker = Unpacker::default();
            for block in blocks {
                let _ = unpacker.unpack(&block);
            }
        }

        #[test]
        fn nothing_panics_on_plain_blocks(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(Bytes::from(bytes));
        }
    }
}
