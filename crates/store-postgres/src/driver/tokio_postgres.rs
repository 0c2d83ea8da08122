//! tokio-postgres. Every statement is one round trip and leaves nothing prepared, so it also works behind a
//! transaction pooler.

use std::error::Error as _;
use std::io;

use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Call, Changed, Row, Waiting, driver};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use crate::error::{Phase, lost, of_server};
use crate::statement::Value;

driver!(shared waiting Transaction<'_>, Value);

impl Waiting<Value> for &Transaction<'_> {
    async fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        self.execute_typed(&call.sql, &typed(&call.values)).await.map(Changed::rows).map_err(failed)
    }

    async fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        let rows = self.query_typed(&call.sql, &typed(&call.values)).await.map_err(failed)?;
        rows.iter().map(row).collect()
    }
}

fn typed(values: &[Value]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    values.iter().map(one_typed).collect()
}

fn one_typed(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Text(text) => (text, Type::TEXT),
        Value::Integer(number) => (number, Type::INT8),
        Value::Bytes(bytes) => (bytes, Type::BYTEA),
        Value::Texts(texts) => (texts, Type::TEXT_ARRAY),
        Value::Integers(numbers) => (numbers, Type::INT8_ARRAY),
        Value::Blobs(blobs) => (blobs, Type::BYTEA_ARRAY),
    }
}

fn row(row: &tokio_postgres::Row) -> Result<Row> {
    let cells: Result<_, _> = (0..row.len()).map(|column| row.try_get(column)).collect();
    cells.map(Row).map_err(failed)
}

/// What the driver's error means: by the state that the server sent, or by the lost connection.
fn failed(error: tokio_postgres::Error) -> Error {
    if let Some(said) = error.as_db_error() {
        return of_server(said.code().code(), said.routine(), said.message(), Phase::Application);
    }
    if error.is_closed() {
        return lost(&io::ErrorKind::NotConnected.into(), Phase::Application);
    }
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(source) if source.kind() == io::ErrorKind::InvalidInput => {
            Error::too_large("the values of one call are too large for the PostgreSQL protocol")
        }
        Some(source) => lost(source, Phase::Application),
        None => Error::new(ErrorKind::Internal, "tokio-postgres could not run the statement"),
    }
}
