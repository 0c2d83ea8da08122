//! The status of a saga and the states of its steps.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// The status of a saga.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SagaStatus {
    /// Steps are under way.
    Running,
    /// A step was given up, or its outcome is unknown. The saga goes on only after an operator intervenes.
    Blocked,
    /// A step failed before the saga passed its pivot. The steps that may have run are being undone.
    Compensating,
    /// A compensation was given up. The others still run. An operator resumes the saga.
    CompensationFailed,
    /// Every step was done. The saga has ended.
    Completed,
    /// Every step that may have run was undone. The saga has ended.
    Compensated,
    /// An operator gave the saga up as it was. Nothing more is done, and nothing is undone. The saga has ended.
    Abandoned,
}

impl SagaStatus {
    /// Every status, in the order of counts.
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

    /// Whether the saga has ended. Nothing moves it any more.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Compensated | Self::Abandoned)
    }

    /// Whether the saga waits for an operator.
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
            Error::new(
                ErrorKind::Invalid,
                format!("unknown saga status {text:?}; the known ones are {known}"),
            )
        })
    }
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// The step is not staged yet, because the steps before it come first.
    Waiting,
    /// The step's entry is in the outbox.
    Running,
    /// The handler has done the step.
    Done,
    /// The step's entry is dead. An operator may requeue it.
    Dead,
    /// The step failed for good, and there is nothing to undo.
    Failed,
    /// The step may have run. Its compensation waits for the compensations of later steps.
    Undoing,
    /// The entry of the step's compensation is in the outbox.
    Compensating,
    /// The step was undone.
    Compensated,
    /// The entry of the step's compensation is dead. An operator may requeue it.
    CompensationFailed,
    /// The step's entry was given up with its saga, or was removed by hand. It cannot be tried again.
    Abandoned,
    /// The step was given up, and an operator let its saga go on without it.
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

    /// Whether an entry of the step is known to be dead.
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
    /// Does the step.
    Forward = 0,
    /// Undoes the step.
    Compensation = 1,
}
