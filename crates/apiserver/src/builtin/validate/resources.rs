//! Amounts of resources: which there are, how much, and that nobody asks for more than the limit.

use serde_json::Value;

use super::errors::{Errors, Path, get, members};
use crate::object::names;

/// A quantity in billionths; as much as there can be when it is more.
pub(crate) fn amount(quantity: &str) -> Option<i128> {
    const SUFFIXES: [(&str, i128); 16] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("Ei", 1 << 60),
        ("n", 0),
        ("u", 0),
        ("m", 0),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("E", 1_000_000_000_000_000_000),
        ("", 1),
    ];
    const NANO: i128 = 1_000_000_000;
    let (mantissa, exponent) = match quantity.find(['e', 'E']) {
        Some(at) if quantity.get(at + 1..).is_some_and(|rest| rest.parse::<i32>().is_ok()) => {
            let (mantissa, rest) = quantity.split_at_checked(at)?;
            (mantissa, rest.get(1..)?.parse::<i32>().ok()?)
        }
        _ => (quantity, 0),
    };
    let (digits, unit) = SUFFIXES.iter().find_map(|(suffix, unit)| {
        let digits = mantissa.strip_suffix(suffix)?;
        let unit = match *suffix {
            "n" => 1,
            "u" => 1_000,
            "m" => 1_000_000,
            _ => unit.saturating_mul(NANO),
        };
        Some((digits, unit))
    })?;
    let negative = digits.starts_with('-');
    let (whole, fraction) = digits
        .trim_start_matches(['+', '-'])
        .split_once('.')
        .unwrap_or((digits.trim_start_matches(['+', '-']), ""));
    let parse = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
    let places = u32::try_from(fraction.len()).ok()?.min(30);
    let part = parse(fraction.get(..fraction.len().min(30))?)?.saturating_mul(unit) / 10_i128.pow(places);
    let mut total = parse(whole)?.saturating_mul(unit).saturating_add(part);
    let power = 10_i128.checked_pow(exponent.unsigned_abs().min(30))?;
    total = if exponent >= 0 { total.saturating_mul(power) } else { total / power };
    Some(if negative { -total } else { total })
}

/// The text of a quantity, whatever it was written as.
pub(super) fn spelled(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether more may be promised than there is.
fn is_elastic(name: &str) -> bool {
    is_native(name) && !is_huge(name)
}

/// `resources` of a container.
pub(super) fn requirements(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (limits, requests) = (path.field("limits"), path.field("requests"));
    for (name, value) in members(resources, "limits") {
        resource(name, value, &limits.key(name), errors);
    }
    for (name, value) in members(resources, "requests") {
        resource(name, value, &requests.key(name), errors);
        let asked = spelled(value);
        let Some(limit) = get(resources, "limits").and_then(|limits| get(limits, name)).map(spelled) else {
            if !is_elastic(name) {
                errors.required(&limits, "Limit must be set for non overcommitable resources");
            }
            continue;
        };
        match (amount(&asked), amount(&limit)) {
            (Some(asked_for), Some(most)) if asked_for != most && !is_elastic(name) => {
                errors.invalid(&requests, asked, &format!("must be equal to {name} limit of {limit}"));
            }
            (Some(asked_for), Some(most)) if asked_for > most => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(&requests, asked, &why);
            }
            _ => {}
        }
    }
    let has = |test: fn(&str) -> bool| {
        members(resources, "limits").chain(members(resources, "requests")).any(|(name, _)| test(name))
    };
    if has(is_huge) && !has(|name| ["cpu", "memory"].contains(&name)) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn resource(name: &str, value: &Value, path: &Path<'_>, errors: &mut Errors) {
    container_resource_name(name, path, errors);
    quantity(name, &spelled(value), path, errors);
}

fn container_resource_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
    errors.all(path, name, &names::check_key(name));
    let known = STANDARD.contains(&name) || is_huge(name);
    if !name.contains('/') {
        if !known {
            errors.invalid(path, name, "must be a standard resource type or fully qualified");
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && name.starts_with("requests.") {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// An amount is not negative, and whole where it cannot be divided.
pub(super) fn quantity(name: &str, text: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(amount) = amount(text) else { return };
    if amount < 0 {
        errors.invalid(path, text, "must be greater than or equal to 0");
    }
    let whole = amount % 1_000_000_000 == 0;
    if !is_native(name) && !whole {
        errors.invalid(path, text, "must be an integer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_comparable() {
        for (text, expected) in [
            ("1", 1_000_000_000),
            ("500m", 500_000_000),
            ("0.5", 500_000_000),
            ("-1", -1_000_000_000),
            ("1Ki", 1_024_000_000_000),
            ("1k", 1_000_000_000_000),
            ("1e3", 1_000_000_000_000),
            ("1E", 1_000_000_000_000_000_000_000_000_000),
            ("2n", 2),
        ] {
            assert_eq!(amount(text), Some(expected), "{text}");
        }
        assert_eq!(amount("1.5Gi"), Some(1_610_612_736_000_000_000));
        assert_eq!(amount("x"), None);
    }
}
