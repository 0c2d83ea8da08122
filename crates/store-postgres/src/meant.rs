//! The entries that an operator means, by ids or by a filter: how they are found, and the values of `matching.sql`.

use pillarbox_core::port::CountByRequest;
use pillarbox_core::port::shared::{Asked, Columns};
use pillarbox_core::{ErrorKind, Result, RouteName, Standing, Status};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::bind::Bind;
use crate::call::{Again, Traffic, Unit};
use crate::lanes::mend::is_damage;
use crate::row::Cells;
use crate::sql::{Meant, Sql, Way};
use crate::store::PostgresStore;

/// One of the looks for a page, each further than the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    way: Way,
    /// How many entries of each part of an index are looked at. `None`: all.
    most: Option<i64>,
}

/// The looks for these entries. The last one finds all of them, those before it all of the oldest.
fn looks(asked: &Asked<'_>) -> Vec<Look> {
    let all = |way| Look { way, most: None };
    let standing = asked.filter.status;
    let last = if asked.ids.is_some() {
        Way::Ids
    } else if asked.statuses.iter().all(|status| status.is_terminal()) {
        Way::Ended
    } else if asked.statuses.iter().any(|status| status.is_terminal()) {
        if asked.limit.is_some() { Way::Staged } else { Way::All }
    } else if standing == Some(Status::InFlight.into()) {
        Way::InFlight
    } else if standing == Some(Standing::Blocked) {
        Way::Blocked
    } else if asked.statuses == [Status::Retrying] {
        Way::Retrying
    } else {
        Way::All
    };
    let page = match asked.limit.map(i64::from) {
        Some(page) if last == Way::Ended && asked.statuses.contains(&Status::Delivered) => {
            return vec![Look { way: Way::Oldest, most: Some(page * 20) }, all(last)];
        }
        Some(page) if matches!(last, Way::Retrying | Way::Blocked | Way::All) => page,
        _ => return vec![all(last)],
    };
    let first = Look { way: Way::Open, most: Some(page * 2) };
    let second = match last {
        // Of a lane of the dead only those of their keys are counted.
        Way::Blocked => Look { way: Way::Blocked, most: Some(page / 8 + 4) },
        _ => Look { way: Way::Open, most: Some(page * 20) },
    };
    vec![first, second, all(last)]
}

/// The values of `matching.sql`.
fn bind(asked: &Asked<'_>, readers: &Readers, most: Option<i64>) -> Bind {
    let filter = asked.filter;
    let text = |text: &Option<String>| text.clone();
    Bind::new()
        .value(filter.status.filter(|_| asked.is_derived()).map(Standing::as_str))
        .value(most)
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
        .value(asked.limit.map(i64::from))
        .value(asked.waits)
}

/// The first of the entries that are meant, as many as the limit says, oldest first. Each statement sees one moment, and only
/// the answer of one is taken.
pub(crate) async fn page(
    unit: &mut Unit,
    statement: &Meant,
    asked: &Asked<'_>,
    readers: &Readers,
) -> Result<Vec<PgRow>> {
    unit.script(&Sql::by_page()).await?;
    let mut rows = Vec::new();
    for look in looks(asked) {
        let sql = statement.of(look.way, &asked.statuses);
        rows = unit.rows(&sql, bind(asked, readers, look.most).done()?).await?;
        if asked.limit.is_some_and(|limit| rows.len() as u64 >= u64::from(limit)) {
            break;
        }
    }
    unit.script(&Sql::as_before()).await?;
    Ok(rows)
}

/// How many of the entries that are meant are in each of the largest groups.
pub(crate) async fn groups(
    unit: &mut Unit,
    statement: &Meant,
    request: &CountByRequest,
    readers: &Readers,
) -> Result<Vec<PgRow>> {
    unit.script(&Sql::by_hash()).await?;
    let asked = Asked::counted(&request.filter);
    // Without a limit there is one look.
    let way = looks(&asked).last().map_or(Way::All, |look| look.way);
    let values = bind(&asked, readers, None).text(request.by.as_str()).number(request.filter.limit.into());
    unit.rows(&statement.of(way, &asked.statuses), values.done()?).await
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
