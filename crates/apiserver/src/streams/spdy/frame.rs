//! Frames: what they look like on the wire. Data is handed on as it comes, so that no frame has to fit into memory.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The bytes before the payload of each frame.
const HEAD: usize = 8;
/// Control frames are small: names and ports.
const CONTROL: usize = 64 * 1024;
/// Data is handed on in pieces of at most this size.
const PIECE: usize = 32 * 1024;
const VERSION: u16 = 3;
const FIN: u8 = 1;
/// Identifiers have 31 bits.
const ID: u32 = 0x7fff_ffff;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// Why a stream is reset: the client broke the rules.
pub const PROTOCOL_ERROR: u32 = 1;
/// Why a stream is reset: it was not processed at all.
pub const REFUSED_STREAM: u32 = 3;
/// Why a stream is reset: nobody needs it any more.
pub const CANCEL: u32 = 5;

/// A frame of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A new stream, with a packed header block.
    SynStream {
        /// Its number.
        id: u32,
        /// The client sends nothing on it.
        fin: bool,
        /// Packed headers.
        block: Bytes,
    },
    /// More headers for a stream. Only unpacking them matters: all blocks are packed in one go.
    Headers {
        /// Which stream.
        id: u32,
        /// It is the client's last word on this stream.
        fin: bool,
        /// Packed headers.
        block: Bytes,
    },
    /// A stream is over at once.
    Reset {
        /// Which.
        id: u32,
    },
    /// To be sent back.
    Ping {
        /// As it came.
        id: u32,
    },
    /// The client opens no more streams.
    GoAway,
    /// A piece of data, maybe not all of its frame.
    Data {
        /// Of which stream.
        id: u32,
        /// It is the client's last word on this stream.
        fin: bool,
        /// The data.
        data: Bytes,
    },
    /// Something that does not matter here: settings, windows, unknown frames.
    Other,
}

/// The client does not speak SPDY/3.1, or not within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Another version.
    #[error("not a frame of SPDY/3")]
    Version,
    /// A control frame beyond all reason.
    #[error("a control frame is too large")]
    TooLarge,
    /// A frame without what it must have.
    #[error("a frame is malformed")]
    Malformed,
}

/// Cuts a stream of bytes into frames.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// The data frame that is being handed on: stream, whether it is the last, bytes to come.
    open: Option<(u32, bool, usize)>,
}

impl Decoder {
    /// The next frame at the beginning of the buffer, which loses it; nothing if more bytes are needed.
    ///
    /// # Errors
    /// When the client cannot be understood; nothing that follows can be, either.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        if let Some(open) = self.open {
            return Ok(self.piece(open, buffer));
        }
        let Some(head) = buffer.get(..HEAD) else { return Ok(None) };
        let mut head = head;
        let (first, second) = (head.get_u32(), head.get_u32());
        let (flags, length) = (second.to_be_bytes()[0], (second & 0x00ff_ffff) as usize);
        if first & !ID == 0 {
            if first == 0 {
                return Err(FrameError::Malformed);
            }
            buffer.advance(HEAD);
            let open = (first, flags & FIN != 0, length);
            return Ok(self.piece(open, buffer));
        }
        let [version, kind] = [(first >> 16) & 0x7fff, first & 0xffff].map(|half| half.to_le_bytes());
        let [version, kind] = [version, kind].map(|[low, high, ..]| u16::from_le_bytes([low, high]));
        if version != VERSION {
            return Err(FrameError::Version);
        }
        if length > CONTROL {
            return Err(FrameError::TooLarge);
        }
        if buffer.len() < HEAD + length {
            return Ok(None);
        }
        buffer.advance(HEAD);
        control(kind, flags, buffer.split_to(length).freeze()).map(Some)
    }

    fn piece(&mut self, (id, fin, length): (u32, bool, usize), buffer: &mut BytesMut) -> Option<Frame> {
        if length > 0 && buffer.is_empty() {
            self.open = Some((id, fin, length));
            return None;
        }
        let data = buffer.split_to(length.min(buffer.len()).min(PIECE)).freeze();
        let rest = length - data.len();
        self.open = (rest > 0).then_some((id, fin, rest));
        Some(Frame::Data { id, fin: fin && rest == 0, data })
    }
}

fn control(kind: u16, flags: u8, mut payload: Bytes) -> Result<Frame, FrameError> {
    let number = |payload: &mut Bytes| payload.try_get_u32().map_err(|_| FrameError::Malformed);
    let stream = |payload: &mut Bytes| match number(payload)? & ID {
        0 => Err(FrameError::Malformed),
        id => Ok(id),
    };
    let fin = flags & FIN != 0;
    Ok(match kind {
        SYN_STREAM => {
            let id = stream(&mut payload)?;
            let _associated = number(&mut payload)?;
            let _priority_and_slot = payload.try_get_u16().map_err(|_| FrameError::Malformed)?;
            Frame::SynStream { id, fin, block: payload }
        }
        // A client that replies replies to nothing, but its headers are part of the packed stream.
        SYN_REPLY | HEADERS => Frame::Headers { id: stream(&mut payload)?, fin, block: payload },
        RST_STREAM => Frame::Reset { id: stream(&mut payload)? },
        PING => Frame::Ping { id: number(&mut payload)? },
        GOAWAY => Frame::GoAway,
        _ => Frame::Other,
    })
}

