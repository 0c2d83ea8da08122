//! The outcome of a delivery, and what is stored about a failure.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::limits::{CAUSE_BYTES_MAX, ERROR_TEXT_BYTES_MAX};
use crate::redact::redact;

/// Why an attempt did not deliver, as a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The destination or handler refused this message for good.
    Rejected,
    /// This message failed and may work later.
    Failed,
    /// The destination cannot be reached, or accepts nothing.
    Down,
    /// The confirmation was lost. The message may have been delivered.
    Unknown,
    /// The handler or sink panicked.
    Panicked,
    /// The stored row cannot be decoded as an entry.
    Undecodable,
    /// No handler of this name is registered.
    UnknownHandler,
    /// The lease ended before a relay settled the entry.
    LeaseExpired,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Rejected,
        Self::Failed,
        Self::Down,
        Self::Unknown,
        Self::Panicked,
        Self::Undecodable,
        Self::UnknownHandler,
        Self::LeaseExpired,
    ];

    /// The stable lower-case name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Down => "down",
            Self::Unknown => "unknown",
            Self::Panicked => "panicked",
            Self::Undecodable => "undecodable",
            Self::UnknownHandler => "unknown_handler",
            Self::LeaseExpired => "lease_expired",
        }
    }
}

impl FromStr for FailureKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            Error::invalid(format!(
                "unknown kind of error {text:?}; the known kinds are {}",
                Self::ALL.map(Self::as_str).join(", ")
            ))
        })
    }
}

/// What is stored about a failed attempt: a kind, a code and a short redacted text.
///
/// It never holds a payload, SQL parameter values or a secret. As text it reads `kind/code: words`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The class of the failure.
    pub kind: FailureKind,
    code: String,
    text: String,
    cause: Option<Box<str>>,
}

impl Failure {
    /// The failure of an entry that no relay settled before its lease ended.
    #[must_use]
    pub fn lease_expired() -> Self {
        let kind = FailureKind::LeaseExpired;
        Self::new(kind, kind.as_str(), "its lease ended before a relay recorded an outcome")
    }

    /// A failure with a stable code and a text for people. The text is redacted and cut to its limit.
    pub fn new(kind: FailureKind, code: impl Into<String>, text: impl AsRef<str>) -> Self {
        // A slash or a space in the code would make the stored text ambiguous; a colon without a space does not.
        let mut code: String = code
            .into()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':') { c } else { '_' })
            .collect();
        code.truncate(64);
        Self { kind, code, text: cut(redact(text.as_ref()), ERROR_TEXT_BYTES_MAX), cause: None }
    }

    /// Adds the whole chain of errors behind the failure, redacted and cut to its limit. The chain is only for the
    /// log. It is never stored, and [`Display`](fmt::Display) leaves it out.
    #[must_use]
    pub fn caused_by(mut self, chain: &str) -> Self {
        self.cause = Some(cut(redact(chain), CAUSE_BYTES_MAX).into());
        self
    }

    /// Takes out the chain of errors, so that it is logged once and goes no further.
    pub fn take_cause(&mut self) -> Option<Box<str>> {
        self.cause.take()
    }

    /// The stable code, such as `too_large` or a SQLSTATE.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The kind and the code, as in `failed/timeout`. Failures of one sort share this name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.kind.as_str(), self.code)
    }

    /// The redacted text for people.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads back what [`Display`](fmt::Display) wrote. Text in another form becomes the text of a `failed`. The
    /// text is redacted again, because plain SQL may have written it.
    #[must_use]
    pub fn parse(stored: &str) -> Self {
        let parsed = stored.split_once('/').and_then(|(kind, rest)| {
            let kind = FailureKind::ALL.into_iter().find(|known| known.as_str() == kind)?;
            let (code, text) = rest.split_once(": ").unwrap_or((rest, ""));
            Some(Self { kind, code: code.into(), text: redact(text), cause: None })
        });
        parsed.unwrap_or_else(|| Self {
            kind: FailureKind::Failed,
            code: "other".into(),
            text: redact(stored),
            cause: None,
        })
    }
}

fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max - '…'.len_utf8()).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str(), self.code)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, ": {}", self.text) }
    }
}

impl Serialize for Failure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl From<(FailureKind, &Error)> for Failure {
    fn from((kind, error): (FailureKind, &Error)) -> Self {
        Self::new(kind, error.code().unwrap_or(error.kind().as_str()), error.message())
    }
}

/// The outcome of handing one entry to a sink.
///
/// ```
/// use std::time::Duration;
/// use pillarbox_core::Outcome;
///
/// let later = Outcome::failed("http_503", "the shop is closed").retry_after(Duration::from_secs(30));
/// assert_eq!(later.failure().unwrap().code(), "http_503");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The destination confirmed the entry.
    Confirmed,
    /// A handler has done the entry's work. If the entry is a step of a saga, this value is passed on to later
    /// steps.
    ConfirmedWith(serde_json::Value),
    /// The destination refused the message for good. The entry is dead at once.
    Rejected(Failure),
    /// This message failed and may work later. If `retry_after` is set, it replaces the route's backoff.
    Failed {
        /// What went wrong.
        failure: Failure,
        /// How long to wait before the next attempt, if the destination said so.
        retry_after: Option<Duration>,
    },
    /// The destination is down. The route's circuit opens, and no attempt is spent.
    Down(Failure),
    /// The destination answers but accepts nothing now: it is full, or asks to be left alone. As with
    /// [`Down`](Self::Down), the route's circuit opens and no attempt is spent.
    ///
    /// A destination that answers may refuse only some messages. So each probe that it refuses makes the next probe
    /// larger. If one message of a probe gets through, the circuit closes.
    Busy {
        /// What the destination said.
        failure: Failure,
        /// How long to wait before the next probe, if the destination said so.
        retry_after: Option<Duration>,
    },
    /// The confirmation was lost. The entry is tried again under the same event id.
    Unknown(Failure),
    /// Nothing was tried, because an entry of the same key before this one was not delivered. No attempt is spent. Only
    /// sinks with [`ordered_prefix`](crate::port::SinkCapabilities::ordered_prefix) report it.
    Untried,
    /// It is too early for the entry. It is tried again after this long, with all of its attempts.
    Parked {
        /// How long to wait.
        after: Duration,
    },
}

impl Outcome {
    /// A refusal for good, with a code and a text.
    pub fn rejected(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self::Rejected(Failure::new(FailureKind::Rejected, code, text))
    }

    /// A failure that may work later.
    pub fn failed(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self::Failed { failure: Failure::new(FailureKind::Failed, code, text), retry_after: None }
    }

    /// An outage of the destination.
    pub fn down(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self::Down(Failure::new(FailureKind::Down, code, text))
    }

    /// Sets how long to wait before the next attempt or probe. `None`: the route decides.
    ///
    /// Only [`Failed`](Self::Failed) and [`Busy`](Self::Busy) have such a wait. Other outcomes stay as they are.
    #[must_use]
    pub fn retry_after(mut self, wait: impl Into<Option<Duration>>) -> Self {
        if let Self::Failed { retry_after, .. } | Self::Busy { retry_after, .. } = &mut self {
            *retry_after = wait.into();
        }
        self
    }

