//! `[log]`: how the process tells of its work.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// How lines on stderr look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// The word in the file.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
        }
    }
}

impl<'de> Deserialize<'de> for LogFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            other => Err(D::Error::custom(format!("{other:?} is not a format; write \"human\" or \"json\""))),
        }
    }
}

/// The keys of `[log]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogConfig {
    /// How lines on stderr look. Default: for people.
    #[serde(default)]
    pub(crate) format: LogFormat,
}
