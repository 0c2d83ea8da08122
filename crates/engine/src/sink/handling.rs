//! What a handler is given, and what it answers.

use std::time::Duration;

use pillarbox_core::limits::STEP_TIMEOUT_DEFAULT;
use pillarbox_core::{
    Entry, EventId, Failure, FailureKind, Outcome, PayloadError, Reference, STEP_CONTENT_TYPE, StepInput,
    Timestamp, read_json, read_value,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cause::outcome_of;

/// What a handler is given: the entry, with its idempotency key and the number of this attempt.
///
/// The entry's lease is renewed for as long as the handler runs.
#[derive(Clone, Debug)]
pub struct Handling(pub(super) Entry);

impl Handling {
    /// The idempotency key: the same for every attempt of one event. Hand it on to whatever the handler calls.
    #[must_use]
    pub fn idempotency_key(&self) -> EventId {
        self.0.event_id
    }

    /// The event's id: the idempotency key.
    #[must_use]
    pub fn event_id(&self) -> EventId {
        self.0.event_id
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempts
    }

    /// The W3C `traceparent` that the event was staged with.
    #[must_use]
    pub fn trace(&self) -> Option<&str> {
        self.0.headers.get("traceparent").map(String::as_str)
    }

    /// The whole entry.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.0
    }

    /// Whether this is a step of a saga, or its compensation.
    #[must_use]
    pub fn is_step(&self) -> bool {
        self.0.content_type == STEP_CONTENT_TYPE
    }

    /// The step of a saga that is to be done or undone.
    ///
    /// # Errors
    /// An entry that is not a step is rejected for good.
    pub fn step(&self) -> Result<StepInput, HandlerError> {
        if !self.is_step() {
            return Err(HandlerError::reject("not_a_step", "the entry is not a step of a saga"));
        }
        Ok(read_json(&self.0.payload)?)
    }

    /// What a step is about.
    ///
    /// # Errors
    /// An entry that is not a step is rejected for good.
    pub fn reference(&self) -> Result<Reference, HandlerError> {
        Ok(self.step()?.reference)
    }

    /// What an earlier step passed on; for a compensation also what the step itself did. `None`: nothing.
    ///
    /// # Errors
    /// Data of another shape is rejected for good.
    pub fn data<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>, HandlerError> {
        let Some(data) = self.step()?.data.remove(step) else { return Ok(None) };
        let wrong = |error: PayloadError| {
            let at = error.path().unwrap_or_default();
            HandlerError::reject("data", format!("what the step {step:?} passed on does not fit at `{at}`"))
        };
        read_value(data).map(Some).map_err(wrong)
    }

    /// The payload as a JSON value of this type: of a step, the input that the application gave for it.
    ///
    /// # Errors
    /// A payload of another shape is rejected for good, with the path of the field and without its value.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        if !self.is_step() {
            return Ok(read_json(&self.0.payload)?);
        }
        Ok(read_value(self.step()?.input)?)
    }

    /// How long one run may take.
    pub(super) fn timeout(&self) -> Option<Duration> {
        if !self.is_step() {
            return None;
        }
        let own = self.step().ok().and_then(|step| step.timeout_millis).map(Duration::from_millis);
        Some(own.unwrap_or(STEP_TIMEOUT_DEFAULT))
    }

    /// How long it is until then, by the clock that claimed the entry.
    pub(super) fn until(&self, at: Timestamp) -> Duration {
        at.since(self.0.last_attempt_at.unwrap_or(self.0.created_at))
    }
}

/// What a handler answers when nothing broke. `()` is [`Handled::Done`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Handled {
    /// The work is done.
    Done,
    /// The work is done, and later steps of the saga are given this.
    DoneWith(Value),
    /// The work had been done before: the same as done.
    AlreadyDone,
    /// Not now: try again after this long. The attempt is spent.
    RetryAfter(Duration),
    /// Never: the entry is dead at once.
    Reject(String),
    /// Not before this time: looked at again then, with all of its attempts.
    ParkUntil(Timestamp),
    /// The same, so long from now.
    ParkFor(Duration),
}

impl Handled {
    /// The work is done, and later steps of the saga are given this.
    ///
    /// # Errors
    /// A value that cannot be written as JSON is rejected for good.
    pub fn done_with<T: Serialize + ?Sized>(data: &T) -> Result<Self, HandlerError> {
        let wrong = |_| HandlerError::reject("data", "what the step passes on cannot be written as JSON");
        serde_json::to_value(data).map(Self::DoneWith).map_err(wrong)
    }
}

impl From<()> for Handled {
    fn from((): ()) -> Self {
        Self::Done
    }
}

/// Why a handler did not do its work.
///
/// Any error becomes one with `?`, `anyhow::Error` and `Box<dyn Error + Send + Sync>` too:
///
/// - A [`PayloadError`](pillarbox_core::PayloadError), also as the source of another error, is rejected for good.
/// - Every other one is tried again. Stored is its type with its module path, since its message may carry data. The
///   whole chain of messages is logged, redacted: at WARN for the last attempt, at DEBUG before it.
#[derive(Clone, Debug)]
pub struct HandlerError(Outcome);

impl HandlerError {
    /// Never try this entry again.
    pub fn reject(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self(Outcome::rejected(code, text))
    }

    /// Try again after the route's backoff.
    pub fn retry(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self(Outcome::failed(code, text))
    }

    /// Try again after this long.
    pub fn retry_after(wait: Duration, code: impl Into<String>, text: impl AsRef<str>) -> Self {
        let failure = Failure::new(FailureKind::Failed, code, text);
        Self(Outcome::Failed { failure, retry_after: Some(wait) })
    }

    /// Not known whether the work was done, as after a timeout: tried again under the same key, and never compensated.
    pub fn unknown(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self(Outcome::unknown(code, text))
    }

    /// What the handler needs is down: no attempt is spent, and the whole route waits.
    pub fn down(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self(Outcome::down(code, text))
    }
}

impl From<HandlerError> for Outcome {
    fn from(error: HandlerError) -> Self {
        error.0
    }
}

// Not only types that are errors: `anyhow::Error` and `Box<dyn Error + Send + Sync>` are not, and turn into one.
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(outcome_of(std::any::type_name::<E>(), &*error.into()))
    }
}
