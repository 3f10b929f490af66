//! Kubernetes quantities, as far as metrics use them.

/// Units and what they multiply by.
const UNITS: &[(&str, f64)] = &[
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
];

/// The number a quantity is; nothing if it is none.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, factor) = unit.map_or((text, 1.0), |(unit, factor)| (text.trim_end_matches(unit), *factor));
    digits.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number * factor)
}

/// `250m`: cores in thousandths.
pub(crate) fn cores(number: f64) -> String {
    format!("{:.0}m", (number * 1e3).ceil())
}

/// `512Mi`.
pub(crate) fn memory(bytes: f64) -> String {
    format!("{:.0}Mi", bytes / 1_048_576.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_metrics() {
        let shown = |text: &str| (parse(text).map(cores), parse(text).map(memory));
        assert_eq!(shown("250m").0.unwrap(), "250m");
        assert_eq!(shown("123456789n").0.unwrap(), "124m");
        assert_eq!(shown("2").0.unwrap(), "2000m");
        assert_eq!(shown("2048Ki").1.unwrap(), "2Mi");
        assert_eq!(shown("1Gi").1.unwrap(), "1024Mi");
        assert_eq!(parse("many"), None);
        assert_eq!(parse("NaN"), None);
    }
}
