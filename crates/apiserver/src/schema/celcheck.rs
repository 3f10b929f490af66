//! What can be known to be wrong with a rule before it runs.
//!
//! The interpreter has no type checker. Without one, a rule with a misspelt field would be accepted and then refuse
//! every object. This follows names and field selections through the schema and leaves everything else to evaluation.

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::celparse::{UNUSED, parts};
use super::celvalue::escape;
use super::node::{Additional, Kind, Node};

/// What `self` and `oldSelf` are.
pub(super) struct Scope<'a> {
    pub(super) node: &'a Node,
    /// The node is the root of a resource.
    pub(super) resource: bool,
    /// `oldSelf` has the type of `self`; false when it is an optional of it.
    pub(super) typed_old: bool,
}

/// What is known about the type of an expression.
#[derive(Clone, Copy)]
enum Type<'a> {
    Schema(&'a Node, bool),
    Metadata,
    Unknown,
}

/// Prefixes of function names that look like variables.
const NAMESPACES: [&str; 10] =
    ["math", "sets", "lists", "strings", "ip", "optional", "format", "jsonpatch", "base64", "cel"];
/// Names of types, usable as values.
pub(super) const TYPES: [&str; 9] =
    ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type"];

const FUNCTIONS: &[&str] = &[
    "contains",
    "size",
    "max",
    "min",
    "startsWith",
    "endsWith",
    "string",
    "bytes",
    "double",
    "int",
    "uint",
    "none",
    "of",
    "ofNonZeroValue",
    "value",
    "hasValue",
    "or",
    "orValue",
    "matches",
    "duration",
    "timestamp",
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "add",
    "asApproximateFloat",
    "asInteger",
    "charAt",
    "cidr",
    "compareTo",
    "containsCIDR",
    "containsIP",
    "distinct",
    "family",
    "find",
    "findAll",
    "first",
    "flatten",
    "format",
    "byte",
    "date",
    "datetime",
    "labelValue",
    "named",
    "qualifiedName",
    "uri",
    "uuid",
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "getEscapedPath",
    "getHost",
    "getHostname",
    "getPort",
    "getQuery",
    "getScheme",
    "indexOf",
    "ip",
    "isCanonical",
    "isCIDR",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isQuantity",
    "isSemver",
    "isSorted",
    "isURL",
    "isUnspecified",
    "join",
    "escapeKey",
    "last",
    "lastIndexOf",
    "range",
    "lowerAscii",
    "major",
    "masked",
    "abs",
    "bitAnd",
    "bitNot",
    "bitOr",
    "bitShiftLeft",
    "bitShiftRight",
    "bitXor",
    "ceil",
    "floor",
    "greatest",
    "isFinite",
    "isInf",
    "isNaN",
    "least",
    "round",
    "sign",
    "sqrt",
    "trunc",
    "minor",
    "patch",
    "prefixLength",
    "quantity",
    "replace",
    "reverse",
    "semver",
    "equivalent",
    "intersects",
    "slice",
    "sort",
    "split",
    "quote",
    "sub",
    "substring",
    "sum",
    "trim",
    "upperAscii",
    "url",
    "validate",
    "encode",
    "decode",
    "dyn",
    "type",
    "bool",
];

/// Checks an expression, with a message in the words of the real server's compiler.
pub(super) fn check(expr: &IdedExpr, scope: &Scope<'_>) -> Result<(), String> {
    let this = Type::Schema(scope.node, scope.resource);
    let old = if scope.typed_old { this } else { Type::Unknown };
    let mut variables = vec![("self", this), ("oldSelf", old)];
    walk(expr, &mut variables).map(|_| ())
}

type Variables<'a> = Vec<(&'a str, Type<'a>)>;

fn walk<'a>(expr: &'a IdedExpr, variables: &mut Variables<'a>) -> Result<Type<'a>, String> {
    match &expr.expr {
        Expr::Ident(name) => match variables.iter().rev().find(|(known, _)| known == name) {
            Some((_, known)) => Ok(*known),
            None if TYPES.contains(&name.as_str()) => Ok(Type::Unknown),
            None => Err(format!("undeclared reference to '{name}' (in container '')")),
        },
        Expr::Select(SelectExpr { operand, field, .. }) => select(walk(operand, variables)?, field),
        Expr::Call(call) => walk_call(call, variables),
        Expr::Comprehension(comprehension) => walk_loop(comprehension, variables),
        Expr::Struct(message) => {
            Err(format!("undeclared reference to '{}' (in container '')", message.type_name))
        }
        Expr::Unspecified | Expr::Literal(_) | Expr::List(_) | Expr::Map(_) => {
            for part in parts(&expr.expr) {
                walk(part, variables)?;
            }
            Ok(Type::Unknown)
        }
    }
}

