//! The states of an entry and the moves between them, as data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The status of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Staged, not yet attempted.
    Pending,
    /// Claimed: a relay is delivering it under a lease.
    InFlight,
    /// The last attempt failed or was lost. The entry will be tried again.
    Retrying,
    /// The destination confirmed the entry.
    Delivered,
    /// Given up and visible: it was rejected for good, or its attempts are spent.
    Dead,
    /// An operator gave it up for good: it was dead, or it was waiting and was cancelled.
    Discarded,
}

impl Status {
    /// Every status, in the order of counts.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::InFlight, Self::Retrying, Self::Delivered, Self::Dead, Self::Discarded];

    /// The name in SQL, JSON, metrics and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InFlight => "in_flight",
            Self::Retrying => "retrying",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
        }
    }

    /// Whether the status is terminal. No relay touches a terminal entry again.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Delivered | Self::Dead | Self::Discarded)
    }

    /// The status that `action` leads to from here. `None`: the action is not allowed.
    #[must_use]
    pub fn after(self, action: Action) -> Option<Self> {
        TRANSITIONS.iter().find(|row| row.0 == self && row.1 == action).map(|row| row.2)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Status {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
            Error::invalid(format!(
                "unknown status {text:?}; the known ones are {}",
                Self::ALL.map(Self::as_str).join(", ")
            ))
        })
    }
}

/// What can happen to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A relay takes the entry under a lease. The attempt counts from here.
    Claim,
    /// The destination confirmed the entry.
    Deliver,
    /// The attempt failed and another is allowed.
    Retry,
    /// The entry was rejected for good, or the last allowed attempt failed.
    Bury,
    /// The entry is given back unharmed after its first attempt. The attempt does not count.
    ReleaseFirst,
    /// The entry is given back unharmed after a later attempt. The attempt does not count.
    ReleaseLater,
    /// The entry is tried again later, with all of its attempts.
    Park,
    /// The lease ended with attempts left. The spent attempt counts, and the entry is a suspect.
    Reap,
    /// An operator tries a dead entry again with a fresh budget of attempts.
    Requeue,
    /// An operator gives a dead entry up for good.
    Discard,
    /// An operator makes a waiting entry due at once.
    Hasten,
    /// An operator gives up a waiting entry before a relay delivers it.
    Cancel,
}

use Action::{
    Bury, Cancel, Claim, Deliver, Discard, Hasten, Park, Reap, ReleaseFirst, ReleaseLater, Requeue, Retry,
};
use Status::{Dead, Delivered, Discarded, InFlight, Pending, Retrying};

/// The whole state machine. A transition that is not in it is refused.
pub const TRANSITIONS: &[(Status, Action, Status)] = &[
    (Pending, Claim, InFlight),
    (Retrying, Claim, InFlight),
    (InFlight, Deliver, Delivered),
    (InFlight, Retry, Retrying),
    (InFlight, Bury, Dead),
    (InFlight, ReleaseFirst, Pending),
    (InFlight, ReleaseLater, Retrying),
    (InFlight, Park, Pending),
    (InFlight, Reap, Retrying),
    // A route whose allowed attempts were lowered may hold entries that have already spent them.
    (Pending, Bury, Dead),
    (Retrying, Bury, Dead),
    (Dead, Requeue, Pending),
    (Dead, Discard, Discarded),
    (Pending, Hasten, Pending),
    (Retrying, Hasten, Retrying),
    (Pending, Cancel, Discarded),
    (Retrying, Cancel, Discarded),
];

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIONS: [Action; 12] = [
        Claim,
        Deliver,
        Retry,
        Bury,
        ReleaseFirst,
        ReleaseLater,
        Park,
        Reap,
        Requeue,
        Discard,
        Hasten,
        Cancel,
    ];

    #[test]
    fn names_round_trip() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), status);
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        let error = "done".parse::<Status>().unwrap_err();
        assert!(error.to_string().contains("in_flight"), "{error}");
    }

    #[test]
    fn every_status_and_action_is_as_in_the_table() {
        let rows: Vec<_> =
            include_str!("../testdata/status.txt").lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(rows.len(), Status::ALL.len());
        let mut moves = 0;
        for row in rows {
            let cells: Vec<_> = row.split_whitespace().collect();
            let (from, cells) = cells.split_first().unwrap();
            assert_eq!(cells.len(), ACTIONS.len(), "{row}");
            for (action, cell) in ACTIONS.into_iter().zip(cells) {
                let expect = (*cell != "-").then(|| cell.parse::<Status>().unwrap());
                let from = from.parse::<Status>().unwrap();
                assert_eq!(from.after(action), expect, "{from} {action:?}");
                moves += usize::from(expect.is_some());
            }
        }
        assert_eq!(moves, TRANSITIONS.len(), "a row of the code is not in the table");
    }

    #[test]
    fn no_path_leaves_an_end_without_an_operator() {
        // Every path of up to five actions from a fresh entry: small enough to try all, long enough to reach all.
        fn walk(status: Status, left: u32, seen: &mut Vec<Status>) {
            if !seen.contains(&status) {
                seen.push(status);
            }
            if left == 0 {
                return;
            }
            for action in ACTIONS {
                let Some(next) = status.after(action) else { continue };
                let by_operator = matches!(action, Requeue | Discard);
                assert!(!status.is_terminal() || by_operator, "{status} {action:?}");
                assert!(next != Delivered || status == InFlight, "only a claimed entry is delivered");
                let given_up = matches!(action, Discard | Cancel) && status != InFlight;
                assert!(next != Discarded || given_up, "nobody gives up what is being delivered");
                walk(next, left - 1, seen);
            }
        }
        let mut seen = Vec::new();
        walk(Pending, 5, &mut seen);
        assert_eq!(seen.len(), Status::ALL.len());
    }

    #[test]
    fn the_table_is_a_function() {
        for (index, row) in TRANSITIONS.iter().enumerate() {
            assert!(
                !TRANSITIONS[..index].iter().any(|other| other.0 == row.0 && other.1 == row.1),
                "{row:?}"
            );
        }
    }

    #[test]
    fn only_an_operator_moves_a_terminal_entry() {
        for status in Status::ALL.into_iter().filter(|status| status.is_terminal()) {
            for action in ACTIONS {
                let moved = status.after(action);
                let allowed = status == Dead && matches!(action, Requeue | Discard);
                assert_eq!(moved.is_some(), allowed, "{status} {action:?}");
            }
        }
    }

    #[test]
    fn every_live_entry_can_reach_an_end() {
        for start in [Pending, InFlight, Retrying] {
            let mut reached = vec![start];
            loop {
                let next: Vec<_> = reached
                    .iter()
                    .flat_map(|status| ACTIONS.iter().filter_map(|action| status.after(*action)))
                    .filter(|status| !reached.contains(status))
                    .collect();
                let Some(status) = next.first() else { break };
                reached.push(*status);
            }
            assert!(reached.contains(&Delivered) && reached.contains(&Dead), "{start}");
        }
    }
}
