//! What both kinds of diesel share: a call as a query, a row of any columns, and what diesel's errors mean.

use std::io;

use diesel::QueryResult;
use diesel::deserialize::{self, FromSql, QueryableByName};
use diesel::mysql::Mysql;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::row::{Field, NamedRow, Row as DieselRow};
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Call, Row};

use super::cell;
use crate::error::{Phase, lost, of_server};
use crate::statement::Value;

/// The call as a query with its values bound. diesel does not keep such queries prepared.
pub(super) fn query(call: Call<Value>) -> BoxedSqlQuery<'static, Mysql, SqlQuery> {
    let query = diesel::sql_query(&*call.sql).into_boxed();
    call.values.into_iter().fold(query, |query, value| match value {
        Value::Text(text) => query.bind::<Nullable<Text>, _>(text),
        Value::Integer(number) => query.bind::<Nullable<BigInt>, _>(number),
        Value::Bytes(bytes) => query.bind::<Binary, _>(bytes),
    })
}

/// Asks for the number that the last statement told, which diesel does not pass on.
pub(super) fn which() -> SqlQuery {
    diesel::sql_query("select cast(last_insert_id() as binary)")
}

/// That number.
pub(super) fn told(answer: QueryResult<Vec<Cells>>) -> Result<u64> {
    let told = rows(answer)?.first().map_or(Ok(0), |row| row.number(0))?;
    Ok(u64::try_from(told).unwrap_or(0))
}

/// The rows of an answer.
pub(super) fn rows(answer: QueryResult<Vec<Cells>>) -> Result<Vec<Row>> {
    Ok(answer.map_err(failed)?.into_iter().map(|cells| cells.0).collect())
}

/// A row of any number of texts.
pub(super) struct Cells(Row);

impl QueryableByName<Mysql> for Cells {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> deserialize::Result<Self> {
        let read = |column: usize| {
            let field = DieselRow::get(row, column).ok_or("a column is missing")?;
            Ok(cell(<Vec<u8> as FromSql<Binary, Mysql>>::from_nullable_sql(field.value())?)?)
        };
        Ok(Self(Row((0..row.field_count()).map(read).collect::<deserialize::Result<_>>()?)))
    }
}

/// Refuses to work outside of a transaction. diesel has no type for one, so its depth is asked.
pub(super) fn inside<D>(depth: QueryResult<Option<D>>) -> Result<()> {
    match depth {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Error::invalid(
            "this connection is not in a transaction, so the event would not be committed with your own write. \
             Call this inside of `connection.transaction(…)`",
        )),
        Err(error) => Err(failed(error)),
    }
}

/// What the servers say in English where diesel passes on neither a kind nor the number, and that number. The first
/// match wins. A server that speaks another language gets `Internal` instead.
const MESSAGES: &[(&str, u16)] = &[
    ("Deadlock found", 1213),
    ("Lock wait timeout exceeded", 1205),
    ("max_statement_time exceeded", 1969),
    ("maximum statement execution time exceeded", 3024),
    ("execution was interrupted", 1317),
    ("max_allowed_packet", 1153),
    ("read-only", 1290),
    ("read only", 1792),
    ("denied", 1142),
    ("doesn't exist", 1146),
    ("Unknown column", 1054),
    ("is full", 1114),
    ("Server shutdown in progress", 1053),
    ("CONSTRAINT", 4025),
    ("Check constraint", 3819),
];

/// What the clients say of a connection that is lost.
const LOST: &[&str] = &["gone away", "Lost connection", "Connection was killed", "closed the connection"];

