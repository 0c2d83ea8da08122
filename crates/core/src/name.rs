//! Names with a rule: the name of a route, and the check that all short texts share.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::limits::NAME_CHARS_MAX;

/// Refuses a text that is empty, over [`NAME_CHARS_MAX`] characters or has control characters in it.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) or [`TooLarge`](crate::ErrorKind::TooLarge), naming `what`.
pub fn check_name(what: &str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(format!("{what} must not be empty")));
    }
    let chars = text.chars().count();
    if chars > NAME_CHARS_MAX {
        return Err(Error::too_large(format!(
            "{what} has {chars} characters; at most {NAME_CHARS_MAX} are allowed"
        )));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(format!("{what} must not contain control characters")));
    }
    Ok(())
}

/// The name of a route, 1 to 255 characters. A route is a named part of the outbox with one destination and one
/// policy. The name is cheap to clone, because every entry carries one.
///
/// ```
/// use pillarbox_core::RouteName;
///
/// assert_eq!(RouteName::new("orders")?.as_str(), "orders");
/// assert!(RouteName::new("two\nlines").is_err());
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteName(Arc<str>);

impl RouteName {
    /// Checks and wraps a name.
    ///
    /// # Errors
    /// When it is empty, over-long or has control characters.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        check_name("route", &name)?;
        Ok(Self(name.into()))
    }

    /// A name that is safe to show, from a text that plain SQL may have written. Control characters are left out,
    /// and a long text is cut to the limit. If nothing is left, the name is `?`.
    #[must_use]
    pub fn shown(text: &str) -> Self {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
        Self(if shown.is_empty() { "?".into() } else { shown.into() })
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RouteName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<&str> for RouteName {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl Serialize for RouteName {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RouteName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_1_to_255_characters() {
        for (name, allowed) in [
            (String::new(), false),
            ("a".into(), true),
            ("é".repeat(255), true),
            ("a".repeat(256), false),
            ("a\nb".into(), false),
        ] {
            assert_eq!(RouteName::new(name.clone()).is_ok(), allowed, "{name:?}");
        }
    }
}
