//! The entries that an operator means, by ids or by a filter: which statement finds them, and its values.

use std::sync::Arc;

use pillarbox_core::port::Filter;
use pillarbox_core::{Error, EventId, FailureKind, Result, RouteName, Standing, Status, Timestamp};
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;

use crate::sql::{Meant, query};

/// How a filter is asked for.
pub(crate) struct Asked<'a> {
    pub(crate) filter: &'a Filter,
    /// These events instead of what the filter says.
    pub(crate) ids: Option<&'a [EventId]>,
    /// Only these stored statuses.
    pub(crate) statuses: Vec<Status>,
    /// At most this many.
    pub(crate) limit: Option<u32>,
    /// Only what waits for its time.
    pub(crate) waits: bool,
    pub(crate) now: Option<Timestamp>,
}

impl<'a> Asked<'a> {
    /// What a filter lists.
    pub(crate) fn listed(filter: &'a Filter) -> Self {
        let statuses = filter.status.map_or(&Status::ALL[..], Standing::stored).to_vec();
        Self { filter, ids: None, statuses, limit: Some(filter.limit), waits: false, now: None }
    }

    /// Whether the standing that is asked for is more than the status.
    fn is_derived(&self) -> bool {
        let live = |status: &Status| !status.is_terminal();
        self.filter.status.is_some_and(|standing| standing.stored().iter().any(live))
    }

    fn text(&self, meant: &'a Meant) -> &'a Arc<str> {
        let rare = |status: &Status| matches!(status, Status::Dead | Status::Discarded);
        if self.ids.is_some() {
            &meant.ids
        } else if self.statuses.iter().all(rare) {
            &meant.ended
        } else if self.statuses.iter().all(|status| !status.is_terminal()) {
            &meant.live
        } else {
            &meant.any
        }
    }

    /// The statement with the values of `matching.sql`.
    pub(crate) fn query(&self, meant: &'a Meant) -> Result<Query<'static, Sqlite, SqliteArguments>> {
        let unwritable = |_| Error::invalid("an event id cannot be written as JSON");
        let statuses: Vec<&str> = self.statuses.iter().map(|status| status.as_str()).collect();
        let ids = self.ids.map(serde_json::to_string).transpose().map_err(unwritable)?;
        let filter = self.filter;
        Ok(query(self.text(meant))
            .bind(filter.status.map(Standing::as_str))
            .bind(serde_json::to_string(&statuses).map_err(unwritable)?)
            .bind(filter.route.as_ref().map(RouteName::to_string))
            .bind(filter.event_type.clone())
            .bind(filter.key.clone())
            .bind(filter.tenant.clone())
            .bind(filter.error.map(FailureKind::as_str))
            .bind(filter.since.map(Timestamp::as_micros))
            .bind(filter.until.map(Timestamp::as_micros))
            .bind(filter.after)
            .bind(ids)
            .bind(self.now.map(Timestamp::as_micros))
            .bind(self.is_derived())
            .bind(self.limit.map_or(-1, i64::from))
            .bind(self.waits.then_some(1)))
    }
}