/// What diesel's error means. It hides the server's number, so its own kind or the message has to tell.
pub(super) fn failed(error: DieselError) -> Error {
    let (kind, message) = match &error {
        DieselError::DatabaseError(kind, said) => (kind, said.message()),
        DieselError::DeserializationError(_) => {
            return Error::new(ErrorKind::Corrupt, "the answer of the database cannot be read");
        }
        DieselError::SerializationError(_) | DieselError::InvalidCString(_) => {
            return Error::invalid("a value cannot be sent to the database");
        }
        DieselError::BrokenTransactionManager => {
            return Error::new(ErrorKind::Aborted, "the transaction is broken. Roll it back");
        }
        _ => return Error::new(ErrorKind::Internal, "diesel could not run the statement"),
    };
    let gone = || lost(&io::ErrorKind::NotConnected.into());
    let number = match kind {
        DatabaseErrorKind::UniqueViolation => 1062,
        DatabaseErrorKind::ForeignKeyViolation => 1452,
        DatabaseErrorKind::NotNullViolation => 1048,
        DatabaseErrorKind::CheckViolation => 3819,
        DatabaseErrorKind::SerializationFailure => 1213,
        DatabaseErrorKind::ReadOnlyTransaction => 1792,
        DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => return gone(),
        _ if LOST.iter().any(|text| message.contains(text)) => return gone(),
        _ => match MESSAGES.iter().find(|(text, _)| message.contains(text)) {
            Some((_, number)) => *number,
            // Its text may quote a value.
            None => {
                return Error::new(ErrorKind::Internal, "the server rejects the statement; its log says why");
            }
        },
    };
    of_server(number, Phase::Application)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: DatabaseErrorKind, message: &str) -> Error {
        failed(DieselError::DatabaseError(kind, Box::new(message.to_owned())))
    }

    #[test]
    fn a_kind_that_diesel_knows_decides() {
        for (kind, expected) in [
            (DatabaseErrorKind::UniqueViolation, ErrorKind::Invalid),
            (DatabaseErrorKind::ForeignKeyViolation, ErrorKind::Invalid),
            (DatabaseErrorKind::NotNullViolation, ErrorKind::Invalid),
            (DatabaseErrorKind::CheckViolation, ErrorKind::Invalid),
            (DatabaseErrorKind::SerializationFailure, ErrorKind::Contention),
            (DatabaseErrorKind::ReadOnlyTransaction, ErrorKind::ReadOnly),
            (DatabaseErrorKind::ClosedConnection, ErrorKind::Unavailable),
            (DatabaseErrorKind::UnableToSendCommand, ErrorKind::Unavailable),
        ] {
            assert_eq!(said(kind, "said").kind(), expected);
        }
    }

    #[test]
    fn a_message_decides_where_diesel_knows_no_kind() {
        for (message, expected) in [
            ("Deadlock found when trying to get lock; try restarting transaction", ErrorKind::Contention),
            ("Lock wait timeout exceeded; try restarting transaction", ErrorKind::Contention),
            ("Query execution was interrupted (max_statement_time exceeded)", ErrorKind::Timeout),
            (
                "Query execution was interrupted, maximum statement execution time exceeded",
                ErrorKind::Timeout,
            ),
            ("Got a packet bigger than 'max_allowed_packet' bytes", ErrorKind::TooLarge),
            ("The server is running with the --read-only option", ErrorKind::ReadOnly),
            ("INSERT command denied to user", ErrorKind::Denied),
            ("Table 'shop.pillarbox_outbox' doesn't exist", ErrorKind::Schema),
            ("Unknown column 'hlc' in 'field list'", ErrorKind::Schema),
            ("CONSTRAINT `pillarbox_outbox.route` failed", ErrorKind::Invalid),
            ("Check constraint 'pillarbox_outbox_chk_1' is violated.", ErrorKind::Invalid),
            ("MySQL server has gone away", ErrorKind::Unavailable),
            ("Lost connection to MySQL server during query", ErrorKind::Unavailable),
        ] {
            assert_eq!(said(DatabaseErrorKind::Unknown, message).kind(), expected, "{message}");
        }
    }

    #[test]
    fn an_unknown_message_is_not_repeated() {
        let error = said(DatabaseErrorKind::Unknown, "Incorrect integer value: 'canary'");
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}
