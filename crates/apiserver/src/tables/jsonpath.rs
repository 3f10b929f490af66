//! The paths of printer columns: the JSONPath dialect of Kubernetes, as far as one value can be asked for with it.

use serde_json::Value;
use std::cmp::Ordering;

/// A path that finds more values than this finds none: nobody reads that many in one cell.
const MOST: usize = 10_000;

/// A parsed path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// `[from:to:step]`; a single index has itself as the end.
    Slice {
        from: Option<i64>,
        to: End,
        step: Option<i64>,
    },
    Filter(Box<Filter>),
    Wildcard,
    Recursive,
    Union(Vec<JsonPath>),
    /// A constant, as on the right side of a filter.
    Constant(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Open,
    At(i64),
    /// Of a single index: the one after it.
    Next(i64),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: JsonPath,
    /// Operator and right side; without them the left side has to exist.
    right: Option<(Operator, JsonPath)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl JsonPath {
    /// Reads a path as it stands in a definition, without braces. Nothing when it is not understood.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            rest = match first {
                ' ' | '@' | '$' => rest.get(1..)?,
                '.' if rest.starts_with("..") => {
                    if steps.last() == Some(&Step::Recursive) {
                        return None;
                    }
                    steps.push(Step::Recursive);
                    let rest = rest.get(2..)?;
                    let named = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
                    if named { field(rest, &mut steps)? } else { rest }
                }
                '.' => field(rest.get(1..)?, &mut steps)?,
                '[' if rest.starts_with("[?(") => filter(rest.get(3..)?, &mut steps)?,
                '[' => brackets(rest.get(1..)?, &mut steps)?,
                '"' | '\'' => quoted(rest, first, &mut steps)?,
                '+' | '-' | '0'..='9' => number(rest, &mut steps)?,
                _ => boolean(rest, &mut steps)?,
            };
        }
        Some(Self(steps))
    }

    /// The first value the path finds. Nothing when there is none, or when the path does not fit the object.
    pub(crate) fn find<'a>(&'a self, object: &'a Value) -> Option<&'a Value> {
        self.all(object)?.first().copied()
    }

    fn all<'a>(&'a self, object: &'a Value) -> Option<Vec<&'a Value>> {
        let mut found = vec![object];
        for step in &self.0 {
            found = step.walk(&found)?;
            if found.len() > MOST {
                return None;
            }
        }
        Some(found)
    }
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// A field up to its end; a backslash takes the next character as it is.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((index, c)) = chars.next() {
        if c == '\\' {
            name.extend(chars.next().map(|(_, c)| c));
        } else if is_terminator(c) {
            end = index;
            break;
        } else {
            name.push(c);
        }
    }
    let (written, rest) = text.split_at_checked(end)?;
    steps.push(if written == "*" { Step::Wildcard } else { Step::Field(name) });
    Some(rest)
}

/// A quoted text, as a constant.
fn quoted<'a>(text: &'a str, quote: char, steps: &mut Vec<Step>) -> Option<&'a str> {
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => value.push(chars.next()?.1),
            c if c == quote => {
                steps.push(Step::Constant(value.into()));
                return text.get(index + 1..);
            }
            c => value.push(c),
        }
    }
    None
}

fn number<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let digits =
        text.get(1..)?.find(|c: char| c != '.' && !c.is_ascii_digit()).map_or(text.len(), |end| end + 1);
    let (number, rest) = text.split_at_checked(digits)?;
    let whole = number.trim_start_matches('+').parse::<i64>().ok().map(Value::from);
    steps.push(Step::Constant(whole.or_else(|| number.parse::<f64>().ok().map(Value::from))?));
    Some(rest)
}

fn boolean<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let (word, rest) = text.split_at_checked(text.find(is_terminator).unwrap_or(text.len()))?;
    steps.push(Step::Constant(word.parse::<bool>().ok()?.into()));
    Some(rest)
}

/// What stands between brackets: keys, an index, a slice, or several of them.
fn brackets<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let (inside, rest) = text.split_once(']')?;
    if inside.contains(',') {
        let union = inside.split(',').map(|part| JsonPath::parse(&format!("[{}]", part.trim())));
        steps.push(Step::Union(union.collect::<Option<_>>()?));
        return Some(rest);
    }
    if let Some(key) = inside.strip_prefix('\'').and_then(|key| key.strip_suffix('\'')) {
        steps.extend(JsonPath::parse(&format!(".{key}"))?.0);
        return Some(rest);
    }
    let inside = if inside == "*" { ":" } else { inside };
    let mut parts = inside.split(':');
    let mut part = || -> Option<Option<i64>> {
        match parts.next() {
            None | Some("") => Some(None),
            Some(number) => number.parse().ok().map(Some),
        }
    };
    let (from, to, step) = (part()?, part()?, part()?);
    if parts.next().is_some() {
        return None;
    }
    let to = match (inside.contains(':'), to) {
        (true, Some(to)) => End::At(to),
        (true, None) => End::Open,
        (false, _) => End::Next(from?.checked_add(1)?),
    };
    steps.push(Step::Slice { from, to, step });
    Some(rest)
}

