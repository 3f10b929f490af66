//! Points in time in a query, and what is wrong with them: in the words of Go, which clients pass on to people.

use jiff::Timestamp;
use jiff::civil::Date;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// Reads a time as RFC 3339 writes it.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    Walk { text, rest: text }.time()
}

struct Walk<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Walk<'_> {
    fn time(mut self) -> Result<Timestamp, String> {
        let year = self.number("2006", 4)?;
        self.literal("-")?;
        let month = self.number("01", 2)?;
        self.within(month, 1..=12, "month")?;
        self.literal("-")?;
        let day = self.number("02", 2)?;
        self.literal("T")?;
        for (element, separator, limit, name) in
            [("15", ":", 23, "hour"), ("04", ":", 59, "minute"), ("05", "", 59, "second")]
        {
            let found = self.number(element, 2)?;
            self.within(found, 0..=limit, name)?;
            self.literal(separator)?;
        }
        self.fraction();
        self.zone()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {:?}: extra text: {:?}", self.text, self.rest));
        }
        let (year, month) = (i16::try_from(year), i8::try_from(month));
        let days = year.ok().zip(month.ok()).and_then(|(year, month)| Date::new(year, month, 1).ok());
        self.within(day, 1..=days.map_or(31, |date| u32::from(date.days_in_month().unsigned_abs())), "day")?;
        self.text.parse().map_err(|_| format!("parsing time {:?}: out of range", self.text))
    }

    fn cannot(&self, element: &str) -> String {
        format!("parsing time {:?} as {LAYOUT:?}: cannot parse {:?} as {element:?}", self.text, self.rest)
    }

    fn number(&mut self, element: &str, digits: usize) -> Result<u32, String> {
        let (number, rest) = self.rest.split_at_checked(digits).ok_or_else(|| self.cannot(element))?;
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.cannot(element));
        }
        let number = number.parse().map_err(|_| self.cannot(element))?;
        self.rest = rest;
        Ok(number)
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(text).ok_or_else(|| self.cannot(text))?;
        Ok(())
    }

    fn within(&self, number: u32, range: std::ops::RangeInclusive<u32>, name: &str) -> Result<(), String> {
        match range.contains(&number) {
            true => Ok(()),
            false => Err(format!("parsing time {:?}: {name} out of range", self.text)),
        }
    }

    /// Seconds may go on behind a point.
    fn fraction(&mut self) {
        if let Some(digits) = self.rest.strip_prefix('.') {
            let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
            if rest.len() < digits.len() {
                self.rest = rest;
            }
        }
    }

    fn zone(&mut self) -> Result<(), String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(());
        }
        let wrong = self.cannot("Z07:00");
        let (zone, rest) = self.rest.split_at_checked(6).ok_or_else(|| wrong.clone())?;
        let two = |text: Option<&str>, limit: u32| {
            text.and_then(|text| text.parse::<u32>().ok()).is_some_and(|n| n <= limit)
        };
        let signed = zone.starts_with(['+', '-']) && zone.get(3..4) == Some(":");
        if !signed || !two(zone.get(1..3), 24) || !two(zone.get(4..6), 60) {
            return Err(wrong);
        }
        self.rest = rest;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read() {
        for (text, wanted) in [
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
            ("2026-01-01T00:00:00.25Z", "2026-01-01T00:00:00.25Z"),
            ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), wanted);
        }
    }

    #[test]
    fn what_is_wrong_is_said_as_go_says_it() {
        let cannot = |text: &str, rest: &str, element: &str| {
            format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {rest:?} as {element:?}")
        };
        for (text, message) in [
            ("x", cannot("x", "x", "2006")),
            ("2026-01-01", cannot("2026-01-01", "", "T")),
            ("2026-01-01T00:00:00", cannot("2026-01-01T00:00:00", "", "Z07:00")),
            ("2026-01-01T00:00:00+1", cannot("2026-01-01T00:00:00+1", "+1", "Z07:00")),
            ("2026-13-01T00:00:00Z", "parsing time \"2026-13-01T00:00:00Z\": month out of range".into()),
            ("2026-02-30T00:00:00Z", "parsing time \"2026-02-30T00:00:00Z\": day out of range".into()),
            ("2026-01-01T25:00:00Z", "parsing time \"2026-01-01T25:00:00Z\": hour out of range".into()),
            ("2026-01-01T00:00:00Zx", "parsing time \"2026-01-01T00:00:00Zx\": extra text: \"x\"".into()),
        ] {
            assert_eq!(parse(text), Err(message));
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC{0,40}", digits in "[0-9T:.Z+-]{0,40}") {
            let _ = (parse(&text), parse(&digits));
        }
    }
}
