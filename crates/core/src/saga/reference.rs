//! References: what a saga or a step is about.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::limits::{HEADER_VALUE_BYTES_MAX, REFERENCE_EXTRA_MAX};
use crate::name::check_name;

/// A reference to a thing in another system: its kind, its name there, and more values that are needed to find it.
///
/// ```
/// # use pillarbox_core::Reference;
/// let contact = Reference::new("crm_contact", "c-17").extra("region", "eu");
/// assert_eq!(contact.to_string(), "crm_contact/c-17");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reference {
    /// The kind of the thing, 1 to 255 characters.
    pub kind: String,
    /// The name of the thing, 1 to 255 characters.
    pub value: String,
    /// More values that are needed to find the thing. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, String>,
}

impl Reference {
    /// A reference of this kind and value. It is checked when its saga is built.
    pub fn new(kind: impl Into<String>, value: impl Into<String>) -> Self {
        Self { kind: kind.into(), value: value.into(), extra: BTreeMap::new() }
    }

    /// Adds a value that is needed to find the thing.
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }

    /// Refuses a reference with a value out of range.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) or [`TooLarge`](crate::ErrorKind::TooLarge), naming the field.
    pub fn check(&self, whose: &str) -> Result<()> {
        check_name(&format!("the kind of {whose}"), &self.kind)?;
        check_name(&format!("the value of {whose}"), &self.value)?;
        if self.extra.len() > REFERENCE_EXTRA_MAX {
            return Err(Error::too_large(format!(
                "{whose} has {} extra values; at most {REFERENCE_EXTRA_MAX} are allowed",
                self.extra.len()
            )));
        }
        for (name, value) in &self.extra {
            check_name(&format!("the name of an extra value of {whose}"), name)?;
            if value.len() > HEADER_VALUE_BYTES_MAX || value.contains('\0') {
                return Err(Error::too_large(format!(
                    "the extra value {name:?} of {whose} must have at most {HEADER_VALUE_BYTES_MAX} bytes and no NUL"
                )));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.value)
    }
}
