//! A step as the entry that its handler is given.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Result;
use crate::event::Event;

use super::id::SagaId;
use super::record::SagaRecord;
use super::reference::Reference;
use super::states::{Direction, StepState};

/// The content type of a step's entry: its payload is a [`StepInput`].
pub const STEP_CONTENT_TYPE: &str = "application/vnd.pillarbox.step+json";

/// Whether an entry with this group and content type is a step of a saga, or undoes one. A group alone does not make a
/// step: it may be a group that is no saga's, or an event of an application about one.
#[must_use]
pub fn is_step(group_id: Option<&str>, content_type: &str) -> bool {
    group_id.is_some() && content_type == STEP_CONTENT_TYPE
}

/// What a handler is told of the step that it does or undoes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepInput {
    /// The saga.
    pub saga: SagaId,
    /// Its name.
    pub name: String,
    /// The how many-th saga of this name on this subject it is.
    pub generation: u32,
    /// What the saga is about.
    pub subject: Reference,
    /// The step.
    pub step: String,
    /// Whether to do it or to undo it.
    pub direction: Direction,
    /// What to work on.
    pub reference: Reference,
    /// What the application gave for this step.
    #[serde(default)]
    pub input: Value,
    /// What earlier steps passed on, and for a compensation also the step itself, by their names.
    #[serde(default)]
    pub data: BTreeMap<String, Value>,
    /// How long one run may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_millis: Option<u64>,
}

impl SagaRecord {
    /// The event of a step or of its compensation.
    pub(super) fn event_of(&self, at: usize, direction: Direction) -> Result<Option<Event>> {
        let Some(step) = self.steps.get(at) else { return Ok(None) };
        let handler = match direction {
            Direction::Forward => Some(&step.handler),
            Direction::Compensation => step.compensation.as_ref(),
        };
        let Some(handler) = handler else { return Ok(None) };
        let passed_on = |step: &&super::StepRecord| !step.data.is_null() && step.state != StepState::Waiting;
        let input = StepInput {
            saga: self.id,
            name: self.name.clone(),
            generation: self.generation,
            subject: self.subject.clone(),
            step: step.name.clone(),
            direction,
            reference: step.reference.clone().unwrap_or_else(|| self.subject.clone()),
            input: step.input.clone(),
            data: self
                .steps
                .iter()
                .filter(passed_on)
                .map(|step| (step.name.clone(), step.data.clone()))
                .collect(),
            timeout_millis: step.timeout_millis,
        };
        let mut event = Event::json(handler.clone(), &input)?
            .id(self.key_of(&step.name, direction))
            .content_type(STEP_CONTENT_TYPE)
            .group_id(self.id.to_string())
            .correlation_id(self.correlation_id.clone().unwrap_or_else(|| self.id.to_string()));
        event.headers = self.headers.clone();
        event.tenant = self.tenant.clone();
        event.max_attempts = step.max_attempts;
        Ok(Some(event))
    }
}
