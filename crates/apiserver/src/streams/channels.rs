//! The WebSocket subprotocols: which there are, which one a client gets, and what their messages mean.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use tokio_tungstenite::tungstenite::Message;

/// Input of a process.
pub(crate) const STDIN: u8 = 0;
/// Output.
pub(crate) const STDOUT: u8 = 1;
/// The other output.
pub(crate) const STDERR: u8 = 2;
/// How it ended.
pub(crate) const ERROR: u8 = 3;
/// The size of the client's terminal.
pub(crate) const RESIZE: u8 = 4;

/// Says, in a dialect that has it, that a channel ends.
const CLOSE: u8 = 255;

/// A subprotocol with channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// As the client writes it; empty if it names none.
    pub(crate) name: &'static str,
    base64: bool,
    /// A client can close a channel and go on with the others.
    closes: bool,
    /// The end of a process is told as a `Status`.
    pub(crate) status: bool,
}

const V5: Dialect = Dialect { name: "v5.channel.k8s.io", base64: false, closes: true, status: true };
const V4: Dialect = Dialect { name: "v4.channel.k8s.io", base64: false, closes: false, status: true };
const V4_BASE64: Dialect =
    Dialect { name: "v4.base64.channel.k8s.io", base64: true, closes: false, status: true };
const V1: Dialect = Dialect { name: "channel.k8s.io", base64: false, closes: false, status: false };
const V1_BASE64: Dialect =
    Dialect { name: "base64.channel.k8s.io", base64: true, closes: false, status: false };
const UNNAMED: Dialect = Dialect { name: "", base64: false, closes: false, status: false };

/// For processes.
pub(crate) const EXEC: &[Dialect] = &[V5, V4, V4_BASE64, V1, V1_BASE64, UNNAMED];
/// For ports.
pub(crate) const FORWARD: &[Dialect] = &[V4, V4_BASE64, UNNAMED];

/// What a message of a client says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Data(u8, Bytes),
    /// This channel ends.
    Close(u8),
    /// Nothing that anybody could use.
    Nothing,
    /// Something that the protocol does not know.
    Nonsense,
}

impl Dialect {
    /// The dialect that a client and this server share. Whoever knows the newest one gets it; otherwise the client's own
    /// order counts.
    pub(crate) fn choose(offered: &[&str], served: &[Self]) -> Option<Self> {
        let find = |name: &str| served.iter().find(|dialect| dialect.name == name).copied();
        if offered.is_empty() {
            return find("");
        }
        let newest = served.iter().find(|dialect| dialect.closes && offered.contains(&dialect.name));
        newest.copied().or_else(|| offered.iter().find_map(|name| find(name)))
    }

    /// Whether a real server stands in between and speaks an older dialect with the kubelet.
    pub(crate) fn translates(self) -> bool {
        self.closes
    }

    /// The beginning of each message on a channel.
    pub(crate) fn prefix(self, channel: u8) -> [u8; 1] {
        [if self.base64 { b'0'.saturating_add(channel) } else { channel }]
    }

    /// A message out of its prefix and what follows it.
    pub(crate) fn message(self, prefixed: BytesMut) -> Message {
        if !self.base64 {
            return Message::Binary(prefixed.freeze());
        }
        let (prefix, data) = prefixed.split_first().map_or((b'0', &[][..]), |(first, rest)| (*first, rest));
        let mut text = String::from(char::from(prefix));
        STANDARD.encode_string(data, &mut text);
        Message::Text(text.into())
    }

    /// A whole message.
    pub(crate) fn say(self, channel: u8, data: &[u8]) -> Message {
        let mut message = BytesMut::with_capacity(data.len() + 1);
        message.extend_from_slice(&self.prefix(channel));
        message.extend_from_slice(data);
        self.message(message)
    }

    /// What a client's message says.
    pub(crate) fn hear(self, mut message: Bytes) -> Said {
        let Some(&first) = message.first() else { return Said::Nothing };
        let data = message.split_off(1);
        if self.closes && first == CLOSE {
            return match &*data {
                [channel] => Said::Close(*channel),
                _ => Said::Nonsense,
            };
        }
        if !self.base64 {
            return Said::Data(first, data);
        }
        match (first.checked_sub(b'0'), STANDARD.decode(&data)) {
            (Some(channel), Ok(data)) => Said::Data(channel, data.into()),
            _ => Said::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_dialect_it_can_speak() {
        let chosen = |offered: &[&str]| Dialect::choose(offered, EXEC).map(|dialect| dialect.name);
        assert_eq!(chosen(&[]), Some(""));
        assert_eq!(chosen(&["v4.channel.k8s.io", "v5.channel.k8s.io"]), Some("v5.channel.k8s.io"));
        assert_eq!(chosen(&["x", "channel.k8s.io", "v4.channel.k8s.io"]), Some("channel.k8s.io"));
        assert_eq!(chosen(&["x"]), None);
        assert_eq!(Dialect::choose(&["v5.channel.k8s.io"], FORWARD), None);
    }

    #[test]
    fn messages_are_said_and_heard() {
        assert_eq!(V4.say(1, b"ab"), Message::Binary(Bytes::from_static(b"\x01ab")));
        assert_eq!(V4_BASE64.say(1, b"\n"), Message::Text("1Cg==".into()));
        let hear = |dialect: Dialect, text: &'static [u8]| dialect.hear(Bytes::from_static(text));
        assert_eq!(hear(V4, b"\x00x"), Said::Data(0, Bytes::from_static(b"x")));
        assert_eq!(hear(V4_BASE64, b"0Zm9vCg=="), Said::Data(0, Bytes::from_static(b"foo\n")));
        assert_eq!(hear(V4_BASE64, b"0not base64"), Said::Nothing);
        assert_eq!(hear(V4_BASE64, b"\x01"), Said::Nothing);
        assert_eq!(hear(V5, b""), Said::Nothing);
        assert_eq!(hear(V5, &[255, 0]), Said::Close(0));
        assert_eq!(hear(V5, &[255]), Said::Nonsense);
        assert_eq!(hear(V5, &[255, 0, 0]), Said::Nonsense);
        assert_eq!(hear(V4, &[255, 0]), Said::Data(255, Bytes::from_static(&[0])));
    }
}
