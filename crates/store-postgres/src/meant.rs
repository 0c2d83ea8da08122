//! The entries that an operator means, by ids or by a filter: the values of `matching.sql`.

use pillarbox_core::port::Filter;
use pillarbox_core::{
    Error, ErrorKind, EventId, FailureKind, Result, RouteName, Standing, Status, Timestamp,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::bind::Bind;
use crate::call::{Again, Line};
use crate::lanes::mend::is_damage;
use crate::store::PostgresStore;

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

    pub(crate) fn bind(&self, readers: &Readers) -> Bind {
        let filter = self.filter;
        let text = |text: &Option<String>| text.clone();
        Bind::new()
            .value(filter.status.map(Standing::as_str))
            .value(self.statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>())
            .value(filter.route.as_ref().map(RouteName::as_str))
            .value(text(&filter.event_type))
            .value(text(&filter.key))
            .value(text(&filter.tenant))
            .value(filter.error.map(FailureKind::as_str))
            .at(filter.since)
            .at(filter.until)
            .value(filter.after)
            .value(self.ids.map(|ids| ids.iter().map(|id| id.0).collect::<Vec<Uuid>>()))
            .value(readers.routes.clone())
            .value(readers.lanes.clone())
            .value(readers.handed.clone())
            .at(self.now)
            .value(self.is_derived())
            .value(self.limit.map(i64::from))
            .value(self.waits)
    }
}

/// The lanes that are held, and how far was read of each.
#[derive(Default)]
pub(crate) struct Readers {
    routes: Vec<String>,
    lanes: Vec<i64>,
    handed: Vec<i64>,
}

impl PostgresStore {
    /// Who reads which lane. A server that follows another one does not know: there are no relays on it, either.
    pub(crate) async fn readers(&self) -> Result<Readers> {
        let rows = self.run(Line::Operator, Again::Always, &self.sql().readers, Bind::new().done()?).await;
        match rows {
            // Where its tables are damaged nothing is handed out, and looking at the schema says so.
            Err(error) if error.kind() == ErrorKind::ReadOnly || is_damage(&error) => Ok(Readers::default()),
            rows => Readers::read(&rows?),
        }
    }
}

impl Readers {
    fn read(rows: &[PgRow]) -> Result<Self> {
        let unreadable = |_| Error::new(ErrorKind::Corrupt, "the lanes that are held cannot be read");
        let mut readers = Self::default();
        for row in rows {
            readers.routes.push(row.try_get(0).map_err(unreadable)?);
            readers.lanes.push(row.try_get(1).map_err(unreadable)?);
            readers.handed.push(row.try_get(2).map_err(unreadable)?);
        }
        Ok(readers)
    }
}
