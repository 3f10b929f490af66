//! Flags about the log, named as those of the training-operator.

/// The log of the operator.
#[derive(clap::Args)]
pub(super) struct Logging {
    /// How much is said: debug, info, error, or a number; `RUST_LOG` says it in more detail.
    #[arg(long, default_value = "info", value_name = "LEVEL", value_parser = level)]
    zap_log_level: &'static str,
    /// In which form: console or json.
    #[arg(long, default_value = "console", value_name = "FORM", value_parser = ["console", "json"])]
    zap_encoder: String,
    /// As `--zap-log-level debug`.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true",
          action = clap::ArgAction::Set, value_name = "BOOL")]
    zap_devel: bool,
    /// Accepted, without effect: errors say what caused them.
    #[arg(long, hide = true)]
    zap_stacktrace_level: Option<String>,
    /// Accepted, without effect: times are as in RFC 3339.
    #[arg(long, hide = true)]
    zap_time_encoding: Option<String>,
}

impl Logging {
    pub(super) fn start(&self) {
        let level = if self.zap_devel { "debug" } else { self.zap_log_level };
        crate::log_to_stderr(level, self.zap_encoder == "json");
    }
}

fn level(text: &str) -> Result<&'static str, String> {
    match text {
        "debug" => Ok("debug"),
        "info" | "0" => Ok("info"),
        "error" | "panic" => Ok("error"),
        number if number.parse::<u8>().is_ok() => Ok("debug"),
        _ => Err("write debug, info, error or a number above 0".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_the_training_operator() {
        let said = ["debug", "info", "error", "0", "5"].map(|text| level(text).unwrap());
        assert_eq!(said, ["debug", "info", "error", "info", "debug"]);
        assert!(level("loud").is_err() && level("-1").is_err());
    }
}
