//! Times as the API writes and reads them.

use jiff::Timestamp;

/// A moment in the form a real server answers with: whole seconds, or always six digits of a fraction.
pub(crate) fn written(moment: Timestamp, micro: bool) -> String {
    let moment = moment
        .round(
            jiff::TimestampRound::new()
                .smallest(if micro { jiff::Unit::Microsecond } else { jiff::Unit::Second })
                .mode(jiff::RoundMode::Floor),
        )
        .unwrap_or(moment);
    let form = if micro { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    moment.strftime(form).to_string()
}
