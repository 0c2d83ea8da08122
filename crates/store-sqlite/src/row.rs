//! Reading the columns of a row as SQLite has them.

use pillarbox_core::port::shared::{Columns, EntryCells, Read};
use pillarbox_core::{EventId, Result, RouteName, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite};
use uuid::Uuid;

use crate::error::classify;

pub(crate) use pillarbox_core::port::shared::{Decoded, ENTRY as COLUMNS, SAGA};

/// Reads the [`COLUMNS`] of a row.
pub(crate) fn decode(row: &SqliteRow) -> Decoded {
    Decoded::read(Cells::of(row))
}

/// The columns of an answer that is not on the way of every entry. Names that plain SQL has spoiled are shown as far as
/// they can be.
pub(crate) struct Cells<'r> {
    row: &'r SqliteRow,
    column: usize,
}

impl<'r> Cells<'r> {
    pub(crate) fn of(row: &'r SqliteRow) -> Self {
        Self::from(row, 0)
    }

    /// From this column on.
    pub(crate) fn from(row: &'r SqliteRow, column: usize) -> Self {
        Self { row, column }
    }

    fn next<T: Decode<'r, Sqlite>>(&mut self) -> Result<T> {
        self.column += 1;
        self.row.try_get_unchecked(self.column - 1).map_err(classify)
    }
}

impl Columns for Cells<'_> {
    fn optional_text(&mut self) -> Result<Option<String>> {
        self.next()
    }

    fn optional_number(&mut self) -> Result<Option<i64>> {
        self.next()
    }

    fn flag(&mut self) -> Result<bool> {
        self.next()
    }

    fn time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.next::<Option<i64>>()?.and_then(Timestamp::from_micros))
    }

    fn event_id(&mut self) -> Result<Option<EventId>> {
        Ok(self.next::<Option<&str>>()?.and_then(|id| Uuid::try_parse(id).ok()).map(EventId))
    }

    fn route(&mut self) -> Result<RouteName> {
        Ok(RouteName::shown(self.next::<Option<&str>>().ok().flatten().unwrap_or_default()))
    }
}

impl EntryCells for Cells<'_> {
    fn number(&mut self) -> Read<i64> {
        self.next().ok()
    }

    fn text(&mut self) -> Read<&str> {
        self.next().ok()
    }

    fn bytes(&mut self) -> Read<Vec<u8>> {
        self.next().ok()
    }

    fn id(&mut self) -> Read<Uuid> {
        Some(self.next::<Option<&str>>().ok()?.and_then(|id| Uuid::try_parse(id).ok()))
    }
}
