//! One CEL expression over whole objects that is true or false: the `matchConditions` of webhooks.

use serde_json::Value;

use super::celcost::{self, Budget};
use super::celeval::{FUNCTIONS, TOO_EXPENSIVE, run, type_text};
use super::celparse::Expression;
use super::celsize::Size;
use super::celvalue::raw;
use kube_cel::cel::Value as Cel;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Condition {
    text: String,
    expression: Expression,
}

impl Condition {
    /// Compiles an expression; the error is for people.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let expression = Expression::parse(text)
            .map_err(|error| format!("expression '{text}' resulted in error: compilation failed: {error}"))?;
        Ok(Self { text: text.to_owned(), expression })
    }

    /// Whether it holds for these values.
    pub(crate) fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, String> {
        let mut context = FUNCTIONS.new_inner_scope();
        for (name, value) in variables {
            context.add_variable_from_value(*name, raw(value));
        }
        let failed = |why: &str| format!("expression '{}' resulted in error: {why}", self.text);
        let sizes = variables.iter().map(|(name, value)| (*name, Size::of(value))).collect();
        let cost = celcost::of(&self.expression.expr, sizes);
        Budget::default().spend(cost).map_err(|_| failed(TOO_EXPENSIVE))?;
        match run(&self.expression, &context).map_err(|error| failed(&error))? {
            Cel::Bool(held) => Ok(held),
            other => Err(failed(&format!("it must evaluate to a bool, not {}", type_text(&other)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_see_the_object_the_old_one_and_the_request() {
        let (object, request) =
            (json!({"metadata": {"labels": {"a": "b"}}}), json!({"userInfo": {"username": "me"}}));
        let holds = |text: &str| {
            let variables = [("object", &object), ("oldObject", &Value::Null), ("request", &request)];
            Condition::compile(text).and_then(|condition| condition.holds(&variables))
        };
        assert_eq!(holds("object.metadata.labels['a'] == 'b' && oldObject == null"), Ok(true));
        assert_eq!(holds("request.userInfo.username.startsWith('you')"), Ok(false));
        assert_eq!(holds("!has(object.metadata.name)"), Ok(true));
        let error = "expression 'object.spec.x == 1' resulted in error: no such key: spec";
        assert_eq!(holds("object.spec.x == 1"), Err(error.to_owned()));
        assert!(holds("1 + 1").unwrap_err().contains("bool"));
        assert!(holds("object.(").is_err());
    }
}
