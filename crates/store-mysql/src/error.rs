//! One table from the numbers of the servers' errors, and from the driver's errors, to ours.
//!
//! The texts are our own: those of the servers quote values.

use std::io;

use pillarbox_core::{Error, ErrorKind, Retry, redact};
use sqlx::mysql::MySqlDatabaseError;

/// What was under way. It decides what a lost connection means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Inside the application's own transaction: a refused value is the application's value.
    Application,
    /// Nothing was sent yet, or it was sent inside a transaction that dies with the connection, or it only read.
    Before,
    /// A statement that commits by itself, or a COMMIT: the answer is lost, not the effect.
    Committing,
}

/// Numbers that both servers have, what they mean here, and the text for people.
const NUMBERS: &[(u16, ErrorKind, &str)] = &[
    (1021, ErrorKind::ReadOnly, "the disk of the database is full"),
    (1037, ErrorKind::Unavailable, "the database is out of memory"),
    (1038, ErrorKind::Unavailable, "the database is out of memory for sorting; raise sort_buffer_size"),
    (1040, ErrorKind::Unavailable, "the database has too many connections; raise max_connections"),
    (1041, ErrorKind::Unavailable, "the database is out of memory"),
    (1044, ErrorKind::Denied, "the user may not use this database"),
    (1045, ErrorKind::Denied, "the database refuses the user or the password"),
    (1046, ErrorKind::Invalid, "the URL names no database; write mysql://user@host/database"),
    (1047, ErrorKind::Unavailable, "this node is not part of a working cluster"),
    (1048, ErrorKind::Invalid, "a column that needs a value has none"),
    (1049, ErrorKind::NotFound, "there is no such database on this server"),
    (1053, ErrorKind::Unavailable, "the database is shutting down"),
    (1054, ErrorKind::Schema, SCHEMA),
    (1062, ErrorKind::Invalid, "there is a row with this key already"),
    (1072, ErrorKind::Schema, SCHEMA),
    (1091, ErrorKind::Schema, SCHEMA),
    (1105, ErrorKind::Internal, "the database failed for an unknown reason"),
    (1114, ErrorKind::ReadOnly, "a table or the disk of the database is full"),
    (1129, ErrorKind::Unavailable, "the database has blocked this host; run FLUSH HOSTS there"),
    (1130, ErrorKind::Denied, "the database accepts no connections from this host"),
    (1142, ErrorKind::Denied, "the user lacks a privilege on a table"),
    (1143, ErrorKind::Denied, "the user lacks a privilege on a column"),
    (1146, ErrorKind::Schema, SCHEMA),
    (1152, ErrorKind::Unavailable, "the database has closed the connection"),
    (1153, ErrorKind::TooLarge, TOO_LARGE),
    (1176, ErrorKind::Schema, "an index of Pillarbox is missing; `pillarbox migrate` creates it"),
    (1180, ErrorKind::Contention, "the database could not commit; nothing was written"),
    (1184, ErrorKind::Unavailable, "the database has closed the connection"),
    (1203, ErrorKind::Unavailable, "the user has too many connections; raise max_user_connections"),
    (1205, ErrorKind::Contention, "another transaction held a lock for longer than the lock timeout"),
    (1206, ErrorKind::Contention, "the database has no room for more locks; raise innodb_buffer_pool_size"),
    (
        1213,
        ErrorKind::Contention,
        "another transaction was in the way, so this one was rolled back; try again",
    ),
    (1226, ErrorKind::Unavailable, "the user has used up a limit of the database"),
    (1227, ErrorKind::Denied, "the user lacks a privilege on the server"),
    (1264, ErrorKind::Invalid, "a number is out of range for its column"),
    (1265, ErrorKind::Invalid, "a value does not fit its column"),
    (1290, ErrorKind::ReadOnly, READ_ONLY),
    (1292, ErrorKind::Invalid, "a value has the wrong form for its column"),
    (1298, ErrorKind::Internal, "the database does not know the time zone"),
    (1305, ErrorKind::Schema, SCHEMA),
    (1317, ErrorKind::Timeout, "the statement was interrupted"),
    (1364, ErrorKind::Invalid, "a column that needs a value has none"),
    (1366, ErrorKind::Invalid, "a value has the wrong form for its column"),
    (1370, ErrorKind::Denied, "the user may not run a routine"),
    (1406, ErrorKind::Invalid, "a value is too long for its column"),
    (1419, ErrorKind::Denied, TRIGGERS),
    (1436, ErrorKind::Unavailable, "the database is out of stack; raise thread_stack"),
    (1449, ErrorKind::Denied, "the user who made a trigger is not there any more"),
    (1451, ErrorKind::Invalid, "a row of another table depends on this one"),
    (1452, ErrorKind::Invalid, "a row that this one depends on is missing"),
    // What the triggers of the audit trail say, and what those of the application may say.
    (1644, ErrorKind::Internal, "a trigger of the database rejects the row"),
    (1665, ErrorKind::Unsupported, BINLOG),
    (1792, ErrorKind::ReadOnly, READ_ONLY),
    (1836, ErrorKind::ReadOnly, READ_ONLY),
    (1969, ErrorKind::Timeout, "the call took longer than the statement timeout"),
    (3024, ErrorKind::Timeout, "the call took longer than the statement timeout"),
    (3100, ErrorKind::Contention, "the database could not commit; nothing was written"),
    (
        3101,
        ErrorKind::Contention,
        "another transaction was in the way, so this one was rolled back; try again",
    ),
    (3572, ErrorKind::Contention, "another transaction has locked a row"),
    (3819, ErrorKind::Invalid, "a constraint of the table rejects the row"),
    (4025, ErrorKind::Invalid, "a constraint of the table rejects the row"),
    (4031, ErrorKind::Unavailable, "the database has closed an idle connection"),
];

