//! One table from the server's and the driver's errors to ours.
//!
//! Texts of the server are kept short on purpose: DETAIL and the messages about values carry data.

use std::io;

use pillarbox_core::{Error, ErrorKind, Retry, redact};
use sqlx::postgres::PgDatabaseError;

/// What was under way. It decides what a lost connection means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Inside the application's own transaction: a refused value is the application's value, and a lost
    /// connection takes everything with it.
    Application,
    /// Nothing was sent yet, or it was sent inside a transaction that dies with the connection, or it only
    /// read: nothing happened.
    Before,
    /// A statement that commits by itself, or a COMMIT: the answer is lost, not the effect.
    Committing,
}

/// SQLSTATE by prefix, the first match wins.
const STATES: &[(&str, ErrorKind)] = &[
    ("08", ErrorKind::Unavailable),
    ("0A", ErrorKind::Unsupported),
    ("22", ErrorKind::Invalid),
    ("23", ErrorKind::Invalid),
    ("25006", ErrorKind::ReadOnly),
    ("25P03", ErrorKind::Unavailable),
    ("26", ErrorKind::Unsupported),
    ("28", ErrorKind::Denied),
    ("3D", ErrorKind::NotFound),
    ("3F", ErrorKind::Schema),
    ("40", ErrorKind::Contention),
    ("42501", ErrorKind::Denied),
    ("42703", ErrorKind::Schema),
    ("42704", ErrorKind::Schema),
    ("42804", ErrorKind::Schema),
    ("42883", ErrorKind::Schema),
    ("42P01", ErrorKind::Schema),
    // A statement of that name exists already: two clients of a transaction pooler share a session.
    ("42P05", ErrorKind::Unsupported),
    // No unique index for ON CONFLICT.
    ("42P10", ErrorKind::Schema),
    ("53100", ErrorKind::ReadOnly),
    ("53", ErrorKind::Unavailable),
    ("54", ErrorKind::TooLarge),
    ("55P03", ErrorKind::Contention),
    ("57014", ErrorKind::Timeout),
    ("57", ErrorKind::Unavailable),
    ("58", ErrorKind::Unavailable),
    ("XX001", ErrorKind::Corrupt),
    ("XX002", ErrorKind::Corrupt),
];

/// What a standby answers to a read of an unlogged table: "not supported" by its state, which is true until
/// it is promoted. Only the function of the server that said it tells this apart, in every language and
/// version from 14 to 18.
const UNLOGGED_ON_A_STANDBY: (&str, &str) = ("0A000", "get_relation_info");

fn kind_of(state: &str, routine: Option<&str>) -> ErrorKind {
    if routine.is_some_and(|routine| (state, routine) == UNLOGGED_ON_A_STANDBY) {
        return ErrorKind::ReadOnly;
    }
    STATES.iter().find(|(prefix, _)| state.starts_with(prefix)).map_or(ErrorKind::Internal, |(_, kind)| *kind)
}

/// Classifies what sqlx said.
pub(crate) fn classify(error: sqlx::Error, phase: Phase) -> Error {
    explain(&error, phase)
}

/// The same where the error belongs to someone else.
pub(crate) fn explain(error: &sqlx::Error, phase: Phase) -> Error {
    match error {
        sqlx::Error::Database(error) => {
            let routine = error.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::routine);
            of_server(&error.code().unwrap_or_default(), routine, error.message(), phase)
        }
        sqlx::Error::Io(error) => lost(error, phase),
        sqlx::Error::PoolTimedOut => Error::new(
            ErrorKind::Timeout,
            "no database connection became free in time: all of them are in use, or the server cannot be reached",
        )
        .with_code("pool_timed_out"),
        sqlx::Error::PoolClosed => {
            Error::new(ErrorKind::Unavailable, "the connection pool is closed").with_retry(Retry::Never)
        }
        sqlx::Error::Tls(error) => Error::new(
            ErrorKind::Denied,
            format!("TLS to the database failed: {}", redact(&error.to_string())),
        ),
        sqlx::Error::Configuration(error) => Error::invalid(format!(
            "the database URL or its settings are wrong: {}",
            redact(&error.to_string())
        )),
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => {
            Error::invalid("a value cannot be sent to the database")
        }
        sqlx::Error::Decode(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::RowNotFound => {
            Error::new(ErrorKind::Corrupt, "the answer of the database cannot be read")
        }
        sqlx::Error::Protocol(text) => {
            let error = Error::new(
                ErrorKind::Unavailable,
                format!("the database broke the protocol, so the connection is closed: {}", redact(text)),
            );
            if phase == Phase::Committing { error.with_retry(Retry::Unknown) } else { error }
        }
        other => Error::new(ErrorKind::Internal, redact(&other.to_string())),
    }
}

