//! Words for a shell, in commands that are advised.

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_with_blanks_or_quotes_is_quoted() {
        assert_eq!(quoted("mail-2"), "mail-2");
        assert_eq!(quoted("the mail"), "'the mail'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
