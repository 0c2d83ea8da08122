//! The state of a route's circuit, as relays announce it and operators see it.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// Whether a relay treats a route's destination as up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CircuitState {
    /// The destination answers.
    #[default]
    Closed,
    /// The destination is down. Nothing is claimed.
    Open,
    /// A probe is under way, to see whether the destination is back. It has one entry, or more after a destination
    /// that answers refused earlier probes.
    Probing,
}

impl CircuitState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::Probing];

    /// The stable lower-case name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Probing => "probing",
        }
    }
}

impl fmt::Display for CircuitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CircuitState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("unknown circuit state {text:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for state in CircuitState::ALL {
            assert_eq!(state.to_string().parse::<CircuitState>().unwrap(), state);
        }
        assert_eq!("ajar".parse::<CircuitState>().unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
