//! Where a saga and its steps are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// Where a saga is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SagaStatus {
    /// Steps are under way.
    Running,
    /// A step was given up, or its outcome is unknown: nothing goes on without an operator.
    Blocked,
    /// A step before the pivot failed: what may have run is being undone.
    Compensating,
    /// A compensation was given up; the others still run. An operator resumes it.
    CompensationFailed,
    /// Every step was done. The end.
    Completed,
    /// Everything that may have run was undone. The end.
    Compensated,
    /// An operator gave it up as it was: nothing more is done, and nothing is undone. The end.
    Abandoned,
}

impl SagaStatus {
    /// Every status, in the order in which counts name them.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Blocked,
        Self::Compensating,
        Self::CompensationFailed,
        Self::Completed,
        Self::Compensated,
        Self::Abandoned,
    ];

    /// The name in SQL, JSON and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Blocked => "blocked",
            Self::Compensating => "compensating",
            Self::CompensationFailed => "compensation_failed",
            Self::Completed => "completed",
            Self::Compensated => "compensated",
            Self::Abandoned => "abandoned",
        }
    }

    /// Nothing moves it any more.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Compensated | Self::Abandoned)
    }

    /// It waits for an operator.
    #[must_use]
    pub const fn is_stuck(self) -> bool {
        matches!(self, Self::Blocked | Self::CompensationFailed)
    }
}

impl fmt::Display for SagaStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SagaStatus {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::Invalid, format!("unknown saga status {text:?}; known are {known}"))
        })
    }
}

/// Where a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Not staged yet: the steps before it come first.
    Waiting,
    /// Its entry is in the outbox.
    Running,
    /// Its handler has done it.
    Done,
    /// Its entry is dead, and an operator may requeue it.
    Dead,
    /// It failed for good and there is nothing of it to undo.
    Failed,
    /// It may have run, and its compensation waits for those of later steps.
    Undoing,
    /// The entry of its compensation is in the outbox.
    Compensating,
    /// It was undone.
    Compensated,
    /// Its compensation's entry is dead, and an operator may requeue it.
    CompensationFailed,
    /// Its entry was given up with its saga, or was taken away by hand: nobody can try it again.
    Abandoned,
    /// It was given up, and an operator let its saga go on without it.
    Skipped,
}

impl StepState {
    /// The name in JSON and in diagrams.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Failed => "failed",
            Self::Undoing => "undoing",
            Self::Compensating => "compensating",
            Self::Compensated => "compensated",
            Self::CompensationFailed => "compensation_failed",
            Self::Abandoned => "abandoned",
            Self::Skipped => "skipped",
        }
    }

    /// Whether an entry of it is known to be dead.
    #[must_use]
    pub const fn is_dead(self) -> bool {
        matches!(self, Self::Dead | Self::CompensationFailed)
    }
}

impl fmt::Display for StepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a handler does a step or undoes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Does it.
    Forward = 0,
    /// Undoes it.
    Compensation = 1,
}
