//! A saga as an application describes and stages it: checked when it is built.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::event::Headers;
use crate::limits::{DELAY_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX, SAGA_STEPS_MAX};
use crate::name::check_name;

use super::id::SagaId;
use super::reference::Reference;
use super::step::{Step, StepKind};

/// The order in which steps may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SagaOrder {
    /// All steps at once.
    Any,
    /// One step after the other, in the order in which they were added.
    Steps,
}

/// A saga to stage: a name, a subject, and its steps. It can always run, because [`SagaBuilder::build`] has checked
/// it.
///
/// ```
/// use pillarbox_core::{Reference, Saga, Step};
/// # fn main() -> pillarbox_core::Result<()> {
/// let erasure = Saga::group("erase_person", Reference::new("person", "p-7"))
///     .step(Step::new("crm", "crm.erase").reference(Reference::new("contact", "c-17")))
///     .step(Step::new("files", "files.erase"))
///     .build()?;
/// let booking = Saga::ordered("booking", Reference::new("booking", "b-1"))
///     .step(Step::compensatable("hotel", "hotel.book", "hotel.cancel"))
///     .step(Step::pivot("payment", "card.charge"))
///     .step(Step::retryable("mail", "mail.send"))
///     .build()?;
/// # let _ = (erasure, booking);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Saga {
    pub(super) id: Option<SagaId>,
    pub(super) name: String,
    pub(super) subject: Reference,
    pub(super) order: SagaOrder,
    pub(super) steps: Vec<Step>,
    pub(super) timeout: Option<Duration>,
    pub(super) tenant: Option<String>,
    pub(super) correlation_id: Option<String>,
    pub(super) headers: Headers,
}

impl Saga {
    /// A saga whose steps run all at once. None of them can be undone. If a step is given up, it blocks the saga.
    pub fn group(name: impl Into<String>, subject: Reference) -> SagaBuilder {
        SagaBuilder::new(name.into(), subject, SagaOrder::Any)
    }

    /// A saga whose steps run one after the other: `compensatable* pivot? retryable*`.
    pub fn ordered(name: impl Into<String>, subject: Reference) -> SagaBuilder {
        SagaBuilder::new(name.into(), subject, SagaOrder::Steps)
    }

    /// The saga's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The saga's subject: what it is about.
    #[must_use]
    pub fn subject(&self) -> &Reference {
        &self.subject
    }

    /// The handlers that the saga needs, compensations included.
    pub fn handlers(&self) -> impl Iterator<Item = &str> {
        let forward = self.steps.iter().map(|step| step.handler.as_str());
        forward.chain(self.steps.iter().filter_map(|step| step.compensation.as_deref()))
    }

    /// The id, if the caller gave the saga one.
    #[must_use]
    pub fn id(&self) -> Option<SagaId> {
        self.id
    }

    /// Adds a header to the saga's entries, such as `traceparent`, unless it is set already.
    pub fn fill_header(&mut self, name: &str, value: impl FnOnce() -> Option<String>) {
        if !self.headers.contains_key(name)
            && let Some(value) = value()
        {
            self.headers.insert(name.to_owned(), value);
        }
    }
}

/// Builds a [`Saga`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SagaBuilder(Saga);

impl SagaBuilder {
    fn new(name: String, subject: Reference, order: SagaOrder) -> Self {
        Self(Saga {
            id: None,
            name,
            subject,
            order,
            steps: Vec::new(),
            timeout: None,
            tenant: None,
            correlation_id: None,
            headers: Headers::new(),
        })
    }

    /// Adds a step.
    pub fn step(mut self, step: Step) -> Self {
        self.0.steps.push(step);
        self
    }

    /// Sets the saga's id. If it is staged again under the same id, it is staged once. Default: a fresh id at
    /// staging. Another saga on the same subject is then a new generation with keys of its own.
    pub fn id(mut self, id: SagaId) -> Self {
        self.0.id = Some(id);
        self
    }

