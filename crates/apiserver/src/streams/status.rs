//! What became of a command, in the words for the error channel.

use serde_json::{Value, json};

use super::StreamError;

/// How a command or an attachment ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ended well.
    Success,
    /// A command ended with another exit code than 0.
    Exit(i32),
    /// It could not be run, or joined.
    Failed(String),
}

impl Outcome {
    pub(crate) fn of_exec(result: Result<i32, StreamError>) -> Self {
        match result {
            Ok(0) => Self::Success,
            Ok(code) => Self::Exit(code),
            Err(StreamError(why)) => Self::Failed(format!("error executing command in container: {why}")),
        }
    }

    pub(crate) fn of_attach(result: Result<(), StreamError>) -> Self {
        match result {
            Ok(()) => Self::Success,
            Err(StreamError(why)) => Self::Failed(format!("error attaching to container: {why}")),
        }
    }

    /// As it arrives where a real server speaks version 5 with the client and version 4 with the kubelet: it passes on
    /// what it hears as an error of its own.
    pub(crate) fn translated(self) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("Internal error occurred: {why}")),
            other => other,
        }
    }

    /// For protocols from version 4 on: a `Status`.
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Success => json!({"metadata": {}, "status": "Success"}),
            Self::Exit(code) => json!({
                "metadata": {}, "status": "Failure", "message": self.message(), "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Self::Failed(_) => json!({
                "metadata": {}, "status": "Failure", "message": self.message(), "reason": "InternalError",
                "code": 500,
            }),
        }
    }

    /// For older protocols: the message of a failure, nothing for a success.
    pub(crate) fn text(&self) -> Option<String> {
        (*self != Self::Success).then(|| self.message())
    }

    fn message(&self) -> String {
        match self {
            Self::Success => String::new(),
            Self::Exit(code) => {
                format!(
                    "command terminated with non-zero exit code: command terminated with exit code {code}"
                )
            }
            Self::Failed(why) => format!("Internal error occurred: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_has_its_words() {
        let exit = Outcome::of_exec(Ok(3)).json();
        assert_eq!(exit["reason"], "NonZeroExitCode");
        assert_eq!(exit["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
        assert_eq!(Outcome::of_exec(Ok(0)).json(), json!({"metadata": {}, "status": "Success"}));
        assert_eq!(Outcome::of_exec(Ok(0)).text(), None);
        let failed = Outcome::of_exec(Err(StreamError("no".into())));
        assert_eq!(
            failed.text().unwrap(),
            "Internal error occurred: error executing command in container: no"
        );
        assert_eq!(failed.json()["code"], 500);
        let failed = Outcome::of_attach(Err(StreamError("no".into())));
        assert_eq!(failed.json()["message"], "Internal error occurred: error attaching to container: no");
        let message = failed.translated().json()["message"].clone();
        assert_eq!(
            message,
            "Internal error occurred: Internal error occurred: error attaching to container: no"
        );
        assert_eq!(Outcome::Exit(3).translated(), Outcome::Exit(3));
    }
}
