//! One step of a saga, as an application describes it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::limits::{ATTEMPTS_MAX, DELAY_MAX, STEP_INPUT_BYTES_MAX};
use crate::name::check_name;

use super::reference::Reference;

/// The kind of a step: what follows for the saga if the step fails for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The step can be undone. If it fails, every step that may have run is compensated, this one included.
    Compensatable,
    /// The point of no return. When it is done, the saga only goes forward. If it fails, the steps before it are
    /// undone.
    Pivot,
    /// The step only goes forward. If it is given up, it blocks the saga until an operator requeues it.
    Retryable,
}

/// One step: a name, the handler that does it, and what the handler works on.
///
/// ```
/// # use pillarbox_core::{Reference, Step};
/// let step = Step::compensatable("hotel", "hotel.book", "hotel.cancel").reference(Reference::new("hotel", "h-3"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub(super) name: String,
    pub(super) handler: String,
    pub(super) kind: StepKind,
    pub(super) compensation: Option<String>,
    pub(super) reference: Option<Reference>,
    pub(super) input: Value,
    pub(super) max_attempts: Option<u32>,
    pub(super) timeout: Option<Duration>,
}

impl Step {
    /// A step that only goes forward. If it is given up, it blocks the saga until an operator requeues it.
    pub fn new(name: impl Into<String>, handler: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            handler: handler.into(),
            kind: StepKind::Retryable,
            compensation: None,
            reference: None,
            input: Value::Null,
            max_attempts: None,
            timeout: None,
        }
    }

    /// A step that the handler `compensation` can undo.
    pub fn compensatable(
        name: impl Into<String>,
        handler: impl Into<String>,
        compensation: impl Into<String>,
    ) -> Self {
        let step = Self::new(name, handler);
        Self { kind: StepKind::Compensatable, compensation: Some(compensation.into()), ..step }
    }

    /// A step that is the point of no return.
    pub fn pivot(name: impl Into<String>, handler: impl Into<String>) -> Self {
        Self { kind: StepKind::Pivot, ..Self::new(name, handler) }
    }

    /// The same as [`Step::new`], for a step after the pivot.
    pub fn retryable(name: impl Into<String>, handler: impl Into<String>) -> Self {
        Self::new(name, handler)
    }

    /// Sets the handler that undoes the step. A step after the pivot must not have one: see [`SagaBuilder::build`].
    ///
    /// [`SagaBuilder::build`]: super::SagaBuilder::build
    #[must_use]
    pub fn compensation(mut self, handler: impl Into<String>) -> Self {
        self.compensation = Some(handler.into());
        self
    }

    /// Sets what the handler works on. Default: the saga's subject.
    #[must_use]
    pub fn reference(mut self, reference: Reference) -> Self {
        self.reference = Some(reference);
        self
    }

    /// Sets the value that the handler gets as its typed payload. Default: `null`.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Result<Self> {
        self.input = serde_json::to_value(input)
            .map_err(|error| Error::invalid("the input cannot be written as JSON").with_source(error))?;
        Ok(self)
    }

    /// Sets the attempts allowed for this step and for its compensation. Default: the route's policy.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Sets how long one run of the handler may take. After that its outcome counts as unknown, and the handler is
    /// run again under the same key. The lease is renewed for as long as the handler runs. Default: one hour.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        check_name("the name of a step", &self.name)?;
        let of = format!("step {:?}", self.name);
        check_name(&format!("the handler of {of}"), &self.handler)?;
        if let Some(handler) = &self.compensation {
            check_name(&format!("the compensation of {of}"), handler)?;
        }
        if let Some(reference) = &self.reference {
            reference.check(&format!("the reference of {of}"))?;
        }
        let bytes = self.input.to_string().len();
        if bytes > STEP_INPUT_BYTES_MAX {
            return Err(Error::too_large(format!(
                "the input of {of} has {bytes} bytes; at most {STEP_INPUT_BYTES_MAX} are allowed"
            )));
        }
        if self.max_attempts.is_some_and(|attempts| attempts == 0 || attempts > ATTEMPTS_MAX) {
            return Err(Error::invalid(format!("max_attempts of {of} must be 1 to {ATTEMPTS_MAX}")));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero() || timeout > DELAY_MAX) {
            return Err(Error::invalid(format!("the timeout of {of} must be longer than zero")));
        }
        Ok(())
    }
}
