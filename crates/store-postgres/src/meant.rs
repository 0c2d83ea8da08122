//! The entries that an operator means, by ids or by a filter: the values of `matching.sql`.

use pillarbox_core::port::shared::{Asked, Columns};
use pillarbox_core::{ErrorKind, Result, RouteName, Standing};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::lanes::mend::is_damage;
use crate::row::Cells;
use crate::store::PostgresStore;

/// The values of `matching.sql`.
pub(crate) fn bind(asked: &Asked<'_>, readers: &Readers) -> Bind {
    let filter = asked.filter;
    let text = |text: &Option<String>| text.clone();
    Bind::new()
        .value(filter.status.map(Standing::as_str))
        .value(asked.statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>())
        .value(filter.route.as_ref().map(RouteName::as_str))
        .value(text(&filter.event_type))
        .value(text(&filter.key))
        .value(text(&filter.tenant))
        .value(filter.error_begins())
        .at(filter.since)
        .at(filter.until)
        .value(filter.after)
        .value(asked.ids.map(|ids| ids.iter().map(|id| id.0).collect::<Vec<Uuid>>()))
        .value(readers.routes.clone())
        .value(readers.lanes.clone())
        .value(readers.handed.clone())
        .at(asked.now)
        .value(asked.is_derived())
        .value(asked.limit.map(i64::from))
        .value(asked.waits)
}
/// The lanes that are held, and how far was read of each.
#[derive(Default)]
pub(crate) struct Readers {
    routes: Vec<String>,
    lanes: Vec<i64>,
    handed: Vec<i64>,
}

impl PostgresStore {
    /// Which session reads which lane. A standby does not know this, and no relay runs on it.
    pub(crate) async fn readers(&self) -> Result<Readers> {
        let rows = self.run(Traffic::Operator, Again::Always, &self.sql().readers, Bind::new().done()?).await;
        match rows {
            // Where its tables are damaged nothing is handed out, and looking at the schema says so.
            Err(error) if error.kind() == ErrorKind::ReadOnly || is_damage(&error) => Ok(Readers::default()),
            rows => Readers::read(&rows?),
        }
    }
}

impl Readers {
    fn read(rows: &[PgRow]) -> Result<Self> {
        let mut readers = Self::default();
        for mut row in rows.iter().map(Cells::of) {
            readers.routes.push(row.text()?);
            readers.lanes.push(row.number()?);
            readers.handed.push(row.number()?);
        }
        Ok(readers)
    }
}
