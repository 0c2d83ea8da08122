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

/// The input of a handler: the entry, with its idempotency key and the number of this attempt.
///
/// The entry's lease is renewed for as long as the handler runs.
#[derive(Clone, Debug)]
pub struct Handling(pub(super) Entry);

impl Handling {
    /// The idempotency key: the same for every attempt of one event. Pass it to every service that the
    /// handler calls.
    #[must_use]
    pub fn idempotency_key(&self) -> EventId {
        self.0.event_id
    }

    /// The event's id: the idempotency key.
    #[must_use]
    pub fn event_id(&self) -> EventId {
        self.0.event_id
    }

    /// The number of this attempt, starting at 1.
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

    /// Whether this entry is a step of a saga, or the compensation of a step.
    #[must_use]
    pub fn is_step(&self) -> bool {
        self.0.content_type == STEP_CONTENT_TYPE
    }

    /// The step of a saga that the handler is to do or to undo.
    ///
    /// # Errors
    /// An entry that is not a step is rejected for good.
    pub fn step(&self) -> Result<StepInput, HandlerError> {
        if !self.is_step() {
            return Err(HandlerError::reject("not_a_step", "the entry is not a step of a saga"));
        }
        Ok(read_json(&self.0.payload)?)
    }

    /// A reference to the object that this step works on.
    ///
    /// # Errors
    /// An entry that is not a step is rejected for good.
    pub fn reference(&self) -> Result<Reference, HandlerError> {
        Ok(self.step()?.reference)
    }

    /// The data that an earlier step passed on. In a compensation, also the data of the step itself. `None`:
    /// that step passed nothing on.
    ///
    /// # Errors
    /// Data of another shape is rejected for good.
    pub fn data<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>, HandlerError> {
        let Some(data) = self.step()?.data.remove(step) else { return Ok(None) };
        let wrong = |error: PayloadError| {
            let at = error.path().unwrap_or_default();
            HandlerError::reject(
                "data",
                format!("the data of step {step:?} does not have the expected shape at `{at}`"),
            )
        };
        read_value(data).map(Some).map_err(wrong)
    }

    /// The payload as a JSON value of this type. For a step, this is the input that the application gave for
    /// it.
    ///
    /// # Errors
    /// A payload of another shape is rejected for good. The error has the path of the field, not its value.
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

/// The answer of a handler that did not fail. `()` is [`Handled::Done`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Handled {
    /// The work is done.
    Done,
    /// The work is done. Later steps of the saga are given this value.
    DoneWith(Value),
    /// The work had been done before. This counts as done.
    AlreadyDone,
    /// The work cannot be done now. Try again after this long. The attempt is spent.
    RetryAfter(Duration),
    /// The work can never be done: the entry is dead at once.
    Reject(String),
    /// The work must wait until this time. The entry is then tried again, with all of its attempts.
    ParkUntil(Timestamp),
    /// The work must wait for this long. Otherwise the same as [`Handled::ParkUntil`].
    ParkFor(Duration),
}

impl Handled {
    /// The work is done. Later steps of the saga are given this value.
    ///
    /// # Errors
    /// A value that cannot be written as JSON is rejected for good.
    pub fn done_with<T: Serialize + ?Sized>(data: &T) -> Result<Self, HandlerError> {
        let wrong =
            |_| HandlerError::reject("data", "the data that the step passes on cannot be written as JSON");
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
/// The `?` operator turns any error into a `HandlerError`, also `anyhow::Error` and `Box<dyn Error + Send +
/// Sync>`:
///
/// - A [`PayloadError`](pillarbox_core::PayloadError) is rejected for good, also if it is the source of
///   another error.
/// - Every other error is retried. The entry stores only the error's type with its module path, because the
///   message may contain data. The whole chain of messages is logged, redacted: at WARN for the last attempt,
///   at DEBUG before it.
#[derive(Clone, Debug)]
pub struct HandlerError(Outcome);

impl HandlerError {
    /// The work failed for good: the entry is never tried again.
    pub fn reject(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self(Outcome::rejected(code, text))
    }

    /// The work failed. The entry is tried again after the route's backoff.
    pub fn retry(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self(Outcome::failed(code, text))
    }

    /// The work failed. The entry is tried again after this long.
    pub fn retry_after(wait: Duration, code: impl Into<String>, text: impl AsRef<str>) -> Self {
        let failure = Failure::new(FailureKind::Failed, code, text);
        Self(Outcome::Failed { failure, retry_after: Some(wait) })
    }

    /// It is unknown whether the work was done, as after a timeout. The entry is tried again under the same
    /// key, and the step is never compensated.
    pub fn unknown(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self(Outcome::unknown(code, text))
    }

    /// A service that the handler needs is down. The attempt is not spent, and the whole route waits.
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
