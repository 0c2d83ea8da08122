//! A staged saga: the stored row.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{EventId, Headers};
use crate::name::RouteName;
use crate::time::Timestamp;

use super::definition::{Saga, SagaOrder};
use super::id::{SagaId, step_key};
use super::reference::Reference;
use super::states::{Direction, SagaStatus, StepState};
use super::step::{Step, StepKind};

/// A staged saga with the state of its steps. Only the decisions of this module change it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SagaRecord {
    /// The saga's id, which is the `group_id` of its entries.
    pub id: SagaId,
    /// The name.
    pub name: String,
    /// The route of the saga's entries.
    pub route: RouteName,
    /// The saga's subject: what it is about.
    pub subject: Reference,
    /// The saga's number among those of the same name and subject, counted from 1.
    pub generation: u32,
    /// Where it is.
    pub status: SagaStatus,
    /// The order in which steps may run.
    pub order: SagaOrder,
    /// The steps, in their order.
    pub steps: Vec<StepRecord>,
    /// How long the saga may take.
    #[serde(skip)]
    pub timeout: Option<Duration>,
    #[serde(skip)]
    pub(super) tenant: Option<String>,
    #[serde(skip)]
    pub(super) correlation_id: Option<String>,
    #[serde(skip)]
    pub(super) headers: Headers,
    /// The version, which grows with every change. To write the saga, a store shows the version that it read.
    #[serde(skip)]
    pub version: i64,
    /// When a sweep must look at the saga. `None`: there is no need.
    pub due_at: Option<Timestamp>,
    /// When the saga was staged.
    pub created_at: Timestamp,
    /// When the saga last changed.
    pub updated_at: Timestamp,
    /// When the saga ended.
    pub ended_at: Option<Timestamp>,
}

/// A step of a staged saga.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The name.
    pub name: String,
    /// The handler that does the step.
    pub handler: String,
    /// What a failure of the step means for the saga.
    pub kind: StepKind,
    /// The handler that undoes the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<String>,
    /// What the step works on. `None`: the saga's subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// Where it is.
    pub state: StepState,
    /// The last failure that ended the step, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) input: Value,
    /// The data that the step passed on to later steps.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) data: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) timeout_millis: Option<u64>,
}

impl StepRecord {
    fn new(step: Step) -> Self {
        Self {
            name: step.name,
            handler: step.handler,
            kind: step.kind,
            compensation: step.compensation,
            reference: step.reference,
            state: StepState::Waiting,
            error: None,
            input: step.input,
            data: Value::Null,
            max_attempts: step.max_attempts,
            timeout_millis: step.timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok()),
        }
    }
}

/// A row of the saga table, as every store keeps it, in whatever column types.
#[derive(Clone, Debug, PartialEq)]
pub struct SagaColumns {
    /// Primary key, as hyphenated text.
    pub id: String,
    /// The name.
    pub name: String,
    /// The route of the saga's entries.
    pub route: String,
    /// The subject's kind.
    pub subject_kind: String,
    /// The subject's value.
    pub subject_value: String,
    /// Unique with name and subject.
    pub generation: i64,
    /// [`SagaStatus::as_str`].
    pub status: String,
    /// Grows with every change.
    pub version: i64,
    /// How many of the saga's entries are known to be dead.
    pub dead: i64,
    /// When a sweep must look at the saga.
    pub due_at: Option<Timestamp>,
    /// The saga's deadline.
    pub deadline_at: Option<Timestamp>,
    /// Everything else, as JSON.
    pub body: String,
    /// When the saga was staged.
    pub created_at: Timestamp,
    /// When the saga last changed.
    pub updated_at: Timestamp,
    /// When the saga ended.
    pub ended_at: Option<Timestamp>,
}

/// The content of `body`.
#[derive(Serialize, Deserialize)]
struct Body {
    order: SagaOrder,
    steps: Vec<StepRecord>,
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    subject_extra: std::collections::BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    headers: Headers,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_millis: Option<u64>,
}

impl SagaRecord {
    /// A saga that is about to be staged. No step is running yet: see [`SagaRecord::start`].
    #[must_use]
    pub fn new(saga: Saga, fresh_id: SagaId, route: RouteName, generation: u32, now: Timestamp) -> Self {
        Self {
            id: saga.id.unwrap_or(fresh_id),
            name: saga.name,
            route,
            subject: saga.subject,
            generation,
            status: SagaStatus::Running,
            order: saga.order,
            steps: saga.steps.into_iter().map(StepRecord::new).collect(),
            timeout: saga.timeout,
            tenant: saga.tenant,
            correlation_id: saga.correlation_id,
            headers: saga.headers,
            version: 0,
            due_at: None,
            created_at: now,
            updated_at: now,
            ended_at: None,
        }
    }

