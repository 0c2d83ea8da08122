//! Reading the columns of a row as MariaDB and MySQL have them: ids are bytes, and so are names.

use pillarbox_core::port::shared::{Columns, EntryCells, Read};
pub(crate) use pillarbox_core::port::shared::{Decoded, ENTRY as COLUMNS, SAGA};
use pillarbox_core::{EventId, Result, Timestamp};
use sqlx::mysql::MySqlRow;
use sqlx::{Decode, MySql, Row};
use uuid::Uuid;

use crate::error::{Phase, classify};

/// Reads the [`COLUMNS`] of a row.
pub(crate) fn decode(row: &MySqlRow) -> Decoded {
    Decoded::read(Cells::of(row))
}

/// The columns of a row, from left to right.
pub(crate) struct Cells<'r> {
    row: &'r MySqlRow,
    column: usize,
}

impl<'r> Cells<'r> {
    pub(crate) fn of(row: &'r MySqlRow) -> Self {
        Self::from(row, 0)
    }

    /// From this column on.
    pub(crate) fn from(row: &'r MySqlRow, column: usize) -> Self {
        Self { row, column }
    }

    /// An id of 16 bytes.
    pub(crate) fn uuid(&mut self) -> Result<Option<Uuid>> {
        self.cell()
    }

    fn cell<T: Decode<'r, MySql>>(&mut self) -> Result<T> {
        self.column += 1;
        self.row.try_get_unchecked(self.column - 1).map_err(|error| classify(error, Phase::Before))
    }
}

impl Columns for Cells<'_> {
    /// What plain SQL has written in another encoding is shown as far as it can be.
    fn optional_text(&mut self) -> Result<Option<String>> {
        let bytes = self.cell::<Option<&[u8]>>()?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    fn optional_number(&mut self) -> Result<Option<i64>> {
        self.cell()
    }

    fn flag(&mut self) -> Result<bool> {
        Ok(self.cell::<Option<i64>>()?.unwrap_or(0) != 0)
    }

    fn time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.cell::<Option<i64>>()?.and_then(Timestamp::from_micros))
    }

    fn event_id(&mut self) -> Result<Option<EventId>> {
        Ok(self.uuid()?.map(EventId))
    }
}

impl EntryCells for Cells<'_> {
    fn number(&mut self) -> Read<i64> {
        self.cell().ok()
    }

    fn text(&mut self) -> Read<&str> {
        self.cell().ok()
    }

    fn bytes(&mut self) -> Read<Vec<u8>> {
        self.cell().ok()
    }

    fn id(&mut self) -> Read<Uuid> {
        self.cell().ok()
    }
}
