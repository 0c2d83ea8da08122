//! The verdict on the whole: from one look at the store to sentences and severities. `status --check`, `/readyz` and
//! the top line of the page use the same function.

mod calm;
mod problem;
mod routes;
mod state;

use std::time::Duration;

use crate::duration::format_duration;
use crate::name::RouteName;
use crate::port::{RelaySeen, RouteCounts, SagaCounts, SchemaState};

pub use problem::{Problem, ProblemKind};
pub use state::RouteState;

/// The longest wait of a due entry that is accepted if nobody sets another one.
pub const MAX_AGE_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// The longest wait of a due entry of a configured route without a relay, if nobody sets another one: an application
/// may stage before its relay has started, and a deployment may stop one relay before it starts the next.
pub const UNRELAYED_AFTER_DEFAULT: Duration = Duration::from_secs(15);

/// How long entries may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest wait of a due entry. Default: [`MAX_AGE_DEFAULT`].
    pub max_age: Duration,
    /// The longest wait of a due entry of a configured route while no relay of it runs, if it is shorter than
    /// `max_age`. Default: [`UNRELAYED_AFTER_DEFAULT`].
    pub unrelayed_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_age: MAX_AGE_DEFAULT, unrelayed_after: UNRELAYED_AFTER_DEFAULT }
    }
}

/// One look at the store.
#[derive(Clone, Debug)]
pub struct Look<'a> {
    /// The counts of every route.
    pub routes: &'a [RouteCounts],
    /// The routes that a relay should deliver all the time. A relay of another route may start at intervals, or not
    /// announce itself.
    pub configured: &'a [RouteName],
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
    /// Judges what was seen.
    ///
    /// All problems are reported, not the first one: a stuck saga has dead entries too, and beside both there may be a
    /// route that no relay delivers.
    #[must_use]
    pub fn of(look: &Look<'_>, limits: &Limits) -> Self {
        let mut problems: Vec<_> = look.tables.into_iter().flat_map(problem::of_tables).collect();
        problems.extend(problem::of_sagas(look.sagas));
        problems.extend(look.routes.iter().flat_map(|counts| routes::problems(counts, look, limits)));
        Self { problems, calm: calm::sentence(look) }
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

/// A duration in whole seconds.
fn whole(age: Duration) -> String {
    format_duration(Duration::from_secs(age.as_secs()))
}

#[cfg(test)]
mod tests;
