//! One table from what sqlx and SQLite report to what callers act on.
//!
//! The texts are our own: SQLite's may quote what a trigger or a constraint of the application says.

use pillarbox_core::{Error, ErrorKind, Retry};

/// Result codes of SQLite, what they mean here, and the text for people. Where an extended code has no row of its
/// own, its primary code speaks for it.
const CODES: &[(i64, ErrorKind, &str)] = &[
    (3, ErrorKind::Denied, "access to the database file is denied"),
    (5, ErrorKind::Contention, "another writer has locked the database file; try again"),
    (6, ErrorKind::Contention, "another connection has locked the table; try again"),
    (7, ErrorKind::Unavailable, "SQLite is out of memory"),
    (8, ErrorKind::ReadOnly, "the database file is read-only"),
    (9, ErrorKind::Timeout, "the statement was interrupted"),
    (10, ErrorKind::Unavailable, "the disk reports an error"),
    (11, ErrorKind::Corrupt, "the database file is corrupt"),
    (13, ErrorKind::ReadOnly, "the disk or the database is full"),
    (14, ErrorKind::Unavailable, "the database file cannot be opened"),
    (17, ErrorKind::Contention, "the tables changed during the call"),
    (18, ErrorKind::TooLarge, "a value is larger than SQLite allows"),
    (19, ErrorKind::Invalid, "a constraint of the database rejects the row"),
    (20, ErrorKind::Invalid, "a value has the wrong type for its column"),
    (23, ErrorKind::Denied, "the statement is not authorised"),
    (26, ErrorKind::Corrupt, "the file is not a SQLite database"),
    // CONSTRAINT_TRIGGER: a trigger of the database rejected the row, which is not the caller's mistake.
    (1811, ErrorKind::Internal, "a trigger of the database rejects the row"),
];

/// What a failed call of sqlx means.
pub(crate) fn classify(error: sqlx::Error) -> Error {
    explain(&error)
}

/// The same where the error belongs to someone else.
pub(crate) fn explain(error: &sqlx::Error) -> Error {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().and_then(|code| code.parse::<i64>().ok()).unwrap_or(1);
            from_code(code, error.message())
        }
        sqlx::Error::PoolTimedOut => Error::new(ErrorKind::Timeout, "no connection became free in time"),
        sqlx::Error::PoolClosed => {
            Error::new(ErrorKind::Unavailable, "the pool is closed").with_retry(Retry::Never)
        }
        sqlx::Error::WorkerCrashed => Error::new(
            ErrorKind::Unavailable,
            "the connection ended during the call, so the call may or may not have taken effect",
        )
        .with_retry(Retry::Unknown),
        sqlx::Error::Io(error) => Error::new(
            ErrorKind::Unavailable,
            format!("the database file cannot be reached: {}", error.kind()),
        ),
        sqlx::Error::Configuration(_) => {
            Error::invalid("the database URL cannot be read; write sqlite://path")
        }
        sqlx::Error::ColumnNotFound(_) | sqlx::Error::ColumnIndexOutOfBounds { .. } => schema(),
        sqlx::Error::ColumnDecode { index, .. } => {
            Error::new(ErrorKind::Corrupt, format!("the column {index} cannot be read"))
        }
        sqlx::Error::RowNotFound => Error::new(ErrorKind::NotFound, "no such row"),
        _ => Error::new(ErrorKind::Internal, "the SQLite driver failed"),
    }
}

/// What SQLite says of a COMMIT that has nothing to commit.
const NO_TRANSACTION: &str = "no transaction is active";

/// What a failed COMMIT means: if the answer itself was lost, the outcome is unknown.
pub(crate) fn classify_commit(error: sqlx::Error) -> Error {
    if error.as_database_error().is_some_and(|error| error.message().contains(NO_TRANSACTION)) {
        // Of the two statements that may have ended it, one keeps what was written.
        return Error::new(
            ErrorKind::Aborted,
            "the transaction had ended before it was committed: the disk is full, a conflict rolled it back, \
             or a COMMIT or ROLLBACK was sent as a statement. When a statement fails, return its error. Let \
             only the code that began the transaction end it",
        )
        .with_retry(Retry::Unknown);
    }
    let error = classify(error);
    match error.kind() {
        // An error of the disk can come before or after the commit record was written.
        ErrorKind::Unavailable => error.with_retry(Retry::Unknown),
        _ => error,
    }
}

/// What a result code of SQLite means, with the text that came with it.
pub(crate) fn from_code(code: i64, message: &str) -> Error {
    let row = |code| CODES.iter().find(move |row| row.0 == code);
    // The driver reports the extended code; its low byte is the primary one.
    let error = match row(code).or_else(|| row(code & 0xff)) {
        Some((_, kind, text)) => Error::new(*kind, *text),
        None if is_schema(message) => schema(),
        // With the plain code 1 come mistakes in the statement itself, which holds no values.
        None if code == 1 => {
            Error::new(ErrorKind::Internal, format!("SQLite rejects the statement: {message}"))
        }
        None => Error::new(ErrorKind::Internal, "SQLite failed"),
    };
    error.with_code(format!("SQLITE-{code}"))
}

