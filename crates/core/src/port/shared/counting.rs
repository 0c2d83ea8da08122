//! Adding up how many entries each route has, and how many sagas there are.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::limits::COUNTED_MAX;
use crate::name::RouteName;
use crate::port::{RouteCounts, SagaCounts};
use crate::saga::SagaStatus;
use crate::standing::Standing;
use crate::status::Status;
use crate::time::Timestamp;

use super::columns::{Columns, blocking_head, route_pause};

/// What is kept for days after its end, and so is not all counted. Dead entries are: somebody has to look at them.
const BOUNDED: [Status; 2] = [Status::Delivered, Status::Discarded];

/// The counts of every route, added up from rows.
#[derive(Debug, Default)]
pub struct RouteTally {
    routes: BTreeMap<RouteName, RouteCounts>,
}

impl RouteTally {
    /// The counts of a route.
    pub fn of(&mut self, route: &RouteName) -> &mut RouteCounts {
        self.routes.entry(route.clone()).or_insert_with(|| RouteCounts::zero(route.clone()))
    }

    /// Adds a row that begins with `route, status, entries`.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn count(&mut self, row: &mut impl Columns) -> Result<RouteName> {
        let (route, status): (_, Status) = (row.route()?, row.text()?.parse()?);
        *self.of(&route).counts.entry(status).or_default() += row.count()?;
        Ok(route)
    }

    /// Records since when the oldest due entry of a route has been due.
    pub fn waits_since(&mut self, route: &RouteName, since: Option<Timestamp>, now: Timestamp) {
        if let Some(since) = since {
            let counts = self.of(route);
            counts.oldest_due_age = counts.oldest_due_age.max(Some(now.since(since)));
        }
    }

    /// Counts the entries of a row of `route, status, entries` as in flight, in place of their status.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn handed(&mut self, row: &mut impl Columns) -> Result<()> {
        let (route, status) = (row.route()?, row.text()?.parse()?);
        self.of(&route).move_from(status, Status::InFlight.into(), row.count()?);
        Ok(())
    }

    /// Adds a row of `route, status or null, entries, event_id, key`. With a status, the row tells how many entries
    /// are blocked. With null, it names a dead entry that many wait behind.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn blocked(&mut self, row: &mut impl Columns) -> Result<()> {
        let route = row.route()?;
        match row.optional_text()? {
            Some(status) => self.of(&route).move_from(status.parse()?, Standing::Blocked, row.count()?),
            None => self.of(&route).heads.push(blocking_head(row)?),
        }
        Ok(())
    }

    /// Adds a row of `route, paused_at, paused_by, reason`.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn paused(&mut self, row: &mut impl Columns) -> Result<()> {
        let (route, pause) = route_pause(row)?;
        self.of(&route).paused = Some(pause);
        Ok(())
    }

    /// The counts of all routes, ordered by name. The store has counted what was delivered or discarded up to
    /// [`COUNTED_MAX`]: where that is reached, there may be more.
    #[must_use]
    pub fn told(mut self) -> Vec<RouteCounts> {
        for status in BOUNDED {
            let all: u64 = self.routes.values().map(|counts| counts.of(status)).sum();
            if all >= u64::from(COUNTED_MAX) {
                for counts in self.routes.values_mut() {
                    counts.at_least.insert(status);
                }
            }
        }
        self.routes.into_values().collect()
    }
}

impl SagaCounts {
    /// Adds a row of `status, sagas, overdue, the oldest change, now, route`.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn count(&mut self, row: &mut impl Columns) -> Result<()> {
        let status: SagaStatus = row.text()?.parse()?;
        let (sagas, overdue, since, now) = (row.count()?, row.count()?, row.time()?, row.time()?);
        *self.counts.entry(status).or_default() += sagas;
        if !status.is_ended() {
            *self.open.entry(row.route()?).or_default() += sagas;
        }
        if status.is_stuck() {
            let age = now.unwrap_or(Timestamp::MIN).since(since.unwrap_or(Timestamp::MIN));
            self.oldest_stuck_age = self.oldest_stuck_age.max(Some(age));
        } else {
            self.overdue += overdue;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_reach_the_bound_together_are_told_as_such() {
        let (busy, quiet) = (RouteName::shown("busy"), RouteName::shown("quiet"));
        for (delivered, at_least) in [(u64::from(COUNTED_MAX) - 2, false), (u64::from(COUNTED_MAX) - 1, true)]
        {
            let mut tally = RouteTally::default();
            tally.of(&busy).counts.insert(Status::Delivered, delivered);
            tally.of(&busy).counts.insert(Status::Dead, u64::from(COUNTED_MAX));
            tally.of(&quiet).counts.insert(Status::Delivered, 1);
            for counts in tally.told() {
                assert_eq!(counts.at_least.contains(&Status::Delivered), at_least, "{counts:?}");
                assert!(!counts.at_least.contains(&Status::Dead), "the dead are all counted: {counts:?}");
            }
        }
    }
}
