//! Label selectors, from their query string and from their object form.

use std::fmt;

use serde_json::{Map, Value};

use super::SelectorError;
use super::lexer::{Lexer, Token};
use super::syntax::{check_key, check_value};

/// A conjunction of requirements on labels. The default has none and matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

/// What is asked of one label. Sets are small, so a sorted vector is the fastest set.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Reads the query string form, for example `app in (a, b),!canary,tier!=web`.
    ///
    /// # Errors
    /// When the text is no selector, in the words of the real server.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut lexer = Lexer::new(text);
        let mut requirements = Vec::new();
        loop {
            match lexer.peek() {
                Token::Word(_) | Token::In | Token::NotIn | Token::Not => {
                    let requirement = parse_requirement(&mut lexer)
                        .map_err(|e| SelectorError::new(format!("unable to parse requirement: {e}")))?;
                    requirements.push(requirement);
                    match lexer.next() {
                        Token::End => break,
                        Token::Comma => match lexer.peek() {
                            Token::Word(_) | Token::In | Token::NotIn | Token::Not => {}
                            other => return Err(found(other, "identifier after ','")),
                        },
                        other => return Err(found(other, "',' or 'end of string'")),
                    }
                }
                Token::End => break,
                other => return Err(found(other, "!, identifier, or 'end of string'")),
            }
        }
        Ok(Self { requirements })
    }

    /// Reads `matchLabels` / `matchExpressions`. An empty object selects everything, `null` selects nothing, as in
    /// every API type that carries a selector.
    ///
    /// # Errors
    /// When the object has another shape, or an invalid key, operator or value.
    pub fn from_object(selector: &Value) -> Result<Self, SelectorError> {
        let Some(object) = selector.as_object() else {
            if selector.is_null() {
                return Ok(Self {
                    requirements: vec![Requirement { key: String::new(), test: Test::In(Vec::new()) }],
                });
            }
            return Err(SelectorError::new("a label selector must be an object"));
        };
        let mut requirements = Vec::new();
        if let Some(labels) = object.get("matchLabels").filter(|v| !v.is_null()) {
            let labels =
                labels.as_object().ok_or_else(|| SelectorError::new("matchLabels must be an object"))?;
            for (key, value) in labels {
                let value = value
                    .as_str()
                    .ok_or_else(|| SelectorError::new(format!("matchLabels[{key}] must be a string")))?;
                requirements.push(Requirement::new(key, "in", vec![value.to_owned()])?);
            }
        }
        if let Some(expressions) = object.get("matchExpressions").filter(|v| !v.is_null()) {
            let list = expressions
                .as_array()
                .ok_or_else(|| SelectorError::new("matchExpressions must be a list"))?;
            for expression in list {
                requirements.push(parse_expression(expression)?);
            }
        }
        Ok(Self { requirements })
    }

    /// Whether an object with these labels is selected. No labels at all is the same as an empty map.
    #[must_use]
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.requirements
            .iter()
            .all(|r| r.test.holds(labels.and_then(|l| l.get(&r.key)).and_then(Value::as_str)))
    }

    /// True when nothing is required, so that a caller may skip the matching.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Requirement {
    fn new(key: &str, operator: &str, mut values: Vec<String>) -> Result<Self, SelectorError> {
        check_key(key)?;
        values.sort_unstable();
        values.dedup();
        for (i, value) in values.iter().enumerate() {
            check_value(&format!("values[{i}][{key}]"), value)?;
        }
        let test = match operator {
            "in" | "notin" if values.is_empty() => {
                return Err(SelectorError::new(
                    "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
                ));
            }
            "in" => Test::In(values),
            "notin" => Test::NotIn(values),
            "exists" | "!" if !values.is_empty() => {
                return Err(SelectorError::new(format!(
                    "values: Invalid value: {values:?}: values set must be empty for exists and does not exist"
                )));
            }
            "exists" => Test::Exists,
            "!" => Test::Absent,
            "gt" | "lt" => {
                let [one] = values.as_slice() else {
                    return Err(SelectorError::new(format!(
                        "values: Invalid value: {values:?}: for 'Gt', 'Lt' operators, exactly one value is required"
                    )));
                };
                let number = one.parse::<i64>().map_err(|_| {
                    SelectorError::new(format!(
                        "values[0]: Invalid value: {one:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                    ))
                })?;
                if operator == "gt" { Test::Greater(number) } else { Test::Less(number) }
            }
            other => {
                return Err(SelectorError::new(format!("{other:?} is not a valid label selector operator")));
            }
        };
        Ok(Self { key: key.to_owned(), test })
    }
}

impl Test {
    /// `!=` and `notin` hold for objects without the key; the order comparisons do not.
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |set: &[String], v: &str| set.binary_search_by(|s| s.as_str().cmp(v)).is_ok();
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match self {
            Self::In(set) => value.is_some_and(|v| among(set, v)),
            Self::NotIn(set) => !value.is_some_and(|v| among(set, v)),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::Greater(bound) => number().is_some_and(|n| n > *bound),
            Self::Less(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

/// Prints the canonical query string; parsing it again gives the same selector.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::In(set) => match set.as_slice() {
                [one] => write!(f, "{key}={one}"),
                many => write!(f, "{key} in ({})", many.join(",")),
            },
            Test::NotIn(set) => match set.as_slice() {
                [one] => write!(f, "{key}!={one}"),
                many => write!(f, "{key} notin ({})", many.join(",")),
            },
            Test::Exists => f.write_str(key),
            Test::Absent => write!(f, "!{key}"),
            Test::Greater(n) => write!(f, "{key}>{n}"),
            Test::Less(n) => write!(f, "{key}<{n}"),
        }
    }
}

