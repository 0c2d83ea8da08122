//! The verdict on the whole: from one look at the store to sentences and severities. `status --check`, `/readyz` and
//! the top line of the page use the same function.

mod problem;
mod routes;
mod state;

use std::time::Duration;

use crate::duration::format_duration;
use crate::port::{RelaySeen, RouteCounts, SagaCounts, SchemaState};
use crate::saga::SagaStatus;

pub use problem::{Problem, ProblemKind};
pub use state::RouteState;

/// The longest wait of a due entry that is accepted if nobody sets another one.
pub const MAX_AGE_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// One look at the store.
#[derive(Clone, Debug)]
pub struct Look<'a> {
    /// The counts of every route.
    pub routes: &'a [RouteCounts],
    /// The counts of sagas.
    pub sagas: &'a SagaCounts,
    /// The relays that were seen.
    pub relays: &'a [RelaySeen],
    /// The state of the tables. `None`: it was not inspected.
    pub tables: Option<&'a SchemaState>,
}

/// Everything that is wrong, the worst first of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong. Empty: everything is in order.
    pub problems: Vec<Problem>,
    /// What is told in a sentence if nothing is wrong.
    calm: String,
}

impl Verdict {
    /// Judges what was seen. No due entry may wait for longer than `max_age`.
    ///
    /// All problems are reported, not the first one: a stuck saga has dead entries too, and beside both there may be a
    /// route that no relay delivers.
    #[must_use]
    pub fn of(look: &Look<'_>, max_age: Duration) -> Self {
        let mut problems: Vec<_> = look.tables.into_iter().flat_map(problem::of_tables).collect();
        problems.extend(problem::of_sagas(look.sagas));
        problems.extend(look.routes.iter().flat_map(|counts| routes::problems(counts, look.relays, max_age)));
        Self { problems, calm: calm(look) }
    }

    /// The verdict when the store cannot be read.
    #[must_use]
    pub fn unreadable(error: &crate::Error) -> Self {
        let what = format!("the database cannot be read: {}", error.message());
        let advice = "Check that it is running; reading is tried again until it works".to_owned();
        Self {
            problems: vec![Problem { kind: ProblemKind::Database, route: None, what, advice }],
            calm: String::new(),
        }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.problems.is_empty()
    }

    /// The problem that needs somebody first.
    #[must_use]
    pub fn worst(&self) -> Option<&Problem> {
        self.problems.iter().min_by_key(|problem| problem.kind)
    }

    /// The verdict in one sentence: the worst problem, or that everything moves.
    #[must_use]
    pub fn sentence(&self) -> String {
        self.worst().map_or_else(|| self.calm.clone(), |worst| worst.what.clone())
    }
}

fn calm(look: &Look<'_>) -> String {
    let routes = look.routes.len();
    if routes == 0 {
        return "No events have been staged yet.".to_owned();
    }
    let noun = if routes == 1 { "The only route is".to_owned() } else { format!("All {routes} routes are") };
    let waiting: u64 = look.routes.iter().map(RouteCounts::undrained).sum();
    let sagas = look.sagas.of(SagaStatus::Running);
    match look.routes.iter().filter_map(|counts| counts.oldest_due_age).max() {
        Some(age) => format!("{noun} moving; the oldest due event has waited {}.", shown(age)),
        None if waiting > 0 => format!("{noun} moving; nothing is late."),
        None if sagas > 0 => format!("{noun} drained; {sagas} sagas are running."),
        None => format!("{noun} drained; nothing waits."),
    }
}

/// An age for people: tenths below ten seconds, whole seconds above.
fn shown(age: Duration) -> String {
    if age < Duration::from_secs(10) {
        return format!("{:.1} s", age.as_secs_f64());
    }
    whole(age)
}

/// A duration in whole seconds.
fn whole(age: Duration) -> String {
    format_duration(Duration::from_secs(age.as_secs()))
}

#[cfg(test)]
mod tests;
