//! Kubernetes quantities: `100m`, `1.5`, `2Gi`, `1e3`.
//!
//! Everything is kept in thousandths, the finest a scheduler counts in, and rounded away from zero as Kubernetes does,
//! so that a pod that asks for a little never counts as one that asks for nothing.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The largest amount Kubernetes knows; what is beyond is cut to it, as there.
const MAX_MILLIS: i128 = i64::MAX as i128 * 1000;
/// So many digits fit with every suffix into the arithmetic below; later ones do not change where a pod runs.
const DIGITS: usize = 20;

/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity: write a number with an optional suffix, for example 500m, 2 or 16Gi")]
pub struct QuantityError {
    /// What was written.
    pub text: String,
}

/// Thousandths of the unit: `parse_millis("2") == Ok(2000)`.
pub fn parse_millis(text: &str) -> Result<i128, QuantityError> {
    magnitude(text).ok_or_else(|| QuantityError { text: text.to_owned() })
}

/// Whole units, rounded up: bytes, GPUs, pods.
pub fn parse_units(text: &str) -> Result<i128, QuantityError> {
    parse_millis(text).map(units)
}

/// Thousandths as whole units, rounded away from zero.
pub fn units(millis: i128) -> i128 {
    div_away(millis, 1000)
}

/// `dividend / divisor`, rounded away from zero; a divisor of 0 counts as 1, as in the downward API.
pub fn div_away(dividend: i128, divisor: i128) -> i128 {
    let divisor = if divisor == 0 { 1 } else { divisor };
    let quotient = dividend.checked_div(divisor).unwrap_or(i128::MAX);
    match dividend.checked_rem(divisor) {
        Some(rest) if rest != 0 && (rest > 0) == (divisor > 0) => quotient.saturating_add(1),
        Some(rest) if rest != 0 => quotient.saturating_sub(1),
        _ => quotient,
    }
}

/// Canonical text of an amount in thousandths: `2`, `1500m`.
pub fn format_millis(millis: i128) -> String {
    if millis % 1000 == 0 { (millis / 1000).to_string() } else { format!("{millis}m") }
}

/// Canonical text of a number of bytes, with the largest binary suffix that keeps it exact: `2Gi`, `1500`.
pub fn format_bytes(bytes: i128) -> String {
    let suffixes = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let exact = suffixes.into_iter().find(|(_, bits)| bytes != 0 && bytes % (1_i128 << bits) == 0);
    match exact {
        Some((suffix, bits)) => format!("{}{suffix}", bytes >> bits),
        None => bytes.to_string(),
    }
}

/// As the API has it.
pub fn quantity(text: impl Into<String>) -> Quantity {
    Quantity(text.into())
}

fn magnitude(text: &str) -> Option<i128> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (factor, exponent) = scale(suffix)?;
    let digits = format!("{whole}{fraction}");
    let exponent = exponent.checked_add(3)?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let millis = scaled(digits.trim_start_matches('0'), factor, exponent);
    Some(if negative { -millis } else { millis })
}

/// A suffix as a factor and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i64)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => (1, i64::from(suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?)),
    })
}

/// `digits * factor * 10^exponent`, rounded up and cut to the largest amount there is.
fn scaled(digits: &str, factor: i128, exponent: i64) -> i128 {
    let (head, tail) = digits.split_at_checked(DIGITS).unwrap_or((digits, ""));
    let Ok(head) = head.parse::<i128>() else {
        return 0;
    };
    let product = head.saturating_mul(factor);
    let exponent = exponent.saturating_add(i64::try_from(tail.len()).unwrap_or(i64::MAX));
    let power = u32::try_from(exponent.unsigned_abs()).ok().and_then(|n| 10_i128.checked_pow(n));
    let millis = match power {
        Some(power) if exponent >= 0 => product.saturating_mul(power),
        Some(power) => div_away(product, power),
        None if exponent >= 0 => MAX_MILLIS,
        None => 1,
    };
    millis.min(MAX_MILLIS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_is_read() {
        let cases = [
            ("100m", 100),
            ("1.5", 1500),
            ("0.1", 100),
            (".5", 500),
            ("5.", 5000),
            ("+2", 2000),
            ("-2", -2000),
            ("1e3", 1_000_000),
            ("1E3", 1_000_000),
            ("1E", 1_000_000_000_000_000_000_000),
            ("12e-1", 1200),
            ("2Gi", (2 << 30) * 1000),
            ("1Ti", (1 << 40) * 1000),
            ("1.5Gi", (3 << 29) * 1000),
            ("128974848", 128_974_848_000),
            ("1k", 1_000_000),
            ("1n", 1),
            ("1u", 1),
            ("1500u", 2),
            ("0", 0),
            ("0Ei", 0),
            ("1e-2000000000", 1),
            ("1e2000000000", MAX_MILLIS),
            ("99999999999999999999999999999999999999999999999Ei", MAX_MILLIS),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_millis(text), Ok(millis), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_named() {
        for text in
            ["", "-", ".", "m", "1.2.3", "1 Gi", "1gi", "Gi", "1e", "1e1.5", "0x10", "--1", "1e99999999999"]
        {
            let error = parse_millis(text).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn amounts_are_written_as_kubernetes_writes_them() {
        assert_eq!(format_millis(2000), "2");
        assert_eq!(format_millis(1500), "1500m");
        assert_eq!(format_bytes(2 << 30), "2Gi");
        assert_eq!(format_bytes(3 << 29), "1536Mi");
        assert_eq!(format_bytes(1500), "1500");
        assert_eq!(format_bytes(0), "0");
    }

    #[test]
    fn division_goes_away_from_zero() {
        let cases = [(7, 2, 4), (-7, 2, -4), (7, -2, -4), (6, 2, 3), (5, 0, 5), (i128::MIN, -1, i128::MAX)];
        for (dividend, divisor, quotient) in cases {
            assert_eq!(div_away(dividend, divisor), quotient, "{dividend} / {divisor}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_is_written_is_read_again(millis in 0..10_i128.pow(20), bytes in 0..i128::from(i64::MAX)) {
            prop_assert_eq!(parse_millis(&format_millis(millis)), Ok(millis));
            prop_assert_eq!(parse_units(&format_bytes(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text in any::<String>(), number in "[-+]?[0-9]{0,50}\\.?[0-9]{0,50}([eE][-+]?[0-9]{0,12}|[numkMGTPE]?i?)") {
            let _ = parse_millis(&text);
            if let Ok(millis) = parse_millis(&number) {
                prop_assert!((-MAX_MILLIS..=MAX_MILLIS).contains(&millis));
            }
        }

        #[test]
        fn suffixes_keep_the_order(a in 0_u32..100_000, b in 0_u32..100_000, suffix in "(m|k|M|Ki|Mi|Gi)?") {
            let read = |n: u32| parse_millis(&format!("{n}{suffix}")).unwrap();
            prop_assert!(read(a.min(b)) <= read(a.max(b)));
        }
    }
}
