//! Times in the words of Go's parser: what it takes, and how it says what it does not.

use jiff::Timestamp;
use jiff::tz::Offset;

use crate::types::time;

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Go's idea of no time at all.
const UNSET: &str = "0001-01-01T00:00:00Z";

/// Reads a time and writes it in the one form there is; nothing for one that means "not set".
pub(crate) fn canonical(text: &str, micro: bool) -> Result<Option<String>, String> {
    let mut reader = Reader { text, rest: text, layout: if micro { MICROS } else { SECONDS } };
    let moment = reader.moment(micro)?;
    Ok((moment.to_string() != UNSET).then(|| time::written(moment, micro)))
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn fail(&self, rest: &str, element: &str) -> String {
        let Self { text, layout, .. } = self;
        format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}")
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {:?}: {what} out of range", self.text)
    }

    /// A number of a fixed number of digits.
    fn digits(&mut self, count: usize, element: &str) -> Result<i64, String> {
        let head = self.rest.get(..count).filter(|head| head.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(head) = head else {
            return Err(self.fail(self.rest, element));
        };
        self.rest = self.rest.get(count..).unwrap_or_default();
        head.parse().map_err(|_| self.fail(self.rest, element))
    }

    fn literal(&mut self, letter: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(letter).ok_or_else(|| self.fail(self.rest, letter))?;
        Ok(())
    }

    fn field(&mut self, element: &'static str, range: (i64, i64), what: &str) -> Result<i64, String> {
        let number = self.digits(2, element)?;
        if number < range.0 || number > range.1 {
            return Err(self.out_of_range(what));
        }
        Ok(number)
    }

    fn moment(&mut self, micro: bool) -> Result<Timestamp, String> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.field("01", (1, 12), "month")?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        let hour = self.field("15", (0, 23), "hour")?;
        self.literal(":")?;
        let minute = self.field("04", (0, 59), "minute")?;
        self.literal(":")?;
        let second = self.field("05", (0, 59), "second")?;
        let nanos = self.fraction(micro)?;
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {:?}: extra text: {:?}", self.text, self.rest));
        }
        let small = |number: i64| i8::try_from(number).unwrap_or_default();
        let year = i16::try_from(year).unwrap_or_default();
        let moment = jiff::civil::Date::new(year, small(month), small(day))
            .map_err(|_| self.out_of_range("day"))?
            .at(small(hour), small(minute), small(second), nanos);
        // What no calendar has, such as year 0 in an early zone, is as good as unset.
        Ok(offset.to_timestamp(moment).unwrap_or_else(|_| UNSET.parse().unwrap_or(Timestamp::UNIX_EPOCH)))
    }

    /// A fraction of a second: exactly six digits, or any number of them where only seconds count.
    fn fraction(&mut self, micro: bool) -> Result<i32, String> {
        let Some(after) = self.rest.strip_prefix(['.', ',']) else {
            return if micro { Err(self.fail(self.rest, ".000000")) } else { Ok(0) };
        };
        let count = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        if count == 0 || (micro && count < 6) {
            let element = if micro { ".000000" } else { "Z07:00" };
            return Err(self.fail(self.rest, element));
        }
        let count = if micro { 6 } else { count };
        let digits: String = after.get(..count.min(9)).unwrap_or_default().to_owned();
        self.rest = after.get(count..).unwrap_or_default();
        let scale = 10_i32.pow(u32::try_from(9_usize.saturating_sub(digits.len())).unwrap_or_default());
        Ok(digits.parse::<i32>().unwrap_or_default().saturating_mul(scale))
    }

    fn offset(&mut self) -> Result<Offset, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(Offset::UTC);
        }
        let whole = self.rest;
        let sign = match whole.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.fail(whole, "Z07:00")),
        };
        let number = |range: std::ops::Range<usize>| {
            whole
                .get(range)
                .filter(|n| n.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|n| n.parse::<i32>().ok())
        };
        let (Some(hours), Some(":"), Some(minutes)) = (number(1..3), whole.get(3..4), number(4..6)) else {
            return Err(self.fail(whole, "Z07:00"));
        };
        if hours > 24 || minutes > 60 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        self.rest = whole.get(6..).unwrap_or_default();
        Ok(Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).unwrap_or(Offset::UTC))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_form() {
        for (text, micro, expected) in [
            ("2024-02-29T12:30:00Z", false, "2024-02-29T12:30:00Z"),
            ("2024-02-29T12:30:00.999Z", false, "2024-02-29T12:30:00Z"),
            ("2024-02-29T12:30:00+02:00", false, "2024-02-29T10:30:00Z"),
            ("1969-12-31T23:59:59.5Z", false, "1969-12-31T23:59:59Z"),
            ("2024-02-29T12:30:00.000001Z", true, "2024-02-29T12:30:00.000001Z"),
            ("2024-02-29T12:30:00.500000-01:30", true, "2024-02-29T14:00:00.500000Z"),
        ] {
            assert_eq!(canonical(text, micro), Ok(Some(expected.to_owned())), "{text}");
        }
    }

    #[test]
    fn the_zero_time_is_no_time() {
        assert_eq!(canonical("0001-01-01T00:00:00Z", false), Ok(None));
    }

    #[test]
    fn what_is_no_time_is_said_as_go_says_it() {
        let layout = "2006-01-02T15:04:05Z07:00";
        for (text, why) in [
            ("x", format!(" as {layout:?}: cannot parse \"x\" as \"2006\"")),
            ("", format!(" as {layout:?}: cannot parse \"\" as \"2006\"")),
            ("2024-02-29", format!(" as {layout:?}: cannot parse \"\" as \"T\"")),
            ("2024-02-29 12:00:00Z", format!(" as {layout:?}: cannot parse \" 12:00:00Z\" as \"T\"")),
            ("2024-13-01T00:00:00Z", ": month out of range".into()),
            ("2023-02-29T00:00:00Z", ": day out of range".into()),
            ("2024-02-29T25:00:00Z", ": hour out of range".into()),
            ("2024-02-29T12:00:00", format!(" as {layout:?}: cannot parse \"\" as \"Z07:00\"")),
            ("2024-02-29T12:00:00Zx", ": extra text: \"x\"".into()),
        ] {
            assert_eq!(canonical(text, false), Err(format!("parsing time {text:?}{why}")));
        }
        assert!(
            canonical("2024-02-29T12:30:00Z", true)
                .unwrap_err()
                .ends_with("cannot parse \"Z\" as \".000000\"")
        );
    }
}