fn is_schema(message: &str) -> bool {
    ["no such table", "no such column", "has no column named", "no such index"]
        .iter()
        .any(|text| message.contains(text))
}

fn schema() -> Error {
    Error::new(
        ErrorKind::Schema,
        "the Pillarbox tables are missing or not as expected; `pillarbox migrate` creates or repairs them",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: i64, kind: ErrorKind, retry: Retry) {
        let error = from_code(code, "canary 4111-1111");
        assert_eq!((error.kind(), error.retry()), (kind, retry), "{code}");
        assert!(!error.to_string().contains("canary"), "{error}");
        assert_eq!(error.code(), Some(format!("SQLITE-{code}").as_str()));
    }

    #[test]
    fn every_result_code_has_its_kind_and_retry_class() {
        check(3, ErrorKind::Denied, Retry::Never);
        check(5, ErrorKind::Contention, Retry::Later);
        check(261, ErrorKind::Contention, Retry::Later); // BUSY_RECOVERY
        check(517, ErrorKind::Contention, Retry::Later); // BUSY_SNAPSHOT
        check(6, ErrorKind::Contention, Retry::Later);
        check(262, ErrorKind::Contention, Retry::Later); // LOCKED_SHAREDCACHE
        check(7, ErrorKind::Unavailable, Retry::Later);
        check(8, ErrorKind::ReadOnly, Retry::Later);
        check(1032, ErrorKind::ReadOnly, Retry::Later); // READONLY_DBMOVED
        check(9, ErrorKind::Timeout, Retry::Later);
        check(10, ErrorKind::Unavailable, Retry::Later);
        check(778, ErrorKind::Unavailable, Retry::Later); // IOERR_WRITE
        check(11, ErrorKind::Corrupt, Retry::Never);
        check(267, ErrorKind::Corrupt, Retry::Never); // CORRUPT_VTAB
        check(13, ErrorKind::ReadOnly, Retry::Later);
        check(14, ErrorKind::Unavailable, Retry::Later);
        check(17, ErrorKind::Contention, Retry::Later);
        check(18, ErrorKind::TooLarge, Retry::Never);
        check(19, ErrorKind::Invalid, Retry::Never);
        check(275, ErrorKind::Invalid, Retry::Never); // CONSTRAINT_CHECK
        check(1811, ErrorKind::Internal, Retry::Never); // CONSTRAINT_TRIGGER
        check(20, ErrorKind::Invalid, Retry::Never);
        check(23, ErrorKind::Denied, Retry::Never);
        check(26, ErrorKind::Corrupt, Retry::Never);
        check(21, ErrorKind::Internal, Retry::Never);
    }

    #[test]
    fn a_missing_table_or_column_is_a_schema_error() {
        for message in
            ["no such table: pillarbox_outbox", "table x has no column named hlc", "no such column: hlc"]
        {
            assert_eq!(from_code(1, message).kind(), ErrorKind::Schema, "{message}");
        }
        assert_eq!(from_code(1, "near \"selec\": syntax error").kind(), ErrorKind::Internal);
    }

    #[test]
    fn what_the_driver_reports_has_its_kind_and_retry_class() {
        for (error, kind, retry) in [
            (sqlx::Error::PoolTimedOut, ErrorKind::Timeout, Retry::Later),
            (sqlx::Error::PoolClosed, ErrorKind::Unavailable, Retry::Never),
            (sqlx::Error::WorkerCrashed, ErrorKind::Unavailable, Retry::Unknown),
            (sqlx::Error::Io(std::io::Error::other("canary")), ErrorKind::Unavailable, Retry::Later),
            (sqlx::Error::Configuration("canary".into()), ErrorKind::Invalid, Retry::Never),
            (sqlx::Error::ColumnNotFound("hlc".into()), ErrorKind::Schema, Retry::Never),
            (sqlx::Error::RowNotFound, ErrorKind::NotFound, Retry::Never),
            (sqlx::Error::InvalidSavePointStatement, ErrorKind::Internal, Retry::Never),
        ] {
            let error = classify(error);
            assert_eq!((error.kind(), error.retry()), (kind, retry));
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_commit_whose_answer_was_lost_is_unknown() {
        let lost = classify_commit(sqlx::Error::Io(std::io::Error::other("gone")));
        assert_eq!(lost.retry(), Retry::Unknown);
        assert_eq!(classify_commit(sqlx::Error::WorkerCrashed).retry(), Retry::Unknown);
        assert_eq!(classify_commit(sqlx::Error::PoolTimedOut).retry(), Retry::Later);
    }
}
