//! Declared functions, read from the tables once.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::Type;
use super::{libraries, standard};

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    /// The first argument stands before the dot.
    pub(super) method: bool,
    pub(super) args: Vec<Type<'static>>,
    pub(super) result: Type<'static>,
}

/// All functions by name.
static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let ordered = standard::COMPARISONS.iter().map(|name| (*name, standard::ORDERED));
    let declared = standard::FUNCTIONS.iter().chain(libraries::FUNCTIONS).copied();
    declared.chain(ordered).map(|(name, overloads)| (name, read(overloads))).collect()
});

/// Names of types of libraries.
const NAMED: [&str; 11] = [
    "kubernetes.NamedFormat",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.Decision",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.ResourceCheck",
    "net.CIDR",
    "net.IP",
];

/// The overloads of a function.
pub(super) fn function(name: &str) -> Option<&'static [Overload]> {
    TABLE.get(name.strip_prefix('.').unwrap_or(name)).map(Vec::as_slice)
}

/// Messages of protobuf that can be named.
const MESSAGES: [&str; 15] = [
    "Any",
    "BoolValue",
    "BytesValue",
    "DoubleValue",
    "Empty",
    "FloatValue",
    "Int32Value",
    "Int64Value",
    "ListValue",
    "NullValue",
    "StringValue",
    "Struct",
    "UInt32Value",
    "UInt64Value",
    "Value",
];

/// The type that a name stands for in a rule.
pub(super) fn type_named(name: &str) -> Option<Type<'static>> {
    match name {
        "net.CIDR" | "net.IP" => library_type(name),
        "duration" | "google.protobuf.Duration" => Some(Type::Duration),
        "timestamp" | "google.protobuf.Timestamp" => Some(Type::Timestamp),
        _ => simple(name).or_else(|| is_message(name).then_some(Type::Dyn)),
    }
}

/// Whether values of a type can be made with braces.
pub(super) fn is_message(name: &str) -> bool {
    let short = name.strip_prefix("google.protobuf.");
    short.is_some_and(|short| matches!(short, "Duration" | "Timestamp") || MESSAGES.contains(&short))
}

fn simple(name: &str) -> Option<Type<'static>> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Meta(None),
        "optional_type" => Type::optional(Type::Dyn),
        _ => return None,
    })
}

fn library_type(name: &str) -> Option<Type<'static>> {
    NAMED.into_iter().find(|known| *known == name).map(Type::Named)
}

fn read(overloads: &'static str) -> Vec<Overload> {
    overloads.split(';').filter_map(|text| overload(text.trim())).collect()
}

fn overload(text: &'static str) -> Option<Overload> {
    let (head, result) = text.split_once(" -> ")?;
    let mut args = Vec::new();
    let (receiver, rest) = match head.strip_prefix('(') {
        Some(rest) => (None, rest),
        None => head.split_once(".(").map(|(receiver, rest)| (Some(receiver), rest))?,
    };
    if let Some(receiver) = receiver {
        args.push(whole(receiver)?);
    }
    let mut rest = rest.strip_suffix(')')?.trim();
    while !rest.is_empty() {
        let (argument, after) = one(rest)?;
        args.push(argument);
        rest = after.trim_start_matches([',', ' ']);
    }
    Some(Overload { method: receiver.is_some(), args, result: whole(result)? })
}

fn whole(text: &'static str) -> Option<Type<'static>> {
    one(text).filter(|(_, rest)| rest.is_empty()).map(|(found, _)| found)
}

/// The type at the beginning of a text, and what follows it.
fn one(text: &'static str) -> Option<(Type<'static>, &'static str)> {
    let end = text.find(['(', ')', ',']).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    let mut letters = name.chars();
    if let (Some(letter @ 'A'..='Z'), None) = (letters.next(), letters.next()) {
        return Some((Type::Parameter(letter), rest));
    }
    let Some(inner) = rest.strip_prefix('(') else {
        return match name {
            "dyn" => Some((Type::Dyn, rest)),
            _ => type_named(name).or_else(|| library_type(name)).map(|found| (found, rest)),
        };
    };
    let (first, rest) = one(inner)?;
    let (found, rest) = match (name, rest.strip_prefix(", ")) {
        ("map", Some(rest)) => {
            let (second, rest) = one(rest)?;
            (Type::map(first, second), rest)
        }
        ("list", None) => (Type::list(first), rest),
        ("optional_type", None) => (Type::optional(first), rest),
        ("type", None) => (Type::Meta(Some(first.into())), rest),
        _ => return None,
    };
    Some((found, rest.strip_prefix(')')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that cannot be read would take a function away.
    #[test]
    fn every_overload_is_read() {
        let all = standard::FUNCTIONS.iter().chain(libraries::FUNCTIONS).map(|(_, overloads)| *overloads);
        for overloads in all.chain([standard::ORDERED]) {
            assert_eq!(read(overloads).len(), overloads.split(';').count(), "{overloads}");
            for (overload, text) in read(overloads).iter().zip(overloads.split(';')) {
                let mut args: Vec<String> = overload.args.iter().map(ToString::to_string).collect();
                let receiver = if overload.method { format!("{}.", args.remove(0)) } else { String::new() };
                assert_eq!(format!("{receiver}({}) -> {}", args.join(", "), overload.result), text.trim());
            }
        }
    }
}