const SCHEMA: &str =
    "the Pillarbox tables are missing or not as expected; `pillarbox migrate` creates or repairs them";
const READ_ONLY: &str = "this server accepts no writes: it is a replica, or read_only is set. Work continues when it \
    accepts them, or when the URL reaches the primary";
const TOO_LARGE: &str = "a statement is larger than max_allowed_packet; raise that setting of the database";
pub(crate) const TRIGGERS: &str = "the user may not create triggers while the binary log is on. Set \
    log_bin_trust_function_creators = 1 on the server, or let an administrator run the output of `pillarbox migrate \
    --plan`";
pub(crate) const BINLOG: &str = "binlog_format is STATEMENT, which cannot record transactions in READ COMMITTED. Set it \
    to ROW or MIXED on the server";

/// A savepoint that is not there, as after the end of its transaction.
pub(crate) const NO_SAVEPOINT: u16 = 1305;

/// The number of a server's error.
pub(crate) fn number(error: &sqlx::Error) -> Option<u16> {
    error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

/// Classifies what the driver said.
pub(crate) fn classify(error: sqlx::Error, phase: Phase) -> Error {
    explain(&error, phase)
}

/// The same where the error belongs to someone else.
pub(crate) fn explain(error: &sqlx::Error, phase: Phase) -> Error {
    if let Some(number) = number(error) {
        return of_server(number, phase);
    }
    let unknown =
        |error: Error| if phase == Phase::Committing { error.with_retry(Retry::Unknown) } else { error };
    let result = match error {
        sqlx::Error::Io(error) => return unknown(lost(error)),
        sqlx::Error::Protocol(text) => {
            let text = format!("the connection to the database broke: {}", redact(text));
            return unknown(Error::new(ErrorKind::Unavailable, text));
        }
        sqlx::Error::PoolTimedOut => {
            let text = "no database connection became free in time: all of them are in use, or the server cannot be reached";
            return Error::new(ErrorKind::Timeout, text).with_code("pool_timed_out");
        }
        sqlx::Error::PoolClosed => {
            return Error::new(ErrorKind::Unavailable, "the pool is closed").with_retry(Retry::Never);
        }
        sqlx::Error::Tls(error) => {
            (ErrorKind::Denied, format!("TLS to the database failed: {}", redact(&error.to_string())))
        }
        sqlx::Error::Configuration(error) => {
            let text = redact(&error.to_string());
            (ErrorKind::Invalid, format!("the database URL or its settings are wrong: {text}"))
        }
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => {
            (ErrorKind::Invalid, "a value cannot be sent to the database".to_owned())
        }
        sqlx::Error::ColumnNotFound(_) | sqlx::Error::ColumnIndexOutOfBounds { .. } => {
            (ErrorKind::Schema, SCHEMA.to_owned())
        }
        sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::RowNotFound => {
            (ErrorKind::Corrupt, "the answer of the database cannot be read".to_owned())
        }
        // The driver looks at the connection after BEGIN.
        sqlx::Error::BeginFailed => (ErrorKind::Aborted, "the transaction did not begin".to_owned()),
        other => (ErrorKind::Internal, redact(&other.to_string())),
    };
    Error::new(result.0, result.1)
}

pub(crate) fn of_server(number: u16, phase: Phase) -> Error {
    let row = NUMBERS.iter().find(|row| row.0 == number);
    let (kind, text) = row.map_or((ErrorKind::Internal, "the database failed"), |row| (row.1, row.2));
    let kind = match kind {
        // The values of our own calls are our own: the caller did nothing wrong.
        ErrorKind::Invalid if phase != Phase::Application && number != 1046 => ErrorKind::Internal,
        kind => kind,
    };
    Error::new(kind, text).with_code(number.to_string())
}

pub(crate) fn lost(error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::TimedOut => ErrorKind::Timeout,
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("no connection to the database: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_kind_and_retry_class() {
        for (number, kind, retry) in [
            (1021, ErrorKind::ReadOnly, Retry::Later),
            (1040, ErrorKind::Unavailable, Retry::Later),
            (1044, ErrorKind::Denied, Retry::Never),
            (1045, ErrorKind::Denied, Retry::Never),
            (1046, ErrorKind::Invalid, Retry::Never),
            (1047, ErrorKind::Unavailable, Retry::Later),
            (1049, ErrorKind::NotFound, Retry::Never),
            (1053, ErrorKind::Unavailable, Retry::Later),
            (1054, ErrorKind::Schema, Retry::Never),
            (1062, ErrorKind::Invalid, Retry::Never),
            (1142, ErrorKind::Denied, Retry::Never),
            (1146, ErrorKind::Schema, Retry::Never),
            (1153, ErrorKind::TooLarge, Retry::Never),
            (1176, ErrorKind::Schema, Retry::Never),
            (1205, ErrorKind::Contention, Retry::Later),
            (1213, ErrorKind::Contention, Retry::Later),
            (1290, ErrorKind::ReadOnly, Retry::Later),
            (1317, ErrorKind::Timeout, Retry::Later),
            (1406, ErrorKind::Invalid, Retry::Never),
            (1419, ErrorKind::Denied, Retry::Never),
            (1644, ErrorKind::Internal, Retry::Never),
            (1665, ErrorKind::Unsupported, Retry::Never),
            (1792, ErrorKind::ReadOnly, Retry::Later),
            (1836, ErrorKind::ReadOnly, Retry::Later),
            (1969, ErrorKind::Timeout, Retry::Later),
            (3024, ErrorKind::Timeout, Retry::Later),
            (3572, ErrorKind::Contention, Retry::Later),
            (3819, ErrorKind::Invalid, Retry::Never),
            (4025, ErrorKind::Invalid, Retry::Never),
            (4031, ErrorKind::Unavailable, Retry::Later),
            (9999, ErrorKind::Internal, Retry::Never),
        ] {
            let error = of_server(number, Phase::Application);
            assert_eq!((error.kind(), error.retry()), (kind, retry), "{number}");
            assert_eq!(error.code(), Some(number.to_string().as_str()));
        }
    }

    #[test]
    fn a_number_stands_in_the_table_once_and_in_order() {
        assert!(NUMBERS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn a_refused_value_is_only_the_applications_fault_in_its_own_transaction() {
        assert_eq!(of_server(4025, Phase::Application).kind(), ErrorKind::Invalid);
        assert_eq!(of_server(4025, Phase::Before).kind(), ErrorKind::Internal);
    }

    #[test]
    fn a_lost_answer_to_a_commit_is_unknown() {
        let gone = || sqlx::Error::Io(io::Error::other("gone"));
        assert_eq!(classify(gone(), Phase::Before).retry(), Retry::Later);
        assert_eq!(classify(gone(), Phase::Committing).retry(), Retry::Unknown);
        let broken = || sqlx::Error::Protocol("unexpected packet".into());
        assert_eq!(classify(broken(), Phase::Committing).retry(), Retry::Unknown);
        assert_eq!(classify(sqlx::Error::PoolTimedOut, Phase::Committing).retry(), Retry::Later);
    }

    #[test]
    fn what_the_driver_reports_has_its_kind() {
        for (error, kind) in [
            (sqlx::Error::PoolTimedOut, ErrorKind::Timeout),
            (sqlx::Error::PoolClosed, ErrorKind::Unavailable),
            (sqlx::Error::Tls("unknown issuer".into()), ErrorKind::Denied),
            (sqlx::Error::Configuration("no".into()), ErrorKind::Invalid),
            (sqlx::Error::Encode("no".into()), ErrorKind::Invalid),
            (sqlx::Error::ColumnNotFound("hlc".into()), ErrorKind::Schema),
            (sqlx::Error::RowNotFound, ErrorKind::Corrupt),
            (sqlx::Error::BeginFailed, ErrorKind::Aborted),
            (sqlx::Error::WorkerCrashed, ErrorKind::Internal),
        ] {
            assert_eq!(classify(error, Phase::Before).kind(), kind);
        }
    }
}