fn head(to: &mut BytesMut, kind: u16, flags: u8, length: usize) {
    to.put_u16(0x8000 | VERSION);
    to.put_u16(kind);
    put_length(to, flags, length);
}

fn put_length(to: &mut BytesMut, flags: u8, length: usize) {
    let length = u32::try_from(length).unwrap_or(u32::MAX) & 0x00ff_ffff;
    to.put_u32(u32::from(flags) << 24 | length);
}

/// A piece of data; never more than a few pieces' worth.
pub fn put_data(to: &mut BytesMut, id: u32, fin: bool, data: &[u8]) {
    to.put_u32(id & ID);
    put_length(to, u8::from(fin), data.len());
    to.put_slice(data);
}

/// The answer to a new stream, with a packed header block.
pub fn put_reply(to: &mut BytesMut, id: u32, block: &[u8]) {
    head(to, SYN_REPLY, 0, block.len() + 4);
    to.put_u32(id & ID);
    to.put_slice(block);
}

/// Ends a stream at once.
pub fn put_reset(to: &mut BytesMut, id: u32, why: u32) {
    head(to, RST_STREAM, 0, 8);
    to.put_u32(id & ID);
    to.put_u32(why);
}

/// The answer to a ping, or one of our own.
pub fn put_ping(to: &mut BytesMut, id: u32) {
    head(to, PING, 0, 4);
    to.put_u32(id);
}

/// The end of the connection.
pub fn put_goaway(to: &mut BytesMut, last: u32) {
    head(to, GOAWAY, 0, 8);
    to.put_u32(last & ID);
    to.put_u32(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8], cut: usize) -> Result<Vec<Frame>, FrameError> {
        let (mut decoder, mut buffer, mut found) = (Decoder::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(cut) {
            buffer.extend_from_slice(piece);
            while let Some(frame) = decoder.decode(&mut buffer)? {
                found.push(frame);
            }
        }
        Ok(found)
    }

    fn stream(id: u32, kind: u16, flags: u8, rest: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::new();
        head(&mut bytes, kind, flags, 4 + rest.len());
        bytes.put_u32(id);
        bytes.put_slice(rest);
        bytes
    }

    #[test]
    fn frames_are_read_however_they_are_cut() {
        let mut bytes = stream(1, SYN_STREAM, 0, &[0, 0, 0, 0, 0, 0, 7, 8, 9]);
        put_data(&mut bytes, 1, false, b"hello");
        put_data(&mut bytes, 1, true, b"");
        put_ping(&mut bytes, 5);
        put_reset(&mut bytes, 3, CANCEL);
        bytes.put_slice(&stream(9, 4, 0, b"settings"));
        put_goaway(&mut bytes, 7);
        let wanted = [
            Frame::SynStream { id: 1, fin: false, block: Bytes::from_static(&[7, 8, 9]) },
            Frame::Data { id: 1, fin: false, data: Bytes::from_static(b"hello") },
            Frame::Data { id: 1, fin: true, data: Bytes::new() },
            Frame::Ping { id: 5 },
            Frame::Reset { id: 3 },
            Frame::Other,
            Frame::GoAway,
        ];
        assert_eq!(all(&bytes, 1000).unwrap(), wanted);
        // Data comes in smaller pieces, and is the same data.
        let mut data = Vec::new();
        for frame in all(&bytes, 3).unwrap() {
            if let Frame::Data { data: piece, .. } = frame {
                data.extend_from_slice(&piece);
            }
        }
        assert_eq!(data, b"hello");
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for (bytes, error) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], None),
            (&[0x80, 2, 0, 1, 0, 0, 0, 0], Some(FrameError::Version)),
            (&[0x80, 3, 0, 1, 0, 0xff, 0, 0], Some(FrameError::TooLarge)),
            (&[0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0], Some(FrameError::Malformed)),
            (&[0x80, 3, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0], Some(FrameError::Malformed)),
            (&[0, 0, 0, 0, 0, 0, 0, 0], Some(FrameError::Malformed)),
        ] {
            let found = all(bytes, 64);
            assert_eq!(found.clone().err(), error, "{bytes:?}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics_and_nothing_is_kept(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 1usize..50) {
            let _ = all(&bytes, cut);
        }

        #[test]
        fn data_comes_through(data in prop::collection::vec(any::<u8>(), 0..100_000), cut in 1usize..70_000) {
            let mut bytes = BytesMut::new();
            put_data(&mut bytes, 3, true, &data);
            let frames = all(&bytes, cut).unwrap();
            let ends = frames.iter().filter(|f| matches!(f, Frame::Data { fin: true, .. })).count();
            let mut back = Vec::new();
            for frame in frames {
                if let Frame::Data { id: 3, data, .. } = frame {
                    back.extend_from_slice(&data);
                }
            }
            prop_assert_eq!(back, data);
            prop_assert_eq!(ends, 1);
        }
    }
}
