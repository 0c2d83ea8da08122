//! A step as the entry that its handler gets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Result;
use crate::event::Event;

use super::id::SagaId;
use super::record::SagaRecord;
use super::reference::Reference;
use super::states::{Direction, StepState};

/// The content type of a step's entry. Its payload is a [`StepInput`].
pub const STEP_CONTENT_TYPE: &str = "application/vnd.pillarbox.step+json";

/// Whether an entry with this group and content type is a step of a saga or the compensation of one. A group alone
/// does not make a step: the group may have no saga, or the entry may be an application's event about a saga.
#[must_use]
pub fn is_step(group_id: Option<&str>, content_type: &str) -> bool {
    group_id.is_some() && content_type == STEP_CONTENT_TYPE
}

/// What a handler learns about the step that it does or undoes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepInput {
    /// The saga's id.
    pub saga: SagaId,
    /// The saga's name.
    pub name: String,
    /// The saga's number among those of the same name and subject.
    pub generation: u32,
    /// The saga's subject: what it is about.
    pub subject: Reference,
    /// The step's name.
    pub step: String,
    /// Whether to do the step or to undo it.
    pub direction: Direction,
    /// What to work on.
    pub reference: Reference,
    /// What the application gave for this step.
    #[serde(default)]
    pub input: Value,
    /// The data that earlier steps passed on, by the names of the steps. For a compensation it includes the data of
    /// the step itself.
    #[serde(default)]
    pub data: BTreeMap<String, Value>,
    /// How long one run of the handler may take, in milliseconds.
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
