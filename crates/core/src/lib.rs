//! The pure domain of Pillarbox: events, entries, states, policies, clock stamps, envelopes, and the ports
//! that adapters implement.
//!
//! Nothing in here does IO, reads a wall clock or asks the operating system for randomness. Time and results come
//! in as arguments, and decisions come out as values.

mod audit;
mod backoff;
mod circuit;
mod doctor;
mod duration;
mod entry;
mod envelope;
mod error;
mod event;
pub mod health;
mod hlc;
mod ident;
mod json;
mod lane;
pub mod late;
pub mod limits;
mod name;
mod on_dead;
mod outcome;
pub mod parameters;
mod payload;
pub mod port;
mod received;
mod redact;
mod saga;
mod setters;
mod shown;
mod standing;
mod status;
mod suspect;
mod template;
mod time;
mod typed;

pub use audit::{AuditKind, AuditRecord};
pub use backoff::{Backoff, Jitter};
pub use circuit::CircuitState;
pub use doctor::{Facts, RoutePolicy, diagnose, sort as sort_findings};
pub use duration::{format_duration, parse_duration};
pub use entry::{Entry, Fence, Held, NewEntry, RowHint, Staged};
pub use envelope::Envelope;
pub use error::{Error, ErrorKind, Result, Retry};
pub use event::{CONTENT_TYPE_DEFAULT, Event, EventId, EventLimits, Headers, PRIORITY_DEFAULT};
pub use hlc::{Hlc, HybridClock};
pub use ident::Ident;
pub use json::deterministic_json;
pub use lane::{NO_LANE, lane_of};
pub use name::{RouteName, check_name};
pub use on_dead::OnDead;
pub use outcome::{Failure, FailureKind, Outcome};
pub use payload::{PayloadError, read_json, read_value};
pub use received::{Attributes, Received};
pub use redact::{redact, redact_refused_url, redact_url};
pub use saga::{
    Direction, EntryMove, EntryWork, Moves, NewAudit, Reference, STEP_CONTENT_TYPE, Saga, SagaBuilder,
    SagaColumns, SagaId, SagaOrder, SagaRecord, SagaStatus, SagaWork, Step, StepInput, StepKind, StepRecord,
    StepSeen, StepState, TimelineItem, is_step, step_key, timeline,
};
pub use shown::{escape_json, is_deceptive};
pub use standing::Standing;
pub use status::{Action, Status, TRANSITIONS};
pub use suspect::{COMPANY_MAX, CRASHES_IN_COMPANY, attempts_counted, company};
pub use template::Template;
pub use time::Timestamp;
pub use typed::TypedEvent;