fn found(token: Token<'_>, expected: &str) -> SelectorError {
    SelectorError::new(format!("found '{}', expected: {expected}", token.text()))
}

fn parse_requirement(lexer: &mut Lexer<'_>) -> Result<Requirement, SelectorError> {
    let absent = lexer.peek() == Token::Not;
    if absent {
        lexer.next();
    }
    let key = match lexer.next().as_value() {
        Token::Word(key) => key,
        other => return Err(found(other, "identifier")),
    };
    check_key(key)?;
    if absent {
        return Requirement::new(key, "!", Vec::new());
    }
    if matches!(lexer.peek(), Token::End | Token::Comma) {
        return Requirement::new(key, "exists", Vec::new());
    }
    let operator = match lexer.next() {
        Token::In => "in",
        Token::NotIn => "notin",
        Token::Equals | Token::DoubleEquals => "=",
        Token::NotEquals => "!=",
        Token::Greater => "gt",
        Token::Less => "lt",
        other => return Err(found(other, "in, notin, =, ==, !=, gt, lt")),
    };
    match operator {
        "in" | "notin" => Requirement::new(key, operator, parse_set(lexer)?),
        "=" => Requirement::new(key, "in", vec![parse_exact(lexer)?]),
        "!=" => Requirement::new(key, "notin", vec![parse_exact(lexer)?]),
        _ => Requirement::new(key, operator, vec![parse_exact(lexer)?]),
    }
}

/// The value after `=`; nothing there means the empty string, so `app=` selects `app: ""`.
fn parse_exact(lexer: &mut Lexer<'_>) -> Result<String, SelectorError> {
    match lexer.peek() {
        Token::End | Token::Comma => Ok(String::new()),
        _ => match lexer.next().as_value() {
            Token::Word(value) => Ok(value.to_owned()),
            other => Err(found(other, "identifier")),
        },
    }
}

/// `(a, b)`. As in the real server a missing element is the empty string: `(a,)` is `{"", "a"}`.
fn parse_set(lexer: &mut Lexer<'_>) -> Result<Vec<String>, SelectorError> {
    match lexer.next() {
        Token::Open => {}
        other => return Err(found(other, "'('")),
    }
    let mut values = Vec::new();
    loop {
        match lexer.next().as_value() {
            Token::Word(value) => {
                values.push(value.to_owned());
                match lexer.next() {
                    Token::Comma => {
                        if matches!(lexer.peek(), Token::Close) {
                            values.push(String::new());
                        }
                    }
                    Token::Close => return Ok(values),
                    other => return Err(found(other, "',' or ')'")),
                }
            }
            Token::Comma => values.push(String::new()),
            Token::Close => {
                if values.is_empty() {
                    values.push(String::new());
                }
                return Ok(values);
            }
            other => return Err(found(other, "',', ')' or identifier")),
        }
    }
}

fn parse_expression(expression: &Value) -> Result<Requirement, SelectorError> {
    let text = |field: &str| expression.get(field).and_then(Value::as_str);
    let key = text("key").ok_or_else(|| SelectorError::new("matchExpressions: key is required"))?;
    let operator = match text("operator") {
        Some("In") => "in",
        Some("NotIn") => "notin",
        Some("Exists") => "exists",
        Some("DoesNotExist") => "!",
        other => {
            let other = other.unwrap_or_default();
            return Err(SelectorError::new(format!("{other:?} is not a valid label selector operator")));
        }
    };
    let values = match expression.get("values") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) => list
            .iter()
            .map(|v| v.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| SelectorError::new("matchExpressions: values must be strings"))?,
        Some(_) => return Err(SelectorError::new("matchExpressions: values must be a list")),
    };
    Requirement::new(key, operator, values)
}
