//! `[trace]`: where traces go, and how a consumer continues them.

use pillarbox_core::redact_url;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// How the span of a consumer is tied to the context that is stored with an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TraceRelation {
    /// It begins a trace of its own, with a link.
    #[default]
    Link,
    /// It continues the trace, as a child.
    Parent,
}

impl TraceRelation {
    /// The word in the file.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Parent => "parent",
        }
    }
}

impl<'de> Deserialize<'de> for TraceRelation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "link" => Ok(Self::Link),
            "parent" => Ok(Self::Parent),
            other => {
                Err(D::Error::custom(format!("{other:?} is not a relation; write \"link\" or \"parent\"")))
            }
        }
    }
}

/// The base URL of a receiver of OTLP over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TraceEndpoint(String);

impl TraceEndpoint {
    /// The URL that traces are sent to.
    #[cfg(feature = "otlp")]
    pub(crate) fn traces(&self) -> String {
        format!("{}/v1/traces", self.0.trim_end_matches('/'))
    }

    /// The URL without a password.
    pub(crate) fn shown(&self) -> String {
        redact_url(&self.0)
    }
}

impl std::fmt::Debug for TraceEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

impl<'de> Deserialize<'de> for TraceEndpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let url = String::deserialize(deserializer)?;
        if !cfg!(feature = "otlp") {
            return Err(D::Error::custom("this build cannot send traces; build it with the feature `otlp`"));
        }
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        match rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default()) {
            Some(host) if host.contains('@') => Err(D::Error::custom(
                "the URL has a user or a password, which are not sent. Set OTEL_EXPORTER_OTLP_HEADERS instead",
            )),
            Some(host) if !host.is_empty() && !url.contains(['?', '#', ' ']) => Ok(Self(url)),
            _ => Err(D::Error::custom(
                "write the URL of a receiver of OTLP over HTTP, such as \"http://localhost:4318\"",
            )),
        }
    }
}

/// The keys of `[trace]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceConfig {
    /// Where traces go. Default: where the environment says, else nowhere.
    pub(crate) endpoint: Option<TraceEndpoint>,
    /// How a consumer continues traces. Default: by links.
    #[serde(default)]
    pub(crate) relation: TraceRelation,
}