    /// What went wrong, if anything did.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Rejected(failure)
            | Self::Failed { failure, .. }
            | Self::Down(failure)
            | Self::Busy { failure, .. }
            | Self::Unknown(failure) => Some(failure),
            Self::Confirmed | Self::ConfirmedWith(_) | Self::Untried | Self::Parked { .. } => None,
        }
    }

    /// Like [`failure`](Self::failure), to change it.
    pub fn failure_mut(&mut self) -> Option<&mut Failure> {
        match self {
            Self::Rejected(failure)
            | Self::Failed { failure, .. }
            | Self::Down(failure)
            | Self::Busy { failure, .. }
            | Self::Unknown(failure) => Some(failure),
            Self::Confirmed | Self::ConfirmedWith(_) | Self::Untried | Self::Parked { .. } => None,
        }
    }

    /// A destination that accepts nothing now. It is shown as an outage.
    pub fn busy(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self::Busy { failure: Failure::new(FailureKind::Down, code, text), retry_after: None }
    }

    /// A lost confirmation.
    pub fn unknown(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self::Unknown(Failure::new(FailureKind::Unknown, code, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_round_trips_through_its_stored_text() {
        for kind in FailureKind::ALL {
            let failure = Failure::new(kind, "E_42", "queue: full");
            assert_eq!(Failure::parse(&failure.to_string()), failure);
            let bare = Failure::new(kind, "E_42", "");
            assert_eq!(Failure::parse(&bare.to_string()), bare);
        }
    }

    #[test]
    fn foreign_text_is_kept() {
        assert_eq!(Failure::parse("boom: it broke").text(), "boom: it broke");
        assert_eq!(Failure::parse("http://x/y").kind, FailureKind::Failed);
    }

    #[test]
    fn the_text_is_cut_at_a_character() {
        let failure = Failure::new(FailureKind::Failed, "long", "é".repeat(2000));
        assert!(failure.text().len() <= ERROR_TEXT_BYTES_MAX);
        assert!(failure.text().ends_with('…'));
    }

    #[test]
    fn a_failure_never_carries_a_secret() {
        for text in [
            "connect amqp://app:canary@mq:5672/%2f: refused",
            "POST https://hooks.example.org/x?token=canary gave 500",
            "password=canary host=db",
            "Authorization: Bearer canary",
            "signature whsec_canarycanarycanary does not match",
            r#"{"api_key": "canary"}"#,
        ] {
            for failure in [
                Failure::new(FailureKind::Failed, "E1", text),
                Failure::from((FailureKind::Down, &Error::invalid(text))),
                Failure::parse(&format!("failed/E1: {text}")),
                Failure::parse(text),
            ] {
                let shown = format!("{failure} {failure:?} {}", serde_json::to_string(&failure).unwrap());
                assert!(!shown.contains("canary"), "{shown}");
            }
            let outcomes = [
                Outcome::rejected("E1", text),
                Outcome::failed("E1", text),
                Outcome::down("E1", text),
                Outcome::busy("E1", text),
                Outcome::unknown("E1", text),
            ];
            assert!(!format!("{outcomes:?}").contains("canary"), "{outcomes:?}");
        }
    }

    #[test]
    fn a_secret_is_masked_before_the_text_is_cut() {
        // Cut first, the password would lose the `@` that shows it for what it is.
        let text = format!("{} postgres://app:canarycanary@db", "x".repeat(ERROR_TEXT_BYTES_MAX - 24));
        assert!(!Failure::new(FailureKind::Down, "refused", text).to_string().contains("canary"));
    }

    #[test]
    fn the_cause_is_redacted_and_goes_no_further_than_the_log() {
        let mut failure = Failure::new(FailureKind::Failed, "std::io::error::Error", "")
            .caused_by("connect postgres://app:canary@db: no such host");
        assert_eq!(failure.to_string(), "failed/std::io::error::Error");
        let cause = failure.take_cause().unwrap();
        assert!(cause.contains("no such host") && !cause.contains("canary"), "{cause}");
        assert_eq!(failure, Failure::parse(&failure.to_string()), "nothing of it is left");
        let long = Failure::new(FailureKind::Failed, "long", "").caused_by(&"x".repeat(10_000)).take_cause();
        assert!(long.unwrap().len() <= CAUSE_BYTES_MAX);
    }

    #[test]
    fn a_code_is_one_short_word() {
        let failure = Failure::new(FailureKind::Failed, "a/b: c\n".repeat(40), "t");
        assert_eq!(failure.code().len(), 64);
        assert!(failure.code().starts_with("a_b:_c_"));
        assert_eq!(Failure::parse(&failure.to_string()), failure);
    }
}
