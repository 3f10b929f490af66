//! YAML as Kubernetes people write it: block style, two spaces, list items not indented, keys sorted.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Renders a value, and proves that reading the text gives the value back.
pub(crate) fn render(value: &Value) -> Result<String> {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    // Long lines stay long: a folded string is one more thing that a diff or a grep can trip over.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 100_000 };
    let text = serde_saphyr::to_string_with_options(&sorted, options).context("rendering YAML")?;
    let back: Value = serde_saphyr::from_str(&text).context("reading back what was rendered")?;
    ensure!(back == sorted, "the YAML does not read back as the value that was written");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strings_that_look_like_something_else_survive() {
        let tricky = [
            "1",
            "1.5",
            "1e3",
            "0x1f",
            "0o7",
            "1_000",
            "true",
            "yes",
            "on",
            "n",
            "null",
            "~",
            "",
            " ",
            "- a",
            "a: b",
            "# c",
            "a #b",
            "two\nlines",
            "two\nlines\n",
            "\n",
            "2020-01-01",
            "{a}",
            "[a]",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "'a'",
            "\"a\"",
            "a\\b",
            "tab\there",
            "12:30:45",
            ".status.conditions[-1:].type",
            r"^(\+|-)?$",
        ];
        let value = json!({ "list": tricky.as_slice(), "keys": { "on": 1, "1": 2, "a b": 3, "": 4 } });
        let text = render(&value).unwrap();
        assert!(text.contains("\n- \"1\"\n") && text.contains("\n- \"yes\"\n"), "{text}");
    }

    #[test]
    fn block_style_and_sorted_keys() {
        let value = json!({"spec": {"list": [{"b": 1, "a": "long ".repeat(40).trim_end()}], "none": {}}, "apiVersion": "v1"});
        let long = "long ".repeat(40);
        let expected =
            format!("apiVersion: v1\nspec:\n  list:\n  - a: {}\n    b: 1\n  none: {{}}\n", long.trim_end());
        assert_eq!(render(&value).unwrap(), expected);
    }
}
