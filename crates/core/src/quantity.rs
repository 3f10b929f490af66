//! Amounts of resources as Kubernetes writes them: `500m`, `2Gi`, `1e3`. Added up for gangs, and compared.

use serde_json::Value;

/// An amount, in thousand-millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quantity {
    nano: i128,
    /// Written with `Ki`, `Mi` and so on.
    binary: bool,
}

const NANO: i128 = 1_000_000_000;
const DECIMAL: &[(&str, i128)] = &[
    ("E", 1_000_000_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1_000),
];
const BINARY: &[(&str, i128)] =
    &[("Ei", 1 << 60), ("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
const FRACTIONS: &[(&str, i128)] = &[("m", 1_000), ("u", 1_000_000), ("n", NANO)];

impl Quantity {
    /// Reads a text; nothing if it is no amount, or one that nobody has.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+'));
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let nano = decimal(number)?;
        if let Some((_, factor)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            return Some(Self { nano: nano.checked_mul(*factor)?, binary: true });
        }
        let nano = match suffix {
            "" => nano,
            _ => scaled(nano, suffix)?,
        };
        Some(Self { nano, binary: false })
    }

    /// The sum, written like the first of the two that is something.
    pub(crate) fn plus(self, other: Self) -> Self {
        let binary = if self.nano == 0 { other.binary } else { self.binary };
        Self { nano: self.nano.saturating_add(other.nano), binary }
    }

    /// So many of it.
    pub(crate) fn times(self, count: u32) -> Self {
        Self { nano: self.nano.saturating_mul(i128::from(count)), ..self }
    }

    /// The shortest way to write it.
    pub(crate) fn render(self) -> String {
        let units = if self.binary && self.nano.abs() >= 1024 * NANO { BINARY } else { DECIMAL };
        let whole = units.iter().find(|(_, factor)| self.nano != 0 && self.nano % (factor * NANO) == 0);
        if let Some((suffix, factor)) = whole {
            return format!("{}{suffix}", self.nano / (factor * NANO));
        }
        if self.nano % NANO == 0 {
            return (self.nano / NANO).to_string();
        }
        let part = FRACTIONS.iter().find(|(_, parts)| self.nano % (NANO / parts) == 0);
        let (suffix, parts) = part.copied().unwrap_or(("n", NANO));
        format!("{}{suffix}", self.nano / (NANO / parts))
    }
}

/// A number with at most nine digits behind the point, in thousand-millionths. More digits are rounded up, as
/// Kubernetes does.
fn decimal(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(fraction) || (whole.is_empty() && fraction.is_empty()) || whole.len() > 19 {
        return None;
    }
    let kept: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    let rest = fraction.chars().skip(9).any(|digit| digit != '0');
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nano = whole.checked_mul(NANO)?.checked_add(kept.parse().ok()?)?.checked_add(i128::from(rest))?;
    Some(if negative { -nano } else { nano })
}

fn scaled(nano: i128, suffix: &str) -> Option<i128> {
    if let Some((_, factor)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return nano.checked_mul(*factor);
    }
    if let Some((_, parts)) = FRACTIONS.iter().find(|(name, _)| *name == suffix) {
        return Some(nano / parts);
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let factor = 10_i128.checked_pow(exponent.unsigned_abs())?;
    if exponent < 0 { Some(nano / factor) } else { nano.checked_mul(factor) }
}

/// Whether two values are one amount, however it is written.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    matches!((read(a), read(b)), (Some(a), Some(b)) if a.nano == b.nano)
}

/// An amount in JSON: a text, or a number.
pub(crate) fn read(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_the_short_way() {
        for (text, shown) in [
            ("1", "1"),
            ("0", "0"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1e3", "1k"),
            ("2000", "2k"),
            ("1Gi", "1Gi"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("512", "512"),
            ("100n", "100n"),
            ("1E", "1E"),
            ("-5", "-5"),
            ("1e-3", "1m"),
            (".5", "500m"),
            ("5.", "5"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().render(), shown, "{text}");
        }
        for wrong in ["", "x", "1x", "1 Gi", "--1", "1.2.3", "1e", "1e99", "99999999999999999999", "-", "."] {
            assert!(Quantity::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn sums_keep_the_way_of_the_first() {
        let sum = |texts: &[&str]| {
            let parts = texts.iter().map(|text| Quantity::parse(text).unwrap());
            parts.fold(Quantity::default(), Quantity::plus).render()
        };
        assert_eq!(sum(&["500m", "1", "1500m"]), "3");
        assert_eq!(sum(&["1Gi", "1Gi"]), "2Gi");
        assert_eq!(sum(&["1Gi", "1M"]), "1074741824");
        assert_eq!(sum(&[]), "0");
    }
}
