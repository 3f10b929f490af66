//! The formats the real server checks. One it does not know says nothing. Those of numbers are ranges, which are checked
//! with their types.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A known `format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    DateTime,
    Date,
    Duration,
    Byte,
    Uuid(Option<char>),
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Hostname,
    Email,
    Uri,
    HexColor,
    ObjectId,
    Ssn,
    ShortName,
    LongName,
}

impl Format {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let format = match name {
            "date-time" | "datetime" => Self::DateTime,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "byte" => Self::Byte,
            "uuid" => Self::Uuid(None),
            "uuid3" => Self::Uuid(Some('3')),
            "uuid4" => Self::Uuid(Some('4')),
            "uuid5" => Self::Uuid(Some('5')),
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "hostname" => Self::Hostname,
            "email" => Self::Email,
            "uri" => Self::Uri,
            "hexcolor" => Self::HexColor,
            "bsonobjectid" => Self::ObjectId,
            "ssn" => Self::Ssn,
            "k8s-short-name" => Self::ShortName,
            "k8s-long-name" => Self::LongName,
            _ => return None,
        };
        Some(format)
    }

    /// Whether a text has the format.
    pub(super) fn accepts(self, text: &str) -> bool {
        match self {
            Self::DateTime => is_date_time(text),
            Self::Date => is_date(text),
            Self::Duration => is_duration(text),
            Self::Byte => decode_base64(text).is_some(),
            Self::Uuid(version) => is_uuid(text, version),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Mac => is_mac(text),
            Self::Hostname => is_hostname(text),
            Self::Email => is_email(text),
            Self::Uri => is_uri(text),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && is_hex(digits)
            }
            Self::ObjectId => text.len() == 24 && is_hex(text),
            Self::Ssn => fits(&text.replace(['-', ' '], ""), "000000000"),
            Self::ShortName => text.len() <= 63 && is_dns_label(text),
            Self::LongName => text.len() <= 253 && text.split('.').all(is_dns_label),
        }
    }
}

/// Whether a text looks like a picture, in which `0` stands for a digit and everything else for itself.
fn fits(text: &str, picture: &str) -> bool {
    text.len() == picture.len()
        && text.bytes().zip(picture.bytes()).all(|(t, p)| if p == b'0' { t.is_ascii_digit() } else { t == p })
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_date(text: &str) -> bool {
    fits(text, "0000-00-00") && text.parse::<jiff::civil::Date>().is_ok()
}

/// RFC 3339, with the zone.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else {
        return false;
    };
    let Some((clock, rest)) = time.split_at_checked(8) else {
        return false;
    };
    let below = |at: usize, limit: u32| {
        clock.get(at..at + 2).and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n < limit)
    };
    if !is_date(date) || !fits(clock, "00:00:00") || !below(0, 24) || !below(3, 60) || !below(6, 61) {
        return false;
    }
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    matches!(zone, "Z" | "z") || zone.strip_prefix(['+', '-']).is_some_and(|offset| fits(offset, "00:00"))
}

/// `1h30m`, and the day and week forms the real server adds: `2 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 26] = [
        "ns",
        "nanosecond",
        "nanoseconds",
        "nano",
        "us",
        "µs",
        "μs",
        "microsecond",
        "microseconds",
        "micro",
        "ms",
        "millisecond",
        "milliseconds",
        "milli",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "minute",
        "minutes",
        "h",
        "hour",
        "hours",
    ];
    const LONG: [&str; 7] = ["d", "day", "days", "w", "week", "weeks", "hr"];
    measures(text, |unit| {
        let named = unit.trim();
        UNITS.contains(&named) || LONG.contains(&named)
    })
}

/// Whether a text is nothing but numbers with units, with a sign before it or none.
pub(super) fn measures(text: &str, is_unit: impl Fn(&str) -> bool) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    let numeric = |c: char| c.is_ascii_digit() || c == '.';
    while !rest.is_empty() {
        let after = rest.trim_start_matches(numeric);
        let number = rest.strip_suffix(after).unwrap_or_default();
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let (unit, next) = after.split_at(after.find(numeric).unwrap_or(after.len()));
        if !is_unit(unit) {
            return false;
        }
        rest = next;
    }
    true
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = match text.len() {
        32 => text.to_owned(),
        36 if [8, 13, 18, 23].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-')) => {
            text.replace('-', "")
        }
        _ => return false,
    };
    let version_fits = version.is_none_or(|v| digits.chars().nth(12) == Some(v));
    let variant_fits = !matches!(version, Some('4' | '5'))
        || matches!(digits.chars().nth(16), Some('8' | '9' | 'a' | 'b' | 'A' | 'B'));
    digits.len() == 32 && is_hex(&digits) && version_fits && variant_fits
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let max = if address.parse::<Ipv4Addr>().is_ok() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    let plain = bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    plain && bits.parse::<u32>().is_ok_and(|n| n <= max)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|p| p.len() == width && is_hex(p))
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    let text = text.strip_suffix('.').unwrap_or(text);
    text.len() <= 255 && text.split('.').all(label)
}

