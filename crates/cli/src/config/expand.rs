//! `${VAR}` and `${file:PATH}` in texts of the configuration. `$${` is a literal `${`.

/// Why a text cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpandError {
    /// The environment has no such variable, or there is no such file.
    Missing(String),
    /// A `${` without its `}`, or with something in it that cannot be a variable.
    Malformed(String),
}

impl std::fmt::Display for ExpandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(name) if name.starts_with(FILE) => write!(
                f,
                "the file {} cannot be read as text of at most 64 KiB; it is named by ${{file:PATH}}",
                &name[FILE.len()..]
            ),
            Self::Missing(name) => {
                write!(
                    f,
                    "the environment variable {name} is not set; set it, or write $${{ for a literal ${{"
                )
            }
            Self::Malformed(text) => {
                write!(
                    f,
                    "{text:?} is not a variable: write ${{NAME}}, ${{file:PATH}}, or $${{ for a literal ${{"
                )
            }
        }
    }
}

/// What a name begins with that is the path of a file.
pub(super) const FILE: &str = "file:";

/// The text with each `${NAME}` replaced by what `lookup` gives. What it gives is not expanded again.
pub(crate) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, ExpandError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        expanded.push_str(&rest[..at]);
        let (name, after) = rest[at + 2..]
            .split_once('}')
            .filter(|(name, _)| is_name(name) || is_file(name))
            .ok_or_else(|| ExpandError::Malformed(head(&rest[at..])))?;
        expanded.push_str(&lookup(name).ok_or_else(|| ExpandError::Missing(name.to_owned()))?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_file(name: &str) -> bool {
    name.strip_prefix(FILE).is_some_and(|path| !path.is_empty() && !path.contains("${"))
}

// Only the beginning: what follows may be the rest of a secret.
fn head(text: &str) -> String {
    text.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<&str, ExpandError>) {
        let lookup = |name: &str| match name {
            "A" => Some("one".to_owned()),
            "NESTED" => Some("${A}".to_owned()),
            "EMPTY" => Some(String::new()),
            "file:/run/secrets/token" => Some("from a file".to_owned()),
            _ => None,
        };
        assert_eq!(expand(text, &lookup), expect.map(str::to_owned), "{text}");
    }

    #[test]
    fn variables_are_replaced_once() {
        check("plain", Ok("plain"));
        check("${A}", Ok("one"));
        check("x${A}y${A}", Ok("xoneyone"));
        check("${NESTED}", Ok("${A}"));
        check("${EMPTY}", Ok(""));
        check("cost: $5 {A}", Ok("cost: $5 {A}"));
    }

    #[test]
    fn a_file_is_named_by_its_path() {
        check("${file:/run/secrets/token}", Ok("from a file"));
        check("x${file:/run/secrets/token}${A}", Ok("xfrom a fileone"));
        let gone = ExpandError::Missing("file:/gone".into());
        assert!(gone.to_string().starts_with("the file /gone cannot be read"), "{gone}");
        check("${file:/gone}", Err(gone));
        check("${file:}", Err(ExpandError::Malformed("${file:}".into())));
        check("${file:${A}/b}", Err(ExpandError::Malformed("${file:${A}/".into())));
    }

    #[test]
    fn two_dollars_are_a_literal() {
        check("$${A}", Ok("${A}"));
        check("$${A}${A}", Ok("${A}one"));
        check("$$${A}", Ok("$${A}"));
    }

    #[test]
    fn what_is_not_there_is_named() {
        check("${GONE}", Err(ExpandError::Missing("GONE".into())));
        check("${A", Err(ExpandError::Malformed("${A".into())));
        check("${}", Err(ExpandError::Malformed("${}".into())));
        check("${A-b}", Err(ExpandError::Malformed("${A-b}".into())));
    }
}
