//! What every store does in the same way, written once: selecting and changing entries for an operator, reading
//! rows of an answer, adding up counts, judging the state of tables, deciding on the outcomes of steps, and the order of
//! calls where several stores do the same with other statements. A store adds its SQL, its types and its error table.

mod accepting;
mod batch;
mod change;
mod columns;
mod counting;
mod draft;
mod entry_row;
mod lanes;
mod layout;
mod look;
mod open_lanes;
mod outcomes;
mod saga_moves;
mod statement;
mod statements;
mod steps;

use std::time::Duration;

pub use accepting::{AcceptPlan, NewOwner};
pub use batch::StageBatch;
pub use change::{Asked, Candidate, Verb, sift};
pub use columns::{
    Columns, audit_record, blocking_head, candidate, inventory_row, relay_seen, route_pause, saga_columns,
};
pub use counting::RouteTally;
pub use draft::SagaDraft;
pub use entry_row::{Decoded, EntryCells, Read};
pub use lanes::{FailedRow, Holding, LaneRows, ReadEntry, head, in_flight, session_expired, share_of};
pub use layout::{ENTRY, SAGA, TABLES, lacks};
pub use look::Found;
pub use open_lanes::{OpenLanes, fetch_lanes, passed_lanes, read_lanes};
pub use outcomes::{EntryMoveRow, SagaAuditRow, SagaMoveRow, SagaRows, Stale, VerdictRow, held};
pub use saga_moves::{HeldSteps, LockedSagas, given_up, intervene, settle_steps, sweep_one};
pub use statement::{Param, Statement, headers_json, parse_headers, stage_params};
pub use steps::StepDecisions;

/// A duration in whole microseconds, at most a thousand years, so that adding it to a time does not overflow.
#[must_use]
pub fn micros(duration: Duration) -> i64 {
    const MAX: i64 = 1000 * 366 * 24 * 3600 * 1_000_000;
    i64::try_from(duration.as_micros()).unwrap_or(MAX).min(MAX)
}