fn is_email(text: &str) -> bool {
    let address = text.rsplit_once('<').and_then(|(_, rest)| rest.strip_suffix('>')).unwrap_or(text);
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.contains("..")
            && !part.contains(|c: char| c.is_whitespace() || c.is_control() || "()<>[]:;@\\,\"".contains(c))
    };
    plain(local) && plain(domain)
}

/// An absolute URI or an absolute path, as in an HTTP request line.
fn is_uri(text: &str) -> bool {
    if text.contains(|c: char| c.is_control() || c == ' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && !rest.is_empty()
}

fn is_dns_label(label: &str) -> bool {
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|b| edge(b) || *b == b'-')
}

/// Standard base64 with padding; line breaks are skipped, as Go does.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut padding) = (0u32, 0u32, 0u32);
    for byte in text.bytes().filter(|b| !matches!(b, b'\r' | b'\n')) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        bits = (bits << 6) | u32::from(value);
        count += 1;
        if count.is_multiple_of(4) {
            out.extend_from_slice(bits.to_be_bytes().get(1..)?);
            bits = 0;
        }
    }
    match (count % 4, padding) {
        (0, 0) => {}
        (2, 2) => out.push(u8::try_from(bits >> 4).ok()?),
        (3, 1) => out.extend_from_slice((bits >> 2).to_be_bytes().get(2..)?),
        _ => return None,
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        for (format, good, bad) in [
            (
                "date-time",
                "2024-02-29T23:59:60Z|2024-01-01t00:00:00.123+02:00",
                "2024-02-30T00:00:00Z|2024-01-01|2024-01-01T00:00:00|2024-01-01T24:00:00Z|2024-01-01T00:00:00.Z|é",
            ),
            ("date", "2024-02-29", "2023-02-29|24-1-1|"),
            ("duration", "1h30m|0|-1.5h|2 days|1w|10ms", "1|h|1x|1.2.3s|"),
            ("byte", "|aGk=|aGkh|YQ==", "a|aGk|a=Gk|*"),
            (
                "uuid",
                "00000000-0000-4000-8000-000000000000|00000000000040008000000000000000",
                "0000|g0000000-0000-4000-8000-000000000000",
            ),
            (
                "uuid4",
                "00000000-0000-4000-8000-000000000000",
                "00000000-0000-3000-8000-000000000000|00000000-0000-4000-0000-000000000000",
            ),
            ("ipv4", "1.2.3.4", "1.2.3|::1|1.2.3.256"),
            ("ipv6", "::1|fe80::1", "1.2.3.4|:::"),
            ("cidr", "10.0.0.0/8|::/0", "10.0.0.0|10.0.0.0/33|10.0.0.0/08"),
            ("mac", "00:11:22:33:44:55|0011.2233.4455", "00:11|00:11:22:33:44:5g"),
            ("hostname", "a.example.com|a|a.b.", "-a.b|a..b|a_b"),
            ("email", "a@b.c|N <a@b>", "a|@b|a@|a b@c"),
            ("uri", "http://x/y|/a|urn:a", "a|http//x|http://a b"),
            ("hexcolor", "#fff|00ff00", "#ff|#ggg"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("ssn", "111-22-3333", "111"),
            ("k8s-short-name", "a-b", "A|-a|a.b"),
            ("k8s-long-name", "a.b-c", "A.b|a."),
        ] {
            let format = Format::parse(format).unwrap();
            for text in good.split('|') {
                assert!(format.accepts(text), "{format:?} accepts {text:?}");
            }
            for text in bad.split('|') {
                assert!(!format.accepts(text), "{format:?} refuses {text:?}");
            }
        }
        assert_eq!((Format::parse("quantity"), Format::parse("int32")), (None, None));
    }

    #[test]
    fn base64() {
        for (text, bytes) in
            [("", ""), ("YQ==", "a"), ("YWI=", "ab"), ("YWJj", "abc"), ("YWJj\nZA==", "abcd")]
        {
            assert_eq!(decode_base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
    }
}
