//! `$(NAME)` in commands, arguments and values.

use std::collections::BTreeMap;

/// Puts values in the place of `$(NAME)`. `$$` is a dollar sign, so `$$(NAME)` stays `$(NAME)`; a name that is not
/// known stays as it is written, for it may be meant for a shell.
pub fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    replace(text, &mut |name| match env.get(name) {
        Some(value) => value.clone(),
        None => format!("$({name})"),
    })
}

/// The same for every word of a command.
pub fn expand_all(words: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    words.iter().map(|word| expand(word, env)).collect()
}

/// Like [`expand`], but a name that is not known is the error: a path with a hole in it leads somewhere else.
pub fn expand_strict(text: &str, env: &BTreeMap<String, String>) -> Result<String, String> {
    let mut unknown = None;
    let expanded = replace(text, &mut |name| {
        env.get(name).cloned().unwrap_or_else(|| {
            unknown.get_or_insert_with(|| name.to_owned());
            String::new()
        })
    });
    unknown.map_or(Ok(expanded), Err)
}

fn replace(text: &str, value: &mut dyn FnMut(&str) -> String) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let name = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        if let Some((name, tail)) = name {
            result.push_str(&value(name));
            rest = tail;
        } else if let Some(tail) = after.strip_prefix('$') {
            result.push('$');
            rest = tail;
        } else {
            result.push('$');
            rest = after;
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn env() -> BTreeMap<String, String> {
        let pairs = [("A", "1"), ("B", "$(A)"), ("", "empty")];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn kubernetes_own_table() {
        let cases = [
            ("$(A)", "1"),
            ("$(B)", "$(A)"),
            ("___$(A)___$(B)___", "___1___$(A)___"),
            ("$(UNKNOWN)", "$(UNKNOWN)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$$$$$(A)", "$$1"),
            ("$A", "$A"),
            ("$", "$"),
            ("foo$", "foo$"),
            ("$$", "$"),
            ("$(A", "$(A"),
            ("$(A$(A)", "$(A$(A)"),
            ("$()", "empty"),
            ("$(A)$(A)", "11"),
            ("${A}", "${A}"),
            ("\u{e4}$(A)\u{e4}", "\u{e4}1\u{e4}"),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, &env()), expected, "{text}");
        }
    }

    #[test]
    fn a_strict_expansion_names_what_is_missing() {
        assert_eq!(expand_strict("a/$(A)/$$(X)", &env()), Ok("a/1/$(X)".into()));
        assert_eq!(expand_strict("$(X)/$(Y)", &env()), Err("X".into()));
    }

    proptest! {
        #[test]
        fn what_has_no_dollar_stays(text in "[^$]*") {
            prop_assert_eq!(expand(&text, &env()), text);
        }

        #[test]
        fn what_is_escaped_stays(text in any::<String>()) {
            prop_assert_eq!(expand(&text.replace('$', "$$"), &env()), text);
        }
    }
}
