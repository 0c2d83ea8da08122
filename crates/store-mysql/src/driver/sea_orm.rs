//! SeaORM, over sqlx.

use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Call, Changed, Row, Waiting, driver};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryResult, RuntimeErr, Statement};

use super::cell;
use crate::error::{Phase, explain};
use crate::statement::Value;

driver!(shared waiting DatabaseTransaction, Value);

impl Waiting<Value> for &DatabaseTransaction {
    async fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        let done = self.execute_raw(statement(self, call)?).await.map_err(failed)?;
        Ok(Changed::rows(done.rows_affected()).told(done.last_insert_id()))
    }

    async fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        let rows = self.query_all_raw(statement(self, call)?).await.map_err(failed)?;
        rows.iter().map(row).collect()
    }
}

/// The call as a statement of SeaORM. Its transactions are of one type for all databases.
fn statement(tx: &DatabaseTransaction, call: Call<Value>) -> Result<Statement> {
    if tx.get_database_backend() != DbBackend::MySql {
        return Err(Error::invalid(
            "this transaction is of another database, but the outbox is on MariaDB or MySQL. Use the outbox of the \
             transaction's own database",
        ));
    }
    let values = call.values.into_iter().map(|value| match value {
        Value::Text(text) => text.into(),
        Value::Integer(number) => number.into(),
        Value::Bytes(bytes) => bytes.into(),
    });
    Ok(Statement::from_sql_and_values(DbBackend::MySql, &*call.sql, values))
}

fn row(row: &QueryResult) -> Result<Row> {
    let columns = row.column_names().len();
    let read = |column| cell(row.try_get_by_index(column).map_err(failed)?);
    (0..columns).map(read).collect::<Result<_>>().map(Row)
}

/// What the error means: by the error of sqlx inside.
fn failed(error: DbErr) -> Error {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) => explain(&error, Phase::Application),
        DbErr::ConnectionAcquire(_) => {
            Error::new(ErrorKind::Timeout, "no database connection became free in time")
        }
        DbErr::Type(_) => Error::new(ErrorKind::Corrupt, "the answer of the database cannot be read"),
        _ => Error::new(ErrorKind::Internal, "SeaORM could not run the statement"),
    }
}