    /// The row as it is stored.
    ///
    /// # Errors
    /// Never for a saga that was built; JSON of anything else might not be writable.
    pub fn columns(&self) -> Result<SagaColumns> {
        let body = Body {
            order: self.order,
            steps: self.steps.clone(),
            subject_extra: self.subject.extra.clone(),
            headers: self.headers.clone(),
            tenant: self.tenant.clone(),
            correlation_id: self.correlation_id.clone(),
            timeout_millis: self.timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok()),
        };
        let body = serde_json::to_string(&body)
            .map_err(|error| Error::invalid("the saga cannot be written as JSON").with_source(error))?;
        Ok(SagaColumns {
            id: self.id.to_string(),
            name: self.name.clone(),
            route: self.route.to_string(),
            subject_kind: self.subject.kind.clone(),
            subject_value: self.subject.value.clone(),
            generation: i64::from(self.generation),
            status: self.status.as_str().to_owned(),
            version: self.version,
            dead: self.dead(),
            due_at: self.due_at,
            deadline_at: self.deadline(),
            body,
            created_at: self.created_at,
            updated_at: self.updated_at,
            ended_at: self.ended_at,
        })
    }

    /// Reads a stored row.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) when it cannot be read.
    pub fn read(columns: SagaColumns) -> Result<Self> {
        let corrupt = |what: &str| {
            Error::new(ErrorKind::Corrupt, format!("saga {}: {what} cannot be read", columns.id))
        };
        let body: Body = serde_json::from_str(&columns.body).map_err(|_| corrupt("its body"))?;
        Ok(Self {
            id: columns.id.parse().map_err(|_| corrupt("its id"))?,
            route: RouteName::new(columns.route.clone()).map_err(|_| corrupt("its route"))?,
            generation: u32::try_from(columns.generation).map_err(|_| corrupt("its generation"))?,
            status: columns.status.parse().map_err(|_| corrupt("its status"))?,
            subject: Reference {
                kind: columns.subject_kind,
                value: columns.subject_value,
                extra: body.subject_extra,
            },
            name: columns.name,
            order: body.order,
            steps: body.steps,
            timeout: body.timeout_millis.map(Duration::from_millis),
            tenant: body.tenant,
            correlation_id: body.correlation_id,
            headers: body.headers,
            version: columns.version,
            due_at: columns.due_at,
            created_at: columns.created_at,
            updated_at: columns.updated_at,
            ended_at: columns.ended_at,
        })
    }

    /// The idempotency key of a step, or of its compensation.
    #[must_use]
    pub fn key_of(&self, step: &str, direction: Direction) -> EventId {
        step_key(self.id, step, direction)
    }

    /// The event ids of all entries that the saga may have.
    #[must_use]
    pub fn event_ids(&self) -> Vec<EventId> {
        let both = |step: &StepRecord| {
            [Direction::Forward, Direction::Compensation].map(|direction| self.key_of(&step.name, direction))
        };
        self.steps.iter().flat_map(both).collect()
    }

    /// The step that an entry belongs to, and whether the entry does or undoes it.
    #[must_use]
    pub fn find(&self, event_id: EventId) -> Option<(usize, Direction)> {
        let of = |direction| {
            let at = self.steps.iter().position(|step| self.key_of(&step.name, direction) == event_id);
            at.map(|at| (at, direction))
        };
        of(Direction::Forward).or_else(|| of(Direction::Compensation))
    }

    /// How many of the saga's entries are known to be dead.
    #[must_use]
    pub fn dead(&self) -> i64 {
        i64::try_from(self.steps.iter().filter(|step| step.state.is_dead()).count()).unwrap_or(i64::MAX)
    }

    /// Whether the saga waits for an operator or is past its deadline.
    #[must_use]
    pub fn is_stuck(&self, now: Timestamp) -> bool {
        self.status.is_stuck() || self.is_overdue(now)
    }

    /// Whether the saga is past its deadline and has not ended.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        !self.status.is_ended() && self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// The saga's deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.timeout.map(|timeout| self.created_at.saturating_add(timeout))
    }
}
