//! Where an entry stands as an operator sees it: its status, or what its route makes of it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::status::Status;

/// Where an entry stands as an operator sees it.
///
/// That is its stored status, but for two: what a lane has handed out and nobody has settled is *in flight*, and what
/// stands behind a dead entry of its key, on a route that such an entry blocks, is *blocked*. Neither is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// As stored.
    Is(Status),
    /// Behind a dead entry of its key: no relay takes it before that one is requeued or discarded.
    Blocked,
}

impl Standing {
    /// Every standing, in the order in which counts name them.
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
                "unknown status {text:?}; known are {}",
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
