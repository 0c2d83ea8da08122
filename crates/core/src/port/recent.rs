//! What happened lately: entries that ended, and events that consumers accepted.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Result;
use crate::name::RouteName;
use crate::status::Status;
use crate::time::Timestamp;

use super::shared::Columns;

/// A request for what happened lately.
#[derive(Clone, Copy, Debug)]
pub struct RecentRequest {
    /// How far back to look. The work grows with what happened in this time, so it is a matter of seconds.
    pub within: Duration,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// What happened within a time, counted by indexes on that time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// Entries that reached a terminal status and still exist. An outbox that keeps no delivered entries does not
    /// count them here.
    pub ended: BTreeMap<(RouteName, Status), u64>,
    /// Events that each consumer accepted for the first time.
    pub accepted: BTreeMap<String, u64>,
}

impl Recent {
    /// How many entries of a route reached this status.
    #[must_use]
    pub fn of(&self, route: &RouteName, status: Status) -> u64 {
        self.ended.get(&(route.clone(), status)).copied().unwrap_or(0)
    }

    /// Adds a row of `route, status, entries`.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn end(&mut self, row: &mut impl Columns) -> Result<()> {
        let (route, status) = (row.route()?, row.text()?.parse()?);
        *self.ended.entry((route, status)).or_default() += row.count()?;
        Ok(())
    }

    /// Adds a row of `consumer, events`.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn accept(&mut self, row: &mut impl Columns) -> Result<()> {
        let consumer = row.text()?;
        *self.accepted.entry(consumer).or_default() += row.count()?;
        Ok(())
    }
}
