//! Time as people write and read it.

use std::time::Duration;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};

/// Now, by the clock of this machine.
pub(crate) fn now() -> Timestamp {
    trainyard_operator::system_clock()()
}

/// Reads `90`, `90s`, `5m`, `1h30m`.
pub(crate) fn duration(text: &str) -> anyhow::Result<Duration> {
    let wrong = || format!("{text:?} is no duration: write 90s, 5m or 1h30m");
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let parsed: SignedDuration = text.parse().with_context(wrong)?;
    Duration::try_from(parsed).with_context(wrong)
}

/// Reads a duration before now, or a moment.
pub(crate) fn since(text: &str) -> anyhow::Result<Timestamp> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let wrong = || format!("{text:?} is neither a duration (5m) nor a moment (2026-01-31T12:00:00Z)");
    let back = duration(text).with_context(wrong)?;
    now().checked_sub(back).with_context(wrong)
}

/// `5s`, `3m20s`, `4h`, `12d`: how long ago, as kubectl shows it. Clocks differ: the future is `0s`.
pub(crate) fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    let Some(then) = then else { return "<unknown>".into() };
    let seconds = now.duration_since(then).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |big: i64, unit: &str, small: i64, sub: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{sub}") }
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("0s", 0)] {
            assert_eq!(duration(text).unwrap(), Duration::from_secs(seconds), "{text}");
        }
        for text in ["", "soon", "-5m", "5 parsecs"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(since("2026-01-31T12:00:00Z").unwrap().to_string(), "2026-01-31T12:00:00Z");
        assert!(since("5m").unwrap() < now());
        assert!(since("yesterday").is_err());
    }

    #[test]
    fn ages_are_shown_as_kubectl_shows_them() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let cases = [
            (5, "5s"),
            (119, "119s"),
            (125, "2m5s"),
            (600, "10m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
        ];
        for (seconds, shown) in cases {
            assert_eq!(age(Some(at(0)), at(seconds)), shown);
        }
        assert_eq!(age(Some(at(10)), at(0)), "0s");
        assert_eq!(age(None, at(0)), "<unknown>");
    }
}
