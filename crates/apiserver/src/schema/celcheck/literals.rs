//! Texts in a rule that mean something of their own: patterns, times, durations and formats. And lists and maps of
//! values that are not of one type.

use super::super::format::measures;
use super::super::pattern;
use super::source::Problem;
use super::types::Type;
use super::unify::Bindings;
use crate::decode::moment;

/// Values that have to be of one type: where they stand, and their types.
#[derive(Clone, Debug, Default)]
pub(super) struct Group<'n>(pub(super) Vec<(usize, Type<'n>)>);

/// Everything that is looked at once the types are right.
#[derive(Debug, Default)]
pub(super) struct Literals<'n> {
    pub(super) constants: Vec<(Constant, usize, String)>,
    pub(super) formatted: Vec<Formatted<'n>>,
    pub(super) lists: Vec<Group<'n>>,
    pub(super) maps: Vec<Group<'n>>,
}

/// Functions whose first argument is read when it is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Constant {
    Pattern,
    Duration,
    Timestamp,
}

/// A format and the values for it.
#[derive(Debug)]
pub(super) struct Formatted<'n> {
    pub(super) at: usize,
    pub(super) text: String,
    pub(super) args: Group<'n>,
}

impl Constant {
    pub(super) fn of(function: &str) -> Option<Self> {
        match function {
            "matches" => Some(Self::Pattern),
            "duration" => Some(Self::Duration),
            "timestamp" => Some(Self::Timestamp),
            _ => None,
        }
    }

    fn check(self, text: &str) -> Result<(), &'static str> {
        match self {
            Self::Pattern => pattern::compile(text).map(|_| ()).map_err(|_| "invalid matches argument"),
            Self::Duration if is_duration(text) => Ok(()),
            Self::Duration => Err("invalid duration argument"),
            Self::Timestamp => {
                moment::canonical(text, false).map(|_| ()).map_err(|_| "invalid timestamp argument")
            }
        }
    }
}

impl<'n> Literals<'n> {
    pub(super) fn check(&self, types: &mut Bindings<'n>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (constant, at, text) in &self.constants {
            if let Err(message) = constant.check(text) {
                problems.push(Problem::new(*at, message));
            }
        }
        // Of a list, only the first value of another type is told.
        problems.extend(self.lists.iter().filter_map(|list| list.strangers(types).into_iter().next()));
        problems.extend(self.maps.iter().flat_map(|map| map.strangers(types)));
        problems.extend(self.formatted.iter().filter_map(|formatted| formatted.check(types).err()));
        problems
    }
}

impl<'n> Group<'n> {
    /// Values of another type than the first.
    fn strangers(&self, types: &mut Bindings<'n>) -> Vec<Problem> {
        let Some(((_, first), rest)) = self.0.split_first() else { return Vec::new() };
        let first = types.settled(first);
        let mut problems = Vec::new();
        for (at, found) in rest {
            let found = types.settled(found);
            if !types.same(&first, &found) {
                problems.push(Problem::new(*at, format!("expected type '{first}' but found '{found}'")));
            }
        }
        problems
    }
}

impl<'n> Formatted<'n> {
    fn check(&self, types: &mut Bindings<'n>) -> Result<(), Problem> {
        let whole = |message: String| Problem::new(self.at, message);
        let mut used = 0;
        let mut rest = self.text.as_str();
        while let Some((_, clause)) = rest.split_once('%') {
            if let Some(after) = clause.strip_prefix('%') {
                rest = after;
                continue;
            }
            if clause.is_empty() {
                return Err(whole("unexpected end of string".to_owned()));
            }
            let Some((at, found)) = self.args.0.get(used) else {
                return Err(whole(format!("index {used} out of range")));
            };
            used += 1;
            let (letter, after) = verb(clause).map_err(|why| {
                whole(format!("could not parse formatting clause: error while parsing precision: {why}"))
            })?;
            rest = after;
            let found = types.settled(found);
            if let Some(why) = refused(letter, &found) {
                return Err(match why {
                    Refused::Verb => whole(format!(
                        "could not parse formatting clause: unrecognized formatting clause \"{letter}\""
                    )),
                    Refused::Value(why) => Problem::new(
                        *at,
                        format!("error during formatting: {why}, was given {}", short(&found)),
                    ),
                });
            }
        }
        let given = self.args.0.len();
        if given > used {
            let message =
                format!("too many arguments supplied to string.format (expected {used}, got {given})");
            return Err(whole(message));
        }
        Ok(())
    }
}

/// The letter of a clause, after its precision, and what follows.
fn verb(clause: &str) -> Result<(char, &str), &'static str> {
    let clause = match clause.strip_prefix('.') {
        Some(precision) => precision.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => clause,
    };
    let mut rest = clause.chars();
    rest.next().map(|letter| (letter, rest.as_str())).ok_or("could not find end of precision specifier")
}

enum Refused {
    Verb,
    Value(&'static str),
}

/// Why a value cannot be written with a letter.
fn refused(letter: char, value: &Type<'_>) -> Option<Refused> {
    let (fits, why) = match letter {
        's' => (
            !matches!(value, Type::Object(_) | Type::Named(_) | Type::Optional(_)),
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
             and timestamps",
        ),
        'd' => (matches!(value, Type::Int | Type::Uint), "decimal clause can only be used on integers"),
        'o' => (matches!(value, Type::Int | Type::Uint), "octal clause can only be used on integers"),
        'f' => {
            (matches!(value, Type::Double | Type::String), "fixed-point clause can only be used on doubles")
        }
        'e' => {
            (matches!(value, Type::Double | Type::String), "scientific clause can only be used on doubles")
        }
        'b' => (
            matches!(value, Type::Int | Type::Uint | Type::Bool),
            "only integers and bools can be formatted as binary",
        ),
        'x' | 'X' => (
            matches!(value, Type::Int | Type::Uint | Type::String | Type::Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
        _ => return Some(Refused::Verb),
    };
    (!fits && !value.is_wild()).then_some(Refused::Value(why))
}

/// A type without its parts.
fn short(value: &Type<'_>) -> String {
    match value {
        Type::List(_) => "list".to_owned(),
        Type::Map(..) => "map".to_owned(),
        Type::Optional(_) => "optional_type".to_owned(),
        Type::Meta(_) => "type".to_owned(),
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        other => other.to_string(),
    }
}

/// A duration in Go's words: `1h30m`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 8] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    measures(text, |unit| UNITS.contains(&unit))
}
