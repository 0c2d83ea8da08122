//! What can go wrong on the way.

use std::time::Duration;

/// The direction of traffic on a connection, or both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Both directions.
    Both,
}

impl Direction {
    pub(super) fn covers(self, other: Self) -> bool {
        self == Self::Both || self == other
    }
}

/// A fault of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Everything arrives later by this time, in both directions.
    Latency(Duration),
    /// Once: closes every connection. Later connections are forwarded.
    Cut,
    /// Once: resets every connection, as a crashed peer does. Later connections are forwarded.
    Reset,
    /// Refuses new connections. Open connections go on.
    Refuse,
    /// Closes every connection and refuses new ones, as a stopped server does.
    Down,
    /// Connections are accepted and stay open, but nothing of this direction arrives, not even the end of the
    /// stream.
    BlackHole(Direction),
    /// This many bytes of one direction still arrive, counted over all connections. The connection that sends
    /// the last of these bytes, or a byte beyond it, is cut.
    CutAfter {
        /// The direction that is counted.
        direction: Direction,
        /// The number of bytes that still arrive.
        bytes: u64,
    },
}

/// The fault in effect now, for the tasks that forward.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) fault: Option<Fault>,
    /// How often everything was cut or reset so far.
    pub(super) cuts: u64,
    pub(super) resets: u64,
}

impl State {
    pub(super) fn latency(&self) -> Duration {
        match self.fault {
            Some(Fault::Latency(latency)) => latency,
            _ => Duration::ZERO,
        }
    }

    pub(super) fn is_dark(&self, direction: Direction) -> bool {
        matches!(self.fault, Some(Fault::BlackHole(dark)) if dark.covers(direction))
    }

    /// Whether connections of that time were cut or reset since.
    pub(super) fn has_ended(&self, born_in: &Self) -> bool {
        (self.cuts, self.resets) != (born_in.cuts, born_in.resets)
    }

    pub(super) fn is_counted(&self, direction: Direction) -> bool {
        matches!(self.fault, Some(Fault::CutAfter { direction: counted, .. }) if counted.covers(direction))
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.fault, Some(Fault::Refuse | Fault::Down))
    }
}
