//! Quantities (`500m`, `1Gi`) in the one form a real server answers with.

/// Why a text is no quantity, in the words of a real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoQuantity {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Decimal,
    Exponent,
    Binary,
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Digits that are calculated with. A longer number is left as it was written.
const MAX_DIGITS: usize = 24;
/// The smallest amount is a billionth.
const NANO: i32 = -9;

/// The parts of a quantity as it was written.
struct Parts<'a> {
    negative: bool,
    /// Before the point, without leading zeros; after it; behind the number.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, NoQuantity> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let rest = rest.trim_start_matches('0');
    let (whole, mut rest) = rest.split_at_checked(digits(rest)).unwrap_or((rest, ""));
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        (fraction, rest) = after.split_at_checked(digits(after)).unwrap_or((after, ""));
    }
    let exponent = rest.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if digits(exponent) != exponent.len() || text.is_empty() {
        return Err(NoQuantity::Format);
    }
    Ok(Parts { negative, whole, fraction, suffix: rest })
}

/// The power of ten or of two that a suffix stands for.
fn interpret(suffix: &str) -> Result<(Form, i32), NoQuantity> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Ok((Form::Decimal, *exponent));
    }
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Ok((Form::Binary, i32::try_from(at * 10).unwrap_or_default()));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|digits| digits.parse().ok());
    exponent.map(|exponent: i32| (Form::Exponent, exponent)).ok_or(NoQuantity::Suffix)
}

/// The form in which a quantity is stored and answered.
pub(crate) fn canonical(text: &str) -> Result<String, NoQuantity> {
    let Parts { negative, whole, fraction, suffix } = split(text)?;
    let (form, exponent) = interpret(suffix)?;
    let digits = format!("{}{fraction}", if whole.is_empty() { "0" } else { whole });
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    if digits.len() > MAX_DIGITS || exponent.unsigned_abs() > 60 {
        return Ok(text.to_owned());
    }
    let mantissa: i128 = digits.parse().map_err(|_| NoQuantity::Format)?;
    // What already looks right is taken as it is, even where it could be shorter.
    let right = match form {
        Form::Binary => exponent % 10 == 0 && places == 0 && digits.len() < 13 && mantissa & 7 != 0,
        Form::Decimal | Form::Exponent => {
            let scale = exponent - places;
            scale % 3 == 0 && scale >= NANO && !digits.ends_with("000") && !digits.starts_with('0')
        }
    };
    if right && digits.len() <= 18 {
        return Ok(text.to_owned());
    }
    let sign = if negative { "-" } else { "" };
    Ok(match written(mantissa, form, exponent, places) {
        zero if zero == "0" => zero,
        amount => format!("{sign}{amount}"),
    })
}

/// `mantissa` × 10^-places × (10 or 2)^exponent.
fn written(mantissa: i128, form: Form, exponent: i32, places: i32) -> String {
    if form != Form::Binary {
        return decimal(mantissa, exponent - places, form);
    }
    let factor = 1_i128 << exponent;
    let unit = 10_i128.pow(places.unsigned_abs().min(30));
    let most = i128::from(i64::MAX).saturating_mul(unit);
    let amount = mantissa.checked_mul(factor).unwrap_or(most).min(most);
    if amount < unit.saturating_mul(1024) || amount % unit != 0 {
        return decimal(amount, -places, Form::Decimal);
    }
    let mut amount = amount / unit;
    let mut step = 0;
    while amount >= 1024 && amount % 1024 == 0 {
        amount /= 1024;
        step += 1;
    }
    format!("{amount}{}", BINARY.get(step).unwrap_or(&""))
}

/// With an exponent that is a multiple of three, as large as possible.
fn decimal(mut amount: i128, mut scale: i32, form: Form) -> String {
    if amount == 0 {
        return "0".to_owned();
    }
    while scale < NANO {
        // Rounded up: who asks for something gets something.
        amount = amount / 10 + i128::from(amount % 10 != 0);
        scale += 1;
    }
    while amount >= 10 && amount % 10 == 0 {
        amount /= 10;
        scale += 1;
    }
    while scale % 3 != 0 {
        amount = amount.saturating_mul(10);
        scale -= 1;
    }
    match form {
        Form::Exponent if scale != 0 => format!("{amount}e{scale}"),
        Form::Exponent => amount.to_string(),
        Form::Decimal | Form::Binary => {
            let suffix = DECIMAL.iter().find(|(_, exponent)| *exponent == scale);
            format!("{amount}{}", suffix.map_or("", |(suffix, _)| suffix))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_form() {
        // What a real server made of each.
        for (given, expected) in [
            ("0", "0"),
            ("00", "0"),
            ("0.0", "0"),
            ("0m", "0"),
            ("0Gi", "0"),
            ("-0", "0"),
            ("1000m", "1"),
            ("1", "1"),
            ("1.0", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.5", "1500m"),
            ("1500m", "1500m"),
            ("100", "100"),
            ("1000", "1k"),
            ("2000000", "2M"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1024Mi", "1Gi"),
            ("512Mi", "512Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("1Ki", "1Ki"),
            ("8Ki", "8Ki"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("100e1", "1e3"),
            ("12e6", "12e6"),
            ("1e-1", "100e-3"),
            ("-1.5", "-1500m"),
            ("0.0000000001", "1n"),
            ("100u", "100u"),
            ("0.1m", "100u"),
            ("2.5E", "2500P"),
            ("9223372036854775807", "9223372036854775807"),
            ("16Ei", "9223372036854775807"),
            ("1.25", "1250m"),
            ("1.500", "1.500"),
            ("+5Gi", "+5Gi"),
            ("1.1Ki", "1126400m"),
            ("1e5", "100e3"),
            ("-", "0"),
            ("123456789012345Ki", "123456789012345Ki"),
        ] {
            assert_eq!(canonical(given).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_said() {
        for (given, why) in [
            ("", NoQuantity::Format),
            ("abc", NoQuantity::Format),
            ("1 Gi", NoQuantity::Format),
            ("1Gi ", NoQuantity::Format),
            ("true", NoQuantity::Format),
            ("1KiB", NoQuantity::Format),
            ("1mm", NoQuantity::Suffix),
            ("1K", NoQuantity::Suffix),
            ("1.2.3", NoQuantity::Format),
            ("--1", NoQuantity::Suffix),
            ("1e", NoQuantity::Suffix),
        ] {
            assert_eq!(canonical(given), Err(why), "{given}");
        }
    }
}
