//! The only type by which a name gets into SQL text.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Longest prefix or schema, in characters.
const CHARS_MAX: usize = 31;
/// Longest derived name, in characters. PostgreSQL and MySQL keep a name of this length without cutting it.
const JOINED_CHARS_MAX: usize = 63;

/// A SQL identifier that needs no escaping on any database: `^[a-z_][a-z0-9_]{0,30}$`.
///
/// Values are always bound. Names cannot be bound, so every name of a table goes through this type.
///
/// ```
/// use pillarbox_core::Ident;
///
/// assert_eq!(Ident::new("billing")?.as_str(), "billing");
/// assert!(Ident::new("billing; drop table orders").is_err());
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ident(String);

impl Ident {
    /// Checks and wraps a name.
    ///
    /// # Errors
    /// When it does not match; the error says what is allowed.
    pub fn new(name: &str) -> Result<Self> {
        if is_ident(name, CHARS_MAX) {
            return Ok(Self(name.to_owned()));
        }
        let shown: String = name.chars().take(CHARS_MAX + 1).collect();
        Err(Error::invalid(format!(
            "{shown:?} is not a valid table name: use 1 to {CHARS_MAX} of the characters a-z, 0-9 and _, and \
             do not start with a digit"
        )))
    }

    /// This name followed by `_` and a suffix, such as a prefix followed by a table's name.
    ///
    /// # Errors
    /// When the suffix has other characters than an identifier, or the whole is too long for a database.
    pub fn join(&self, suffix: &str) -> Result<Self> {
        let joined = format!("{}_{suffix}", self.0);
        if !is_ident(&joined, JOINED_CHARS_MAX) {
            return Err(Error::invalid(format!(
                "{:?} with a suffix of {} characters is not a valid table name: use at most \
                 {JOINED_CHARS_MAX} of the characters a-z, 0-9 and _",
                self.0,
                suffix.chars().count()
            )));
        }
        Ok(Self(joined))
    }

    /// The bare name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in double quotes. They keep a word like `order` from being read as SQL.
    #[must_use]
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

fn is_ident(name: &str, chars_max: usize) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    starts_well
        && name.len() <= chars_max
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

impl Default for Ident {
    /// `pillarbox`, the default prefix of every table.
    fn default() -> Self {
        Self("pillarbox".to_owned())
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Ident {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_has_1_to_31_plain_characters() {
        for (name, allowed) in [
            ("pillarbox", true),
            ("_", true),
            ("a1_", true),
            ("order", true),
            (&"a".repeat(31), true),
            (&"a".repeat(32), false),
            ("", false),
            ("1a", false),
            ("Pillarbox", false),
            ("a-b", false),
            ("a b", false),
            ("a.b", false),
            ("a\"b", false),
            ("a'; drop table x; --", false),
            ("a\0", false),
            ("a\n", false),
            ("é", false),
            ("ａ", false),
        ] {
            let ident = Ident::new(name);
            assert_eq!(ident.is_ok(), allowed, "{name:?}");
            if let Err(error) = ident {
                assert!(
                    error.to_string().contains("use 1 to 31 of the characters a-z, 0-9 and _"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn a_refused_name_is_shown_cut_and_escaped() {
        let error = Ident::new(&"x\0".repeat(10_000)).unwrap_err().to_string();
        assert!(error.len() < 400 && !error.contains('\0'), "{error:?}");
    }

    #[test]
    fn a_joined_name_stays_an_identifier() {
        let prefix = Ident::new(&"p".repeat(31)).unwrap();
        assert_eq!(Ident::new("shop").unwrap().join("outbox").unwrap().as_str(), "shop_outbox");
        assert_eq!(prefix.join(&"s".repeat(31)).unwrap().as_str().len(), 63);
        for suffix in [&"s".repeat(32), "a b", "A", "\"", "é"] {
            assert!(prefix.join(suffix).is_err(), "{suffix:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_needs_no_escaping(
            name in prop_oneof![
                "[a-z_][a-z0-9_]{0,34}",
                "[a-z0-9_\"'`;\\\\\\x00\\n .\\[\\]-]{0,40}",
                "\\PC{0,40}",
                any::<String>(),
            ],
        ) {
            let plain = name.len() <= 31
                && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
                && !name.starts_with(|c: char| c.is_ascii_digit())
                && !name.is_empty();
            prop_assert_eq!(Ident::new(&name).is_ok(), plain);
            if let Ok(ident) = name.parse::<Ident>() {
                prop_assert_eq!(ident.as_str(), &name);
                prop_assert_eq!(ident.to_string(), name.clone());
                prop_assert_eq!(ident.quoted(), format!("\"{name}\""));
            }
        }
    }
}