/// Classifies what the server said: an SQLSTATE, the function of the server that said it, and a text.
pub(crate) fn of_server(state: &str, routine: Option<&str>, message: &str, phase: Phase) -> Error {
    let kind = match kind_of(state, routine) {
        // The values of our own calls are our own: the caller did nothing wrong.
        ErrorKind::Invalid if phase != Phase::Application => ErrorKind::Internal,
        kind => kind,
    };
    let message = match state {
        "26000" | "42P05" => {
            "prepared statements do not work on this connection. Behind a transaction pooler such as \
             PgBouncer, set the mode to pooled"
                .into()
        }
        "57014" => "the call took longer than the statement timeout".into(),
        "55P03" => "another transaction held a lock for longer than the lock timeout".into(),
        "25006" | "0A000" if kind == ErrorKind::ReadOnly => {
            "this server accepts no writes: it is a standby or read-only. Work continues when it is \
             promoted, or when the URL reaches the primary"
                .into()
        }
        // The message quotes the value.
        _ if state.starts_with("22") => "the database rejected a value".into(),
        _ => redact(message),
    };
    let result = Error::new(kind, message);
    // 08007 and 40003: the server itself does not know whether the transaction was committed. The others of
    // class 08 are what a pooler says when it lost the server: it does not know either.
    let unknown =
        matches!(state, "08007" | "40003") || (phase == Phase::Committing && state.starts_with("08"));
    let result = if unknown { result.with_retry(Retry::Unknown) } else { result };
    if state.is_empty() { result } else { result.with_code(state) }
}

