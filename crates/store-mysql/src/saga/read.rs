//! Reading sagas and their entries.

use pillarbox_core::port::shared::{Columns, held, saga_columns};
use pillarbox_core::{Entry, Error, ErrorKind, Failure, Held, Result, SagaId, SagaRecord, Status, StepSeen};
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use crate::bind::Bind;
use crate::row::{Cells, decode};
use crate::sql::{Lockable, Sql, Statements};

/// Where the saga begins in a row of `saga_held.sql`.
const SAGA_OF_HELD: usize = 5;

/// Reads a row of `saga_held.sql`: a claim that still stands, and its saga, if it is of one.
pub(super) fn held_step(row: &MySqlRow) -> Result<(Held, (StepSeen, Option<SagaRecord>))> {
    let mut cells = Cells::of(row);
    let held = held(&mut cells)?;
    let unknown = || Error::new(ErrorKind::Corrupt, "the id of an entry cannot be read");
    let event_id = cells.event_id()?.ok_or_else(unknown)?;
    let attempts = u32::try_from(cells.number()?).unwrap_or(0);
    let last_error = cells.optional_text()?.as_deref().map(Failure::parse);
    let seen = StepSeen { held, event_id, status: Status::InFlight, attempts, last_error };
    let is_of_one = cells.optional_text()?.is_some();
    let saga = is_of_one.then(|| saga(row, SAGA_OF_HELD)).transpose()?;
    Ok((held, (seen, saga)))
}

/// Reads the columns of a saga from this one on.
pub(super) fn saga(row: &MySqlRow, from: usize) -> Result<SagaRecord> {
    SagaRecord::read(saga_columns(&mut Cells::from(row, from))?)
}

/// Whether what is read is kept from others until the transaction ends.
#[derive(Clone, Copy)]
pub(super) enum Kept {
    No,
    Locked,
}

impl Kept {
    fn text(self, statement: &Lockable) -> &Sql {
        match self {
            Self::No => &statement.look,
            Self::Locked => &statement.lock,
        }
    }
}

/// A saga with its entries, oldest first.
pub(super) async fn load(
    statements: &Statements,
    id: SagaId,
    kept: Kept,
    connection: &mut MySqlConnection,
) -> Result<Option<(SagaRecord, Vec<Entry>)>> {
    let name = id.to_string();
    let show = kept.text(&statements.saga_show).with(Bind::new().bytes(name.as_str()))?;
    let rows = show.rows(connection).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let saga = saga(row, 0)?;
    let bind = Bind::new().json(&saga.event_ids()).bytes(name);
    let rows = kept.text(&statements.saga_entries).with(bind)?.rows(connection).await?;
    Ok(Some((saga, rows.iter().map(|row| decode(row).entry).collect())))
}