fn walk_call<'a>(call: &'a CallExpr, variables: &mut Variables<'a>) -> Result<Type<'a>, String> {
    let name = call.func_name.as_str();
    let operator = name.starts_with(['_', '!', '@', '-']);
    if !operator && !FUNCTIONS.contains(&name) {
        return Err(format!("undeclared reference to '{name}' (in container '')"));
    }
    if let Some(target) = &call.target {
        let namespace = matches!(&target.expr, Expr::Ident(ns) if NAMESPACES.contains(&ns.as_str())
            && !variables.iter().any(|(known, _)| known == ns));
        if !namespace {
            walk(target, variables)?;
        }
    }
    let mut types = Vec::with_capacity(call.args.len());
    for arg in &call.args {
        types.push(walk(arg, variables)?);
    }
    match (name, types.as_slice(), call.args.as_slice()) {
        ("_[_]", [operand, _], _) => Ok(element(*operand)),
        ("_?._", [operand, _], [_, IdedExpr { expr: Expr::Literal(LiteralValue::String(field)), .. }]) => {
            select(*operand, field.inner())?;
            Ok(Type::Unknown)
        }
        _ => Ok(Type::Unknown),
    }
}

fn walk_loop<'a>(c: &'a ComprehensionExpr, variables: &mut Variables<'a>) -> Result<Type<'a>, String> {
    let range = walk(&c.iter_range, variables)?;
    let start = walk(&c.accu_init, variables)?;
    let known = variables.len();
    // A binding is a loop that never runs: its variable keeps the type of its value.
    variables.push((&c.accu_var, if c.iter_var == UNUSED { start } else { Type::Unknown }));
    let item = match range {
        Type::Schema(node, _) if node.kind == Some(Kind::Array) => element(range),
        _ => Type::Unknown,
    };
    variables.push((&c.iter_var, if c.iter_var2.is_some() { Type::Unknown } else { item }));
    if let Some(second) = &c.iter_var2 {
        variables.push((second, element(range)));
    }
    walk(&c.loop_cond, variables)?;
    walk(&c.loop_step, variables)?;
    let result = walk(&c.result, variables);
    variables.truncate(known);
    result
}

/// The type of an item of a list or a value of a map.
fn element(operand: Type<'_>) -> Type<'_> {
    match operand {
        Type::Schema(node, _) => match (&node.items, &node.additional) {
            (Some(items), _) => Type::Schema(items, items.embedded),
            (None, Additional::Schema(values)) => Type::Schema(values, values.embedded),
            (None, Additional::Any | Additional::None) => Type::Unknown,
        },
        Type::Metadata | Type::Unknown => Type::Unknown,
    }
}

fn select<'a>(operand: Type<'a>, field: &str) -> Result<Type<'a>, String> {
    let undefined = || Err(format!("undefined field '{field}'"));
    match operand {
        Type::Unknown => Ok(Type::Unknown),
        Type::Metadata if matches!(field, "name" | "generateName") => Ok(Type::Unknown),
        Type::Metadata => undefined(),
        Type::Schema(node, resource) => match node.kind {
            None => Ok(Type::Unknown),
            Some(Kind::Object) => {
                if resource && field == "metadata" {
                    return Ok(Type::Metadata);
                }
                if resource && matches!(field, "apiVersion" | "kind") {
                    return Ok(Type::Unknown);
                }
                if let Some((_, property)) = node.properties.iter().find(|(name, _)| escape(name) == field) {
                    return Ok(Type::Schema(property, property.embedded));
                }
                match &node.additional {
                    Additional::Schema(values) => Ok(Type::Schema(values, values.embedded)),
                    Additional::Any => Ok(Type::Unknown),
                    Additional::None if node.preserve => Ok(Type::Unknown),
                    Additional::None => undefined(),
                }
            }
            Some(kind) => Err(format!("type '{}' does not support field selection", kind.name())),
        },
    }
}
