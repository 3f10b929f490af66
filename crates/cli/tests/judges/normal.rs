//! What differs between any two runs is replaced by a name for it, and nothing else.

use std::sync::LazyLock;

use regex::Regex;

/// Patterns and what stands for them, applied in this order.
static RULES: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        // What kubectl notes about itself when it ends before the last word of the server.
        (r#"(?m)^[IWE]\d{4} [\d:. ]+\S+\.go:\d+\] "(Warning: watch ended with error|Encoding terminal size failed)".*\n"#, ""),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z", "<time>"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} \+0000", "<time>"),
        (r"https://(127\.0\.0\.1|localhost):\d+", "<server>"),
        (r"resourceVersion: \S+", "resourceVersion: <version>"),
        (r#"\\"resourceVersion\\":\\"\d+\\""#, r#"\"resourceVersion\":\"<version>\""#),
        (r"\bkube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "kube-api-access-<random>"),
        (r#""resourceVersion": ?"\d+""#, r#""resourceVersion":"<version>""#),
        (r"(Resource Version:\s+)\d+", "${1}<version>"),
        (r"\b10\.96\.\d+\.\d+\b", "<service-ip>"),
        // A hash of a template, then five letters that make no words: the names of a deployment's children.
        (r"-[0-9a-f]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-<hash>-<random>"),
        (r"-[0-9a-f]{8,10}\b", "-<hash>"),
        (r"\b(pod-template-hash[:=] ?)[0-9a-f]{8,10}\b", "${1}<hash>"),
        (r"\b(job-[a-z]+)-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "${1}-<random>"),
        // Ages, where they stand alone.
        (r"(?m)(^|[ (])(\d+[dhms]){1,2}($|[ )])", "${1}<age>${3}"),
        (r"(?m)(^|[ (])(\d+[dhms]){1,2}($|[ )])", "${1}<age>${3}"),
        (r"<invalid>", "<age>"),
        // Ports that were free, and what a container runtime calls things.
        (r"(Forwarding from (?:127\.0\.0\.1|\[::1\])):\d+", "${1}:<local>"),
        (r"(Handling connection for|error occurred forwarding) \d+", "${1} <local>"),
        (r"(Container ID:\s+)\S+", "${1}<id>"),
        (r#"(failed to start exec) "[0-9a-f]{64}""#, r#"${1} "<id>""#),
        // On one machine all pods have its own address; in a cluster each has another one.
        (r"(?m)^(\s*IP:\s+)\d+\.\d+\.\d+\.\d+$", "${1}<address>"),
        (r"(<node>/)\d+\.\d+\.\d+\.\d+", "${1}<address>"),
        (r"\d+\.\d+\.\d+\.\d+(\s+<node>)", "<address>${1}"),
        // Columns are as wide as what stands in them.
        (r"(\S)[ \t]{2,}", "${1}  "),
        (r"(?m)[ \t]+$", ""),
    ]
    .map(|(pattern, name)| (Regex::new(pattern).unwrap(), name))
    .into()
});

/// The output of a command without what no two runs share.
pub(crate) fn normal(output: &str) -> String {
    RULES
        .iter()
        .fold(output.to_owned(), |text, (pattern, name)| pattern.replace_all(&text, *name).into_owned())
}

#[test]
fn only_what_differs_is_replaced() {
    for (given, kept) in [
        ("NAME   AGE\na      5s\n", "NAME  AGE\na  <age>\n"),
        ("a 3m20s 10d", "a <age> <age>"),
        ("app-5d89c7f5b4-x7k2z 0/1", "app-<hash>-<random> 0/1"),
        ("  resourceVersion: \"123\"", "  resourceVersion: <version>"),
        ("restarts 3 (5m ago)", "restarts 3 (<age> ago)"),
        ("10.96.3.4 80/TCP", "<service-ip> 80/TCP"),
        ("10.1.3.4 replicas: 3", "10.1.3.4 replicas: 3"),
        (
            "a\nI1118 16:25:34.159273    4176 reflector.go:664] \"Warning: watch ended with error\" err=\"x\"\nb\n",
            "a\nb\n",
        ),
        ("E1118 16:25:51.826652    7444 v3.go:80] \"Encoding terminal size failed\" err=\"x\"\r\nb", "b"),
        ("2026-01-02T03:04:05Z", "<time>"),
        ("Forwarding from [::1]:4711 -> 80", "Forwarding from [::1]:<local> -> 80"),
        ("Running 0 10.0.0.7  <node> <none>", "Running 0 <address>  <node> <none>"),
        ("Node: <node>/10.0.0.7\nIP:  10.0.0.8", "Node: <node>/<address>\nIP:  <address>"),
    ] {
        assert_eq!(normal(given), kept, "{given:?}");
    }
}
