//! rusqlite.

use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Blocking, Call, Changed, Row, driver};
use rusqlite::types::{ToSqlOutput, Value as Bound, ValueRef};
use rusqlite::{Connection, Savepoint, ToSql, Transaction, params_from_iter};

use crate::error::from_code;
use crate::statement::Value;

driver!(shared blocking Transaction<'_>, Value);
driver!(shared blocking Savepoint<'_>, Value);

impl Blocking<Value> for &Transaction<'_> {
    fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        change(self, &call)
    }

    fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        ask(self, &call)
    }
}

impl Blocking<Value> for &Savepoint<'_> {
    fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        change(self, &call)
    }

    fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        ask(self, &call)
    }
}

fn change(connection: &Connection, call: &Call<Value>) -> Result<Changed> {
    let mut statement = connection.prepare_cached(&call.sql).map_err(failed)?;
    Ok(Changed::rows(statement.execute(params_from_iter(&call.values)).map_err(failed)? as u64))
}

fn ask(connection: &Connection, call: &Call<Value>) -> Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(&call.sql).map_err(failed)?;
    let columns = statement.column_count();
    let cells = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
    let rows = statement.query_map(params_from_iter(&call.values), cells).map_err(failed)?;
    rows.map(|cells| cells.map(Row).map_err(failed)).collect()
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Bound::Null),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Integer(number) => ToSqlOutput::Owned(Bound::Integer(*number)),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

/// What the driver's error means: by SQLite's result code.
fn failed(error: rusqlite::Error) -> Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            from_code(code.extended_code.into(), text.as_deref().unwrap_or_default())
        }
        rusqlite::Error::SqlInputError { error, msg, .. } => from_code(error.extended_code.into(), &msg),
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..) => {
            Error::new(ErrorKind::Corrupt, "the answer of the database cannot be read")
        }
        _ => Error::new(ErrorKind::Internal, "rusqlite could not run the statement"),
    }
}
