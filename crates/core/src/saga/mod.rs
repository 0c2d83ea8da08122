//! Sagas: a group of deliveries with one audited outcome.
//!
//! A [`Saga`] is what an application stages: steps in any order, or in one order with compensation. A
//! [`SagaRecord`] is the stored row. Every decision about it is made here, from values: what is staged next, what
//! is audited, when it has ended. A store only carries the decision out.

mod decide;
mod definition;
mod event;
mod id;
mod intervene;
mod mermaid;
mod moves;
mod reconcile;
mod record;
mod reference;
mod states;
mod step;
#[cfg(test)]
mod tests;
mod timeline;
mod work;

pub use definition::{Saga, SagaBuilder, SagaOrder};
pub use event::{STEP_CONTENT_TYPE, StepInput, is_step};
pub use id::{SagaId, step_key};
pub use moves::{EntryMove, Moves, NewAudit};
pub use reconcile::StepSeen;
pub use record::{SagaColumns, SagaRecord, StepRecord};
pub use reference::Reference;
pub use states::{Direction, SagaStatus, StepState};
pub use step::{Step, StepKind};
pub use timeline::{TimelineItem, timeline};
pub use work::{EntryWork, SagaWork};
