//! diesel.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::deserialize::{self, FromSql, QueryableByName};
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::row::{Field, NamedRow, Row as DieselRow};
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use diesel::sqlite::Sqlite;
use diesel::{RunQueryDsl, SqliteConnection};
use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Blocking, Call, Changed, Row, driver};

use crate::error::from_code;
use crate::statement::Value;

driver!(blocking SqliteConnection, Value);

impl Blocking<Value> for SqliteConnection {
    fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        inside(self)?;
        Ok(Changed::rows(query(call).execute(self).map_err(failed)? as u64))
    }

    fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        inside(self)?;
        let rows = query(call).load::<Cells>(self).map_err(failed)?;
        Ok(rows.into_iter().map(|cells| cells.0).collect())
    }
}

/// Refuses to work outside of a transaction. diesel has no type for one, so its depth is asked.
fn inside(connection: &mut SqliteConnection) -> Result<()> {
    match AnsiTransactionManager::transaction_manager_status_mut(connection).transaction_depth() {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Error::invalid(
            "this connection is not in a transaction, so the event would not be committed with your own write. \
             Call this inside of `connection.immediate_transaction(…)`",
        )),
        Err(error) => Err(failed(error)),
    }
}

fn query(call: Call<Value>) -> BoxedSqlQuery<'static, Sqlite, SqlQuery> {
    let query = diesel::sql_query(&*call.sql).into_boxed();
    call.values.into_iter().fold(query, |query, value| match value {
        Value::Null => query.bind::<Nullable<BigInt>, _>(None::<i64>),
        Value::Text(text) => query.bind::<Text, _>(text),
        Value::Integer(number) => query.bind::<BigInt, _>(number),
        Value::Bytes(bytes) => query.bind::<Binary, _>(bytes),
    })
}

/// A row of any number of texts.
struct Cells(Row);

impl QueryableByName<Sqlite> for Cells {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> deserialize::Result<Self> {
        let cell = |column: usize| {
            let field = DieselRow::get(row, column).ok_or("a column is missing")?;
            <String as FromSql<Text, Sqlite>>::from_nullable_sql(field.value())
        };
        Ok(Self(Row((0..row.field_count()).map(cell).collect::<deserialize::Result<_>>()?)))
    }
}

/// SQLite's texts for the result codes that diesel does not pass on, and those codes.
const MESSAGES: &[(&str, i64)] = &[
    ("access permission denied", 3),
    ("database is locked", 5),
    ("database table is locked", 6),
    ("out of memory", 7),
    ("readonly database", 8),
    ("interrupted", 9),
    ("disk I/O error", 10),
    ("malformed", 11),
    ("disk is full", 13),
    ("unable to open database file", 14),
    ("schema has changed", 17),
    ("too big", 18),
    ("datatype mismatch", 20),
    ("not authorized", 23),
    ("file is not a database", 26),
];

/// What diesel's error means. It hides SQLite's result code, so its own kind or the message has to tell.
fn failed(error: DieselError) -> Error {
    match &error {
        DieselError::DatabaseError(kind, said) => from_code(code(kind, said.message()), said.message()),
        DieselError::DeserializationError(_) => {
            Error::new(ErrorKind::Corrupt, "the answer of the database cannot be read")
        }
        DieselError::SerializationError(_) | DieselError::InvalidCString(_) => {
            Error::invalid("a value cannot be passed to SQLite")
        }
        DieselError::BrokenTransactionManager => {
            Error::new(ErrorKind::Aborted, "the transaction is broken. Roll it back")
        }
        _ => Error::new(ErrorKind::Internal, "diesel could not run the statement"),
    }
}

fn code(kind: &DatabaseErrorKind, message: &str) -> i64 {
    match kind {
        DatabaseErrorKind::UniqueViolation => 2067,
        DatabaseErrorKind::ForeignKeyViolation => 787,
        DatabaseErrorKind::NotNullViolation => 1299,
        DatabaseErrorKind::CheckViolation => 275,
        // A text that is none of SQLite's may be the one of a trigger, which the plain code 1 would repeat.
        _ if message.starts_with("no such ") || message.contains("has no column named") => 1,
        _ => MESSAGES.iter().find(|(text, _)| message.contains(text)).map_or(1811, |(_, code)| *code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: DatabaseErrorKind, message: &str) -> Error {
        failed(DieselError::DatabaseError(kind, Box::new(message.to_owned())))
    }

    #[test]
    fn a_kind_that_diesel_knows_decides() {
        for kind in [
            DatabaseErrorKind::UniqueViolation,
            DatabaseErrorKind::ForeignKeyViolation,
            DatabaseErrorKind::NotNullViolation,
            DatabaseErrorKind::CheckViolation,
        ] {
            assert_eq!(said(kind, "said").kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn a_message_decides_where_diesel_knows_no_kind() {
        for (message, expected) in [
            ("access permission denied", ErrorKind::Denied),
            ("database is locked", ErrorKind::Contention),
            ("database table is locked: orders", ErrorKind::Contention),
            ("out of memory", ErrorKind::Unavailable),
            ("attempt to write a readonly database", ErrorKind::ReadOnly),
            ("interrupted", ErrorKind::Timeout),
            ("disk I/O error", ErrorKind::Unavailable),
            ("database disk image is malformed", ErrorKind::Corrupt),
            ("database or disk is full", ErrorKind::ReadOnly),
            ("unable to open database file", ErrorKind::Unavailable),
            ("database schema has changed", ErrorKind::Contention),
            ("string or blob too big", ErrorKind::TooLarge),
            ("datatype mismatch", ErrorKind::Invalid),
            ("not authorized", ErrorKind::Denied),
            ("file is not a database", ErrorKind::Corrupt),
            ("no such table: pillarbox_outbox", ErrorKind::Schema),
            ("table pillarbox_outbox has no column named hlc", ErrorKind::Schema),
        ] {
            assert_eq!(said(DatabaseErrorKind::Unknown, message).kind(), expected, "{message}");
        }
    }

    #[test]
    fn an_unknown_message_is_not_repeated() {
        let error = said(DatabaseErrorKind::Unknown, "a trigger said canary");
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}
