//! What both kinds of diesel share: a call as a query, a row of any columns, and what diesel's errors mean.

use std::io;

use diesel::deserialize::{self, FromSql, QueryableByName};
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::row::{Field, NamedRow, Row as DieselRow};
use diesel::sql_types::{Array, BigInt, Binary, Nullable, Text};
use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Call, Row};

use crate::error::{Phase, lost, of_server};
use crate::statement::Value;

/// The call as a query with its values bound. diesel does not keep such queries prepared.
pub(super) fn query(call: Call<Value>) -> BoxedSqlQuery<'static, Pg, SqlQuery> {
    let query = diesel::sql_query(&*call.sql).into_boxed();
    call.values.into_iter().fold(query, |query, value| match value {
        Value::Text(text) => query.bind::<Nullable<Text>, _>(text),
        Value::Integer(number) => query.bind::<Nullable<BigInt>, _>(number),
        Value::Bytes(bytes) => query.bind::<Binary, _>(bytes),
        Value::Texts(texts) => query.bind::<Array<Nullable<Text>>, _>(texts),
        Value::Integers(numbers) => query.bind::<Array<Nullable<BigInt>>, _>(numbers),
        Value::Blobs(blobs) => query.bind::<Array<Binary>, _>(blobs),
    })
}

/// A row of any number of texts.
pub(super) struct Cells(pub(super) Row);

impl QueryableByName<Pg> for Cells {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        let cell = |column: usize| {
            let field = DieselRow::get(row, column).ok_or("a column is missing")?;
            <String as FromSql<Text, Pg>>::from_nullable_sql(field.value())
        };
        Ok(Self(Row((0..row.field_count()).map(cell).collect::<deserialize::Result<_>>()?)))
    }
}

/// Refuses to work outside of a transaction. diesel has no type for one, so its depth is asked.
pub(super) fn inside<D>(depth: diesel::QueryResult<Option<D>>) -> Result<()> {
    match depth {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Error::invalid(
            "this connection is not in a transaction, so the event would not be committed with your own write. \
             Call this inside of `connection.transaction(…)`",
        )),
        Err(error) => Err(failed(error)),
    }
}

/// What the server says in English where diesel passes on neither a kind nor the SQLSTATE, and that state. The first
/// match wins. A server that speaks another language gets `Internal` instead.
const MESSAGES: &[(&str, &str)] = &[
    ("deadlock detected", "40P01"),
    ("due to lock timeout", "55P03"),
    ("could not obtain lock", "55P03"),
    ("due to statement timeout", "57014"),
    ("current transaction is aborted", "25P02"),
    ("permission denied", "42501"),
    ("terminating connection", "57P01"),
    ("prepared statement", "26000"),
    ("does not exist", "42P01"),
];

/// What diesel's error means. It hides the SQLSTATE, so its own kind or the message has to tell.
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
    let state = match kind {
        DatabaseErrorKind::UniqueViolation => "23505",
        DatabaseErrorKind::ForeignKeyViolation => "23503",
        DatabaseErrorKind::NotNullViolation => "23502",
        DatabaseErrorKind::CheckViolation => "23514",
        DatabaseErrorKind::RestrictViolation => "23001",
        DatabaseErrorKind::ExclusionViolation => "23P01",
        DatabaseErrorKind::SerializationFailure => "40001",
        DatabaseErrorKind::ReadOnlyTransaction => "25006",
        DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => {
            return lost(&io::ErrorKind::NotConnected.into(), Phase::Application);
        }
        _ => match MESSAGES.iter().find(|(text, _)| message.contains(text)) {
            Some((_, state)) => state,
            // Its text may quote a value.
            None => {
                return Error::new(ErrorKind::Internal, "the server rejects the statement; its log says why");
            }
        },
    };
    of_server(state, None, message, Phase::Application)
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
            (DatabaseErrorKind::RestrictViolation, ErrorKind::Invalid),
            (DatabaseErrorKind::ExclusionViolation, ErrorKind::Invalid),
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
            ("deadlock detected", ErrorKind::Contention),
            ("canceling statement due to lock timeout", ErrorKind::Contention),
            ("could not obtain lock on relation \"orders\"", ErrorKind::Contention),
            ("canceling statement due to statement timeout", ErrorKind::Timeout),
            ("permission denied for table pillarbox_outbox", ErrorKind::Denied),
            ("terminating connection due to administrator command", ErrorKind::Unavailable),
            ("prepared statement \"s1\" does not exist", ErrorKind::Unsupported),
            ("prepared statement \"s1\" already exists", ErrorKind::Unsupported),
            ("relation \"pillarbox_outbox\" does not exist", ErrorKind::Schema),
        ] {
            assert_eq!(said(DatabaseErrorKind::Unknown, message).kind(), expected, "{message}");
        }
    }

    #[test]
    fn an_unknown_message_is_not_repeated() {
        let error = said(DatabaseErrorKind::Unknown, "invalid input syntax for type uuid: \"canary\"");
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}
