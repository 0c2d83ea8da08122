//! One thing that is wrong, with what to do about it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::name::RouteName;
use crate::port::{SagaCounts, SchemaState};
use crate::saga::SagaStatus;

/// The sort of a problem, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The store cannot be read.
    Database,
    /// The tables do not fit, or lack an index.
    Tables,
    /// A relay treats its destination as down and delivers nothing.
    Circuit,
    /// No relay delivers a route on which entries wait.
    Unrelayed,
    /// The oldest due entry of a route has waited for too long.
    Late,
    /// Sagas wait for an operator, or are past their deadline.
    StuckSagas,
    /// A route has dead entries.
    Dead,
    /// Entries of a route have waited for too long because an operator paused it.
    Paused,
}

impl ProblemKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Database,
        Self::Tables,
        Self::Circuit,
        Self::Unrelayed,
        Self::Late,
        Self::StuckSagas,
        Self::Dead,
        Self::Paused,
    ];

    /// The kinds that make a process unready if nobody chooses others: those that stop deliveries. Dead entries, stuck
    /// sagas and paused routes need a person, and a restart does not help.
    pub const STOPPING: [Self; 5] =
        [Self::Database, Self::Tables, Self::Circuit, Self::Unrelayed, Self::Late];

    /// The name in JSON and in a configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Tables => "tables",
            Self::Circuit => "circuit",
            Self::Unrelayed => "unrelayed",
            Self::Late => "late",
            Self::StuckSagas => "stuck_sagas",
            Self::Dead => "dead",
            Self::Paused => "paused",
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ProblemKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl FromStr for ProblemKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("unknown cause {text:?}; the known ones are {known}"))
        })
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The sort of problem.
    pub kind: ProblemKind,
    /// The route, if it concerns one.
    pub route: Option<RouteName>,
    /// What is wrong, as a sentence without its full stop.
    pub what: String,
    /// What to do. It may be empty.
    pub advice: String,
}

impl Problem {
    /// What is wrong and what to do.
    #[must_use]
    pub fn message(&self) -> String {
        if self.advice.is_empty() { self.what.clone() } else { format!("{}. {}", self.what, self.advice) }
    }
}

/// Tables that do not fit, and defects that only slow the store down.
pub(super) fn of_tables(tables: &SchemaState) -> Vec<Problem> {
    let problem = |what| Problem { kind: ProblemKind::Tables, route: None, what, advice: String::new() };
    match (tables, tables.check()) {
        (SchemaState::Ready { warnings }, _) => warnings.iter().cloned().map(problem).collect(),
        (_, Err(error)) => vec![problem(error.message().to_owned())],
        (_, Ok(())) => vec![],
    }
}

/// Sagas that wait for an operator, and sagas that take longer than they may.
pub(super) fn of_sagas(counts: &SagaCounts) -> Vec<Problem> {
    let problem = |what| Problem { kind: ProblemKind::StuckSagas, route: None, what, advice: String::new() };
    let waiting = [SagaStatus::Blocked, SagaStatus::CompensationFailed].into_iter();
    let waiting = waiting.filter(|status| counts.of(*status) > 0).map(|status| {
        let sagas = sagas(counts.of(status));
        problem(format!("{sagas} {status}: `pillarbox saga list --status {status}` shows why"))
    });
    let overdue = (counts.overdue > 0).then(|| {
        let sagas = sagas(counts.overdue);
        problem(format!("{sagas} overdue; check that a relay with their handlers is running"))
    });
    waiting.chain(overdue).collect()
}

fn sagas(count: u64) -> String {
    if count == 1 { "1 saga".to_owned() } else { format!("{count} sagas") }
}
