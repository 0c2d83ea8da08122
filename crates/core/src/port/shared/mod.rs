//! What every store does in the same way, written once: which entries an operator's wish means and which of
//! them it can change, how the rows of an answer are read, how counts add up, what state tables are in, and
//! how the ends of steps are decided. A store brings its SQL, its types and its table of errors.

mod change;
mod columns;
mod counting;
mod draft;
mod look;
mod statement;
mod statements;
mod steps;

use std::time::Duration;

pub use change::{Asked, Candidate, Verb, sift};
pub use columns::{
    Columns, audit_record, blocking_head, candidate, inventory_row, relay_seen, route_pause, saga_columns,
};
pub use counting::RouteTally;
pub use draft::SagaDraft;
pub use look::Found;
pub use statement::{Param, Statement, headers_json, parse_headers, stage_params};
pub use steps::StepDecisions;

/// Whole microseconds of a duration, at most a thousand years: what is added to a clock must not overflow.
#[must_use]
pub fn micros(duration: Duration) -> i64 {
    const MAX: i64 = 1000 * 366 * 24 * 3600 * 1_000_000;
    i64::try_from(duration.as_micros()).unwrap_or(MAX).min(MAX)
}