    /// Sets how long the saga may take. After that, an ordered saga that has not passed its pivot starts no further
    /// step and is compensated. Any other saga is shown as overdue. Default: for ever.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = Some(timeout);
        self
    }

    /// Sets the tenant.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.0.tenant = Some(tenant.into());
        self
    }

    /// Sets the correlation id: what the saga belongs to across services. Default: the saga's id.
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.0.correlation_id = Some(id.into());
        self
    }

    /// Adds a header that all entries of the saga carry.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.headers.insert(name.into(), value.into());
        self
    }

    /// Checks and builds the saga.
    ///
    /// # Errors
    /// For a saga without steps, a step name that comes twice, steps that are not `compensatable* pivot? retryable*`,
    /// a step that wants compensation where it cannot have one, or anything out of bounds; named.
    pub fn build(self) -> Result<Saga> {
        let saga = self.0;
        check_name("the name of a saga", &saga.name)?;
        saga.subject.check("the subject")?;
        for (what, text) in [("tenant", &saga.tenant), ("correlation id", &saga.correlation_id)] {
            if let Some(text) = text {
                check_name(what, text)?;
            }
        }
        check_headers(&saga.headers)?;
        if saga.timeout.is_some_and(|timeout| timeout.is_zero() || timeout > DELAY_MAX) {
            return Err(Error::invalid("the timeout of a saga must be longer than zero"));
        }
        if saga.steps.is_empty() {
            return Err(Error::invalid("a saga needs at least one step"));
        }
        if saga.steps.len() > SAGA_STEPS_MAX {
            return Err(Error::too_large(format!(
                "the saga has {} steps; at most {SAGA_STEPS_MAX} are allowed",
                saga.steps.len()
            )));
        }
        let mut names = BTreeSet::new();
        for step in &saga.steps {
            step.check()?;
            if !names.insert(&step.name) {
                return Err(Error::invalid(format!(
                    "two steps have the name {:?}; give each step its own name",
                    step.name
                )));
            }
        }
        check_order(saga.order, &saga.steps)?;
        Ok(saga)
    }
}

fn check_headers(headers: &Headers) -> Result<()> {
    // The engine adds none of its own, so the bounds of an event are the bounds of a saga.
    if headers.len() > HEADERS_MAX {
        return Err(Error::too_large(format!(
            "there are {} headers; at most {HEADERS_MAX} are allowed",
            headers.len()
        )));
    }
    for (name, value) in headers {
        check_name("header name", name)?;
        if value.len() > HEADER_VALUE_BYTES_MAX || value.contains('\0') {
            return Err(Error::too_large(format!(
                "header {name:?} must have at most {HEADER_VALUE_BYTES_MAX} bytes and no NUL"
            )));
        }
    }
    Ok(())
}

/// Refuses steps that are not `compensatable* pivot? retryable*`. A group may have only steps that go forward.
fn check_order(order: SagaOrder, steps: &[Step]) -> Result<()> {
    let mut passed: Option<&Step> = None;
    for step in steps {
        let name = &step.name;
        match (order, step.kind) {
            (SagaOrder::Any, StepKind::Compensatable | StepKind::Pivot) => {
                return Err(Error::invalid(format!(
                    "step {name:?} cannot be in a group: a group has only retryable steps, without \
                     compensation. Make the step retryable, or build the saga with `Saga::ordered`"
                )));
            }
            (_, StepKind::Retryable | StepKind::Pivot) if step.compensation.is_some() => {
                return Err(Error::invalid(format!(
                    "step {name:?} is a pivot or retryable step, which is never undone. Remove its \
                     compensation, or make the step compensatable"
                )));
            }
            (SagaOrder::Steps, StepKind::Compensatable | StepKind::Pivot) => {
                if let Some(passed) = passed {
                    return Err(Error::invalid(format!(
                        "step {name:?} comes after step {:?}, but only retryable steps may follow a pivot or \
                         a retryable step. Move step {name:?} before it, or make it retryable",
                        passed.name
                    )));
                }
            }
            _ => {}
        }
        if step.kind != StepKind::Compensatable {
            passed = Some(step);
        }
    }
    Ok(())
}
