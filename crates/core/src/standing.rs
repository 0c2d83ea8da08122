//! The standing of an entry as an operator sees it: its stored status, in flight from a lane, or blocked.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::status::Status;

/// The standing of an entry as an operator sees it.
///
/// The standing is the stored status, with two exceptions. An entry that a lane has handed out and no relay has
/// settled is *in flight*. An entry behind a dead one of its key, on a route that a dead entry blocks, is
/// *blocked*. Neither is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// The stored status, or in flight from a lane.
    Is(Status),
    /// The entry is behind a dead entry of its key. No relay takes it before the dead one is requeued or discarded.
    Blocked,
}

impl Standing {
    /// Every standing, in the order of counts.
    pub const ALL: [Self; 7] = [
        Self::Is(Status::Pending),
        Self::Is(Status::InFlight),
        Self::Is(Status::Retrying),
        Self::Blocked,
        Self::Is(Status::Delivered),
        Self::Is(Status::Dead),
        Self::Is(Status::Discarded),
    ];

    /// The name in JSON and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Is(status) => status.as_str(),
            Self::Blocked => "blocked",
        }
    }

    /// The stored statuses that an entry of this standing can have.
    #[must_use]
    pub const fn stored(self) -> &'static [Status] {
        match self {
            Self::Is(Status::Pending) => &[Status::Pending],
            Self::Is(Status::InFlight) => &[Status::Pending, Status::InFlight, Status::Retrying],
            Self::Is(Status::Retrying) => &[Status::Retrying],
            Self::Is(Status::Delivered) => &[Status::Delivered],
            Self::Is(Status::Dead) => &[Status::Dead],
            Self::Is(Status::Discarded) => &[Status::Discarded],
            Self::Blocked => &[Status::Pending, Status::Retrying],
        }
    }
}

impl From<Status> for Standing {
    fn from(status: Status) -> Self {
        Self::Is(status)
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Standing {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|standing| standing.as_str() == text).ok_or_else(|| {
            Error::invalid(format!(
                "unknown status {text:?}; the known ones are {}",
                Self::ALL.map(Self::as_str).join(", ")
            ))
        })
    }
}

impl Serialize for Standing {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_every_status_has_one() {
        for standing in Standing::ALL {
            assert_eq!(standing.as_str().parse::<Standing>().unwrap(), standing);
        }
        for status in Status::ALL {
            assert!(Standing::ALL.contains(&status.into()), "{status}");
            assert!(Standing::from(status).stored().contains(&status), "{status}");
        }
        assert!("done".parse::<Standing>().unwrap_err().to_string().contains("blocked"));
    }
}
