//! What can go wrong on the way.

use std::time::Duration;

/// One way of a connection, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What the client sends.
    ToServer,
    /// What the server answers.
    ToClient,
    /// Everything.
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
    /// Everything arrives this much later, both ways.
    Latency(Duration),
    /// Once: closes every connection. Later ones are forwarded.
    Cut,
    /// Once: resets every connection, as a crashed peer does. Later ones are forwarded.
    Reset,
    /// New connections are refused, those that are open go on.
    Refuse,
    /// Closes every connection and refuses new ones, as a server that was stopped does.
    Down,
    /// Connections are accepted and stay open, but nothing of this direction arrives, not even the end.
    BlackHole(Direction),
    /// This many bytes of one direction still arrive, counted over all connections; whoever sends the last of
    /// them, or one more, is cut.
    CutAfter {
        /// The direction that is counted.
        direction: Direction,
        /// How many bytes still arrive.
        bytes: u64,
    },
}

/// What holds now, for those who forward.
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