/// Classifies a lost connection.
pub(crate) fn lost(error: &io::Error, phase: Phase) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::TimedOut => ErrorKind::Timeout,
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    };
    let result = Error::new(kind, format!("no connection to the database: {error}"));
    if phase == Phase::Committing { result.with_retry(Retry::Unknown) } else { result }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::fmt;

    use sqlx::error::DatabaseError;

    use super::*;

    #[derive(Debug)]
    struct Server(&'static str, &'static str);

    impl fmt::Display for Server {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.1)
        }
    }

    impl std::error::Error for Server {}

    impl DatabaseError for Server {
        fn message(&self) -> &str {
            self.1
        }
        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }
        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }
        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }
        fn into_error(self: Box<Self>) -> sqlx::error::BoxDynError {
            self
        }
        fn kind(&self) -> sqlx::error::ErrorKind {
            sqlx::error::ErrorKind::Other
        }
    }

    fn check(state: &'static str, kind: ErrorKind, retry: Retry) {
        let error = classify(sqlx::Error::Database(Box::new(Server(state, "said"))), Phase::Application);
        assert_eq!((error.kind(), error.retry(), error.code()), (kind, retry, Some(state)), "{state}");
    }

    #[test]
    fn every_state_has_its_kind() {
        for (state, kind, retry) in [
            ("40001", ErrorKind::Contention, Retry::Later),
            ("40P01", ErrorKind::Contention, Retry::Later),
            ("55P03", ErrorKind::Contention, Retry::Later),
            ("40003", ErrorKind::Contention, Retry::Unknown),
            ("57P01", ErrorKind::Unavailable, Retry::Later),
            ("57P02", ErrorKind::Unavailable, Retry::Later),
            ("57P03", ErrorKind::Unavailable, Retry::Later),
            ("57014", ErrorKind::Timeout, Retry::Later),
            ("08006", ErrorKind::Unavailable, Retry::Later),
            ("08P01", ErrorKind::Unavailable, Retry::Later),
            ("08007", ErrorKind::Unavailable, Retry::Unknown),
            ("25006", ErrorKind::ReadOnly, Retry::Later),
            ("25P03", ErrorKind::Unavailable, Retry::Later),
            ("25P02", ErrorKind::Internal, Retry::Never),
            ("53100", ErrorKind::ReadOnly, Retry::Later),
            ("53200", ErrorKind::Unavailable, Retry::Later),
            ("53300", ErrorKind::Unavailable, Retry::Later),
            ("54000", ErrorKind::TooLarge, Retry::Never),
            ("58030", ErrorKind::Unavailable, Retry::Later),
            ("28P01", ErrorKind::Denied, Retry::Never),
            ("28000", ErrorKind::Denied, Retry::Never),
            ("42501", ErrorKind::Denied, Retry::Never),
            ("42P01", ErrorKind::Schema, Retry::Never),
            ("42703", ErrorKind::Schema, Retry::Never),
            ("42704", ErrorKind::Schema, Retry::Never),
            ("42804", ErrorKind::Schema, Retry::Never),
            ("42883", ErrorKind::Schema, Retry::Never),
            ("42P10", ErrorKind::Schema, Retry::Never),
            ("3F000", ErrorKind::Schema, Retry::Never),
            ("3D000", ErrorKind::NotFound, Retry::Never),
            ("26000", ErrorKind::Unsupported, Retry::Never),
            ("42P05", ErrorKind::Unsupported, Retry::Never),
            ("0A000", ErrorKind::Unsupported, Retry::Never),
            ("22P02", ErrorKind::Invalid, Retry::Never),
            ("23505", ErrorKind::Invalid, Retry::Never),
            ("23514", ErrorKind::Invalid, Retry::Never),
            ("XX001", ErrorKind::Corrupt, Retry::Never),
            ("XX002", ErrorKind::Corrupt, Retry::Never),
            ("42601", ErrorKind::Internal, Retry::Never),
        ] {
            check(state, kind, retry);
        }
    }

    #[test]
    fn every_row_of_the_table_is_the_first_match_of_its_own_prefix() {
        for (prefix, kind) in STATES {
            assert_eq!(kind_of(prefix, None), *kind, "{prefix} is hidden by an earlier row");
        }
    }

    #[test]
    fn an_unlogged_table_on_a_standby_is_read_only_and_nothing_else_of_its_class_is() {
        assert_eq!(kind_of("0A000", Some("get_relation_info")), ErrorKind::ReadOnly);
        for (state, routine) in [("0A000", Some("RevalidateCachedQuery")), ("0A000", None)] {
            assert_eq!(kind_of(state, routine), ErrorKind::Unsupported, "{routine:?}");
        }
    }

    #[test]
    fn a_lost_answer_to_a_commit_is_unknown() {
        let reset = || sqlx::Error::Io(io::ErrorKind::ConnectionReset.into());
        assert_eq!(classify(reset(), Phase::Committing).retry(), Retry::Unknown);
        assert_eq!(classify(reset(), Phase::Before).retry(), Retry::Later);
        assert_eq!(classify(reset(), Phase::Before).kind(), ErrorKind::Unavailable);
        let pooler = sqlx::Error::Database(Box::new(Server("08P01", "server conn crashed?")));
        assert_eq!(classify(pooler, Phase::Committing).retry(), Retry::Unknown);
        let ended = sqlx::Error::Database(Box::new(Server("57P01", "terminating connection")));
        assert_eq!(classify(ended, Phase::Committing).retry(), Retry::Later);
        let late = classify(sqlx::Error::Io(io::ErrorKind::TimedOut.into()), Phase::Before);
        assert_eq!((late.kind(), late.retry()), (ErrorKind::Timeout, Retry::Later));
        let torn = classify(sqlx::Error::Protocol("unexpected".into()), Phase::Committing);
        assert_eq!((torn.kind(), torn.retry()), (ErrorKind::Unavailable, Retry::Unknown));
    }

    #[test]
    fn the_drivers_own_errors_have_their_kind() {
        for (error, kind, retry) in [
            (sqlx::Error::PoolTimedOut, ErrorKind::Timeout, Retry::Later),
            (sqlx::Error::PoolClosed, ErrorKind::Unavailable, Retry::Never),
            (sqlx::Error::Tls("unknown issuer".into()), ErrorKind::Denied, Retry::Never),
            (sqlx::Error::Configuration("no".into()), ErrorKind::Invalid, Retry::Never),
            (sqlx::Error::Encode("no".into()), ErrorKind::Invalid, Retry::Never),
            (sqlx::Error::Decode("no".into()), ErrorKind::Corrupt, Retry::Never),
            (sqlx::Error::RowNotFound, ErrorKind::Corrupt, Retry::Never),
            (sqlx::Error::BeginFailed, ErrorKind::Internal, Retry::Never),
        ] {
            let classified = classify(error, Phase::Before);
            assert_eq!((classified.kind(), classified.retry()), (kind, retry), "{classified}");
        }
    }

    #[test]
    fn a_refused_value_is_only_the_applications_fault_in_its_own_transaction() {
        for state in ["22P02", "23514"] {
            let refused = || sqlx::Error::Database(Box::new(Server(state, "refused")));
            assert_eq!(classify(refused(), Phase::Application).kind(), ErrorKind::Invalid);
            assert_eq!(classify(refused(), Phase::Committing).kind(), ErrorKind::Internal);
        }
    }

    #[test]
    fn a_message_about_a_value_does_not_carry_it() {
        let error = classify(
            sqlx::Error::Database(Box::new(Server(
                "22P02",
                "invalid input syntax for type uuid: \"canary\"",
            ))),
            Phase::Before,
        );
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}