fn filter<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let mut quote = None;
    let end = text.char_indices().find_map(|(index, c)| {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, ')') => return Some(index),
            _ => {}
        }
        None
    })?;
    let (inside, rest) = text.split_at_checked(end)?;
    let rest = rest.strip_prefix(")]")?;
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let right = match inside.find(is_operator) {
        None => None,
        Some(at) => {
            let (_, tail) = inside.split_at_checked(at)?;
            let end = tail.find(|c| !is_operator(c))?;
            let (operator, right) = tail.split_at_checked(end)?;
            Some((Operator::parse(operator)?, JsonPath::parse(right)?))
        }
    };
    let left = JsonPath::parse(inside.split(is_operator).next().unwrap_or_default())?;
    steps.push(Step::Filter(Box::new(Filter { left, right })));
    Some(rest)
}

impl Operator {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterEqual,
            _ => return None,
        })
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterEqual => order != Ordering::Less,
        }
    }
}

/// Compares values of one type; others have no order.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
            _ => None,
        },
        _ => None,
    }
}

impl Step {
    /// From the values found so far to the next ones. Nothing when the step does not fit.
    fn walk<'a>(&'a self, input: &[&'a Value]) -> Option<Vec<&'a Value>> {
        let mut found = Vec::new();
        match self {
            Self::Constant(value) => found.extend(input.iter().map(|_| value)),
            Self::Field(name) => found.extend(input.iter().filter_map(|value| value.get(name))),
            Self::Wildcard => found.extend(input.iter().flat_map(|value| members(value))),
            Self::Recursive => {
                for value in input {
                    descend(value, &mut found);
                }
            }
            Self::Union(paths) => {
                for path in paths {
                    for value in input {
                        found.extend(path.all(value)?);
                    }
                }
            }
            Self::Slice { from, to, step } => {
                for value in input.iter().filter(|value| !value.is_null()) {
                    slice(value.as_array()?, (*from, *to, *step), &mut found)?;
                }
            }
            Self::Filter(filter) => {
                for value in input {
                    filter.select(value.as_array()?, &mut found)?;
                }
            }
        }
        Some(found)
    }
}

fn members(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let below = members(value);
    if !below.is_empty() && found.len() <= MOST {
        found.push(value);
        below.into_iter().for_each(|member| descend(member, found));
    }
}

fn slice<'a>(
    items: &'a [Value],
    (from, to, step): (Option<i64>, End, Option<i64>),
    found: &mut Vec<&'a Value>,
) -> Option<()> {
    let length = i64::try_from(items.len()).ok()?;
    let from = from.map_or(0, |from| if from < 0 { from + length } else { from });
    let to = match to {
        End::Open => length,
        End::At(to) => {
            if to < 0 {
                to + length
            } else {
                to
            }
        }
        End::Next(to) => {
            if to <= 0 {
                to + length
            } else {
                to
            }
        }
    };
    if from == to {
        return Some(());
    }
    if !(0..length).contains(&from) || !(from..=length).contains(&to) {
        return None;
    }
    let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
    let range = items.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)?;
    found.extend(range.iter().step_by(step));
    Some(())
}

impl Filter {
    fn select<'a>(&'a self, items: &'a [Value], found: &mut Vec<&'a Value>) -> Option<()> {
        for item in items {
            let lefts = self.left.all(item);
            let Some((operator, right)) = &self.right else {
                found.extend(lefts.is_some_and(|lefts| !lefts.is_empty()).then_some(item));
                continue;
            };
            let (lefts, rights) = (lefts?, right.all(item)?);
            match (lefts.as_slice(), rights.as_slice()) {
                ([], _) | (_, []) => {}
                ([left], [right]) => found.extend(operator.holds(compare(left, right)?).then_some(item)),
                _ => return None,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_find_what_they_name() {
        let object = json!({
            "a": {"b.c": 1, "d": [10, 20, 30]},
            "status": {"conditions": [
                {"type": "Created", "status": "True", "n": 1}, {"type": "Ready", "status": "False", "n": 2},
            ]},
        });
        for (path, expected) in [
            (".a.d", json!([10, 20, 30])),
            (".a.d[0]", json!(10)),
            (".a.d[-1]", json!(30)),
            (".a.d[-1:]", json!(30)),
            (".a.d[1:]", json!(20)),
            (".a.d[*]", json!(10)),
            (".a.d[0,2]", json!(10)),
            (".a['b\\.c']", json!(1)),
            (".a.b\\.c", json!(1)),
            (".status.conditions[-1:].type", json!("Ready")),
            (".status.conditions[?(@.type==\"Ready\")].status", json!("False")),
            (".status.conditions[?(@.type=='Ready')].status", json!("False")),
            (".status.conditions[?(@.n>1)].type", json!("Ready")),
            (".status.conditions[?(@.n)].type", json!("Created")),
            ("..type", json!("Created")),
            (".status.*[0].type", json!("Created")),
            // Nothing to be found, or something that does not fit.
            (".a.x.y", Value::Null),
            (".a.d[3]", Value::Null),
            (".a.b[0]", Value::Null),
            (".status.conditions[?(@.type==1)].status", Value::Null),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(parsed.find(&object).cloned().unwrap_or_default(), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_not_read() {
        for bad in [".a[", ".a[x]", ".a[?(@.b", ".a[1:2:3:4]", "range", ".a....b", ".a[?(@.b==\"x)]", "'a"] {
            assert_eq!(JsonPath::parse(bad), None, "{bad}");
        }
    }
}
