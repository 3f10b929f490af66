//! The functions of the language itself and their overloads, and those of optionals.
//!
//! `string.(int) -> bool` is a method of texts, `(string, int) -> bool` a function; single capitals are type
//! parameters. The order matters: with values of unknown type, the first overload that fits says what comes out.

/// Names and overloads.
pub(super) const FUNCTIONS: &[(&str, &str)] = &[
    ("_?_:_", "(bool, A, A) -> A"),
    ("_&&_", "(bool, bool) -> bool"),
    ("_||_", "(bool, bool) -> bool"),
    ("!_", "(bool) -> bool"),
    ("@not_strictly_false", "(bool) -> bool"),
    ("_==_", "(A, A) -> bool"),
    ("_!=_", "(A, A) -> bool"),
    (
        "_+_",
        "(bytes, bytes) -> bytes; (double, double) -> double; (duration, duration) -> duration; (duration, timestamp) -> timestamp; (timestamp, duration) -> timestamp; (int, int) -> int; (list(A), list(A)) -> list(A); (string, string) -> string; (uint, uint) -> uint",
    ),
    ("_/_", "(double, double) -> double; (int, int) -> int; (uint, uint) -> uint"),
    ("_*_", "(double, double) -> double; (int, int) -> int; (uint, uint) -> uint"),
    ("_%_", "(int, int) -> int; (uint, uint) -> uint"),
    ("-_", "(double) -> double; (int) -> int"),
    (
        "_-_",
        "(double, double) -> double; (duration, duration) -> duration; (int, int) -> int; (timestamp, duration) -> timestamp; (timestamp, timestamp) -> duration; (uint, uint) -> uint",
    ),
    (
        "_[_]",
        "(list(A), int) -> A; (map(A, B), A) -> B; (optional_type(list(V)), int) -> optional_type(V); (optional_type(map(K, V)), K) -> optional_type(V)",
    ),
    (
        "_[?_]",
        "(list(V), int) -> optional_type(V); (optional_type(list(V)), int) -> optional_type(V); (map(K, V), K) -> optional_type(V); (optional_type(map(K, V)), K) -> optional_type(V)",
    ),
    ("@in", "(A, list(A)) -> bool; (A, map(A, B)) -> bool"),
    (
        "size",
        "(bytes) -> int; bytes.() -> int; (list(A)) -> int; list(A).() -> int; (map(A, B)) -> int; map(A, B).() -> int; (string) -> int; string.() -> int",
    ),
    ("type", "(A) -> type(A)"),
    ("bool", "(bool) -> bool; (string) -> bool"),
    ("bytes", "(bytes) -> bytes; (string) -> bytes"),
    ("double", "(double) -> double; (int) -> double; (string) -> double; (uint) -> double"),
    ("duration", "(duration) -> duration; (int) -> duration; (string) -> duration"),
    ("dyn", "(A) -> dyn"),
    (
        "int",
        "(int) -> int; (double) -> int; (duration) -> int; (string) -> int; (timestamp) -> int; (uint) -> int",
    ),
    (
        "string",
        "(string) -> string; (bool) -> string; (bytes) -> string; (double) -> string; (duration) -> string; (int) -> string; (timestamp) -> string; (uint) -> string; (net.IP) -> string; (net.CIDR) -> string",
    ),
    ("timestamp", "(timestamp) -> timestamp; (int) -> timestamp; (string) -> timestamp"),
    ("uint", "(uint) -> uint; (double) -> uint; (int) -> uint; (string) -> uint"),
    ("contains", "string.(string) -> bool"),
    ("endsWith", "string.(string) -> bool"),
    ("startsWith", "string.(string) -> bool"),
    ("matches", "(string, string) -> bool; string.(string) -> bool"),
    ("getFullYear", "timestamp.() -> int; timestamp.(string) -> int"),
    ("getMonth", "timestamp.() -> int; timestamp.(string) -> int"),
    ("getDayOfYear", "timestamp.() -> int; timestamp.(string) -> int"),
    ("getDayOfMonth", "timestamp.() -> int; timestamp.(string) -> int"),
    ("getDate", "timestamp.() -> int; timestamp.(string) -> int"),
    ("getDayOfWeek", "timestamp.() -> int; timestamp.(string) -> int"),
    ("getHours", "timestamp.() -> int; timestamp.(string) -> int; duration.() -> int"),
    ("getMinutes", "timestamp.() -> int; timestamp.(string) -> int; duration.() -> int"),
    ("getSeconds", "timestamp.() -> int; timestamp.(string) -> int; duration.() -> int"),
    ("getMilliseconds", "timestamp.() -> int; timestamp.(string) -> int; duration.() -> int"),
    ("optional.of", "(V) -> optional_type(V)"),
    ("optional.ofNonZeroValue", "(V) -> optional_type(V)"),
    ("optional.none", "() -> optional_type(V)"),
    ("value", "optional_type(V).() -> V"),
    ("hasValue", "optional_type(V).() -> bool"),
    ("or", "optional_type(V).(optional_type(V)) -> optional_type(V)"),
    ("orValue", "optional_type(V).(V) -> V"),
    ("last", "list(V).() -> optional_type(V)"),
    ("first", "list(V).() -> optional_type(V)"),
    ("optional.unwrap", "(list(optional_type(V))) -> list(V)"),
    ("unwrapOpt", "list(optional_type(V)).() -> list(V)"),
];

/// Everything that has an order.
pub(super) const COMPARISONS: [&str; 4] = ["_<_", "_<=_", "_>_", "_>=_"];
/// Their overloads.
pub(super) const ORDERED: &str = "(bool, bool) -> bool; (int, int) -> bool; (int, double) -> bool; \
    (int, uint) -> bool; (uint, uint) -> bool; (uint, double) -> bool; (uint, int) -> bool; \
    (double, double) -> bool; (double, int) -> bool; (double, uint) -> bool; (string, string) -> bool; \
    (bytes, bytes) -> bool; (timestamp, timestamp) -> bool; (duration, duration) -> bool";
