//! One table from the codes of the server's errors, and from the driver's errors, to ours.
//!
//! The texts are our own: those of the server quote values.

use mongodb::bson::Document;
use mongodb::error::{
    Error as Driver, ErrorKind as Kind, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT,
    WriteFailure,
};
use pillarbox_core::{Error, ErrorKind, Retry, redact};

/// What was under way. It decides what a lost connection means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Inside the application's own transaction: a refused value is the application's value.
    Application,
    /// Nothing was sent yet, or it was sent inside a transaction that dies with the session, or it only read, or it may
    /// be sent again.
    Before,
    /// A commit: the answer is lost, not the effect.
    Committing,
}

/// A duplicate of a unique key.
pub(crate) const DUPLICATE: i32 = 11000;
/// A transaction that is not there, as after the server has ended it.
pub(crate) const NO_TRANSACTION: i32 = 251;
/// A collection that is there already.
pub(crate) const EXISTS: i32 = 48;

/// Codes of the server, what they mean here, and the text for people.
const CODES: &[(i32, ErrorKind, &str)] = &[
    (6, ErrorKind::Unavailable, GONE),
    (7, ErrorKind::Unavailable, GONE),
    (
        13,
        ErrorKind::Denied,
        "the user lacks a privilege on the database; the guide lists those that are needed",
    ),
    (18, ErrorKind::Denied, "the database refuses the user or the password, or authSource is wrong"),
    (20, ErrorKind::Unsupported, "the server is not a member of a replica set, so it has no transactions"),
    (24, ErrorKind::Contention, "another operation held a lock for too long; try again"),
    (26, ErrorKind::Schema, SCHEMA),
    (27, ErrorKind::Schema, SCHEMA),
    (46, ErrorKind::Contention, "another operation held a lock for too long; try again"),
    (50, ErrorKind::Timeout, "the call took longer than the statement timeout"),
    (59, ErrorKind::Unsupported, "the server does not know a command; Pillarbox needs MongoDB 7.0 or later"),
    (64, ErrorKind::Timeout, "the write was not confirmed by a majority of the nodes in time"),
    (73, ErrorKind::Invalid, "the database or a collection has a name that MongoDB does not allow"),
    (79, ErrorKind::Unsupported, "the server does not know the write concern"),
    (85, ErrorKind::Schema, "an index of the same name has other options"),
    (86, ErrorKind::Schema, "an index of the same name has other keys"),
    (89, ErrorKind::Unavailable, GONE),
    (91, ErrorKind::Unavailable, "the database is shutting down"),
    (100, ErrorKind::Unavailable, "the replica set has too few nodes for a write that a majority confirms"),
    (112, ErrorKind::Contention, CONFLICT),
    (117, ErrorKind::Contention, "another operation on the collection is under way; try again"),
    (121, ErrorKind::Invalid, "the validator of the collection rejects the document"),
    (133, ErrorKind::Unavailable, "the replica set has no primary now"),
    (134, ErrorKind::Unavailable, "the server has not caught up yet"),
    (189, ErrorKind::Unavailable, STEPPED_DOWN),
    (211, ErrorKind::Unavailable, "the server has not caught up yet"),
    (225, ErrorKind::Contention, ENDED),
    (239, ErrorKind::Contention, "the transaction took so long that its view of the data is gone; try again"),
    (
        246,
        ErrorKind::Contention,
        "the view of the data that the transaction needs is not there yet; try again",
    ),
    (251, ErrorKind::Contention, ENDED),
    (257, ErrorKind::TooLarge, "the transaction is larger than MongoDB allows; stage fewer events in one"),
    (261, ErrorKind::Unavailable, "the server has too many sessions"),
    (262, ErrorKind::Timeout, "the call took longer than the statement timeout"),
    (263, ErrorKind::Schema, SCHEMA),
    (290, ErrorKind::Aborted, "the transaction took longer than transactionLifetimeLimitSeconds"),
    (8000, ErrorKind::Denied, "the database refuses the user or the password"),
    (10107, ErrorKind::Unavailable, STEPPED_DOWN),
    (10334, ErrorKind::TooLarge, "a document is larger than the 16 MB that MongoDB allows"),
    (11000, ErrorKind::Invalid, "there is a document with this key already"),
    (11600, ErrorKind::Unavailable, "the database is shutting down"),
    (11601, ErrorKind::Timeout, "the operation was interrupted"),
    (11602, ErrorKind::Unavailable, STEPPED_DOWN),
    (13435, ErrorKind::Unavailable, STEPPED_DOWN),
    (13436, ErrorKind::Unavailable, STEPPED_DOWN),
    (14031, ErrorKind::ReadOnly, "the disk of the database is full"),
    (17280, ErrorKind::TooLarge, "a key of an index is larger than MongoDB allows"),
];

const SCHEMA: &str =
    "the Pillarbox collections are missing or not as expected; `pillarbox migrate` creates or repairs them";
const GONE: &str = "the connection to the database broke";
const CONFLICT: &str = "another transaction wrote the same document, so this one was rolled back; run it again from its beginning";
const STEPPED_DOWN: &str =
    "the node is not the primary of its replica set now; work goes on when there is one";
const ENDED: &str = "the server had ended the transaction; run it again from its beginning";

/// The code of a server's error.
pub(crate) fn code(error: &Driver) -> Option<i32> {
    match &*error.kind {
        Kind::Command(error) => Some(error.code),
        Kind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        Kind::Write(WriteFailure::WriteConcernError(error)) => Some(error.code),
        _ => None,
    }
}

/// Classifies what the driver said.
pub(crate) fn classify(error: &Driver, phase: Phase) -> Error {
    let unknown = phase == Phase::Committing && error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT);
    let classified = match code(error) {
        Some(code) => of_server(code, phase),
        None => of_driver(error, phase),
    };
    if unknown {
        return classified.with_retry(Retry::Unknown);
    }
    // A network error inside a transaction, and not in its commit: nothing has happened.
    let is_transient = error.contains_label(TRANSIENT_TRANSACTION_ERROR);
    if is_transient && classified.retry() == Retry::Unknown {
        classified.with_retry(Retry::Later)
    } else {
        classified
    }
}

fn of_driver(error: &Driver, phase: Phase) -> Error {
    let text = || redact(&error.to_string());
    let lost = |text: String| {
        let error = Error::new(ErrorKind::Unavailable, text);
        if phase == Phase::Committing { error.with_retry(Retry::Unknown) } else { error }
    };
    match &*error.kind {
        Kind::Io(io) if io.kind() == std::io::ErrorKind::TimedOut => {
            let error = Error::new(ErrorKind::Timeout, "the database did not answer in time");
            if phase == Phase::Committing { error.with_retry(Retry::Unknown) } else { error }
        }
        Kind::Io(io) => lost(format!("no connection to the database: {}", redact(&io.to_string()))),
        Kind::ConnectionPoolCleared { .. } => lost(GONE.to_owned()),
        Kind::ServerSelection { message, .. } => {
            let text = format!("no primary of the replica set can be reached: {}", redact(message));
            Error::new(ErrorKind::Unavailable, text)
        }
        Kind::DnsResolve { .. } => Error::new(ErrorKind::Unavailable, text()),
        Kind::Authentication { .. } => Error::new(
            ErrorKind::Denied,
            "the database refuses the user or the password, or authSource is wrong",
        ),
        Kind::InvalidTlsConfig { .. } => {
            Error::new(ErrorKind::Denied, format!("TLS to the database failed: {}", text()))
        }
        Kind::InvalidArgument { .. } => {
            Error::new(ErrorKind::Invalid, format!("the database URL or its settings are wrong: {}", text()))
        }
        Kind::BsonSerialization(_) => Error::invalid("a value cannot be sent to the database"),
        Kind::BsonDeserialization(_) | Kind::InvalidResponse { .. } => {
            Error::new(ErrorKind::Corrupt, "the answer of the database cannot be read")
        }
        Kind::Transaction { message, .. } => Error::new(
            ErrorKind::Aborted,
            format!("the transaction had ended before, or was never begun: {}", redact(message)),
        ),
        Kind::IncompatibleServer { message, .. } => Error::new(ErrorKind::Unsupported, redact(message)),
        Kind::SessionsNotSupported => Error::new(ErrorKind::Unsupported, "the server has no sessions"),
        Kind::Shutdown => Error::new(ErrorKind::Unavailable, "the store is closed").with_retry(Retry::Never),
        _ => Error::new(ErrorKind::Internal, text()),
    }
}

fn of_server(code: i32, phase: Phase) -> Error {
    let row = CODES.iter().find(|row| row.0 == code);
    let (kind, text) = row.map_or((ErrorKind::Internal, "the database failed"), |row| (row.1, row.2));
    let kind = match kind {
        // The values of our own calls are our own: the caller did nothing wrong.
        ErrorKind::Invalid if phase != Phase::Application && code != 73 => ErrorKind::Internal,
        kind => kind,
    };
    Error::new(kind, text).with_code(code.to_string())
}

/// What the answer to a write says besides that the command ran: errors of single documents, or of the write concern.
pub(crate) fn refused(answer: &Document, phase: Phase) -> Option<Error> {
    let code = |error: &Document| error.get_i32("code").unwrap_or(-1);
    if let Ok(errors) = answer.get_array("writeErrors")
        && let Some(error) = errors.first().and_then(|error| error.as_document())
    {
        return Some(of_server(code(error), phase));
    }
    let concern = answer.get_document("writeConcernError").ok()?;
    Some(of_server(code(concern), phase))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn every_code_has_its_kind_and_retry_class() {
        for (code, kind, retry) in [
            (13, ErrorKind::Denied, Retry::Never),
            (18, ErrorKind::Denied, Retry::Never),
            (20, ErrorKind::Unsupported, Retry::Never),
            (26, ErrorKind::Schema, Retry::Never),
            (50, ErrorKind::Timeout, Retry::Later),
            (91, ErrorKind::Unavailable, Retry::Later),
            (112, ErrorKind::Contention, Retry::Later),
            (121, ErrorKind::Invalid, Retry::Never),
            (189, ErrorKind::Unavailable, Retry::Later),
            (251, ErrorKind::Contention, Retry::Later),
            (10107, ErrorKind::Unavailable, Retry::Later),
            (10334, ErrorKind::TooLarge, Retry::Never),
            (11000, ErrorKind::Invalid, Retry::Never),
            (99999, ErrorKind::Internal, Retry::Never),
        ] {
            let error = of_server(code, Phase::Application);
            assert_eq!((error.kind(), error.retry()), (kind, retry), "{code}");
            assert_eq!(error.code(), Some(code.to_string().as_str()));
        }
    }

    #[test]
    fn a_code_stands_in_the_table_once_and_in_order() {
        assert!(CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn a_refused_value_is_only_the_applications_fault_in_its_own_transaction() {
        assert_eq!(of_server(121, Phase::Application).kind(), ErrorKind::Invalid);
        assert_eq!(of_server(121, Phase::Before).kind(), ErrorKind::Internal);
    }

    #[test]
    fn an_answer_that_refuses_a_document_is_an_error() {
        let answer = doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 121 }] };
        assert_eq!(refused(&answer, Phase::Application).map(|error| error.kind()), Some(ErrorKind::Invalid));
        let answer = doc! { "ok": 1, "n": 1, "writeConcernError": { "code": 64 } };
        assert_eq!(refused(&answer, Phase::Before).map(|error| error.kind()), Some(ErrorKind::Timeout));
        assert!(refused(&doc! { "ok": 1, "n": 1 }, Phase::Before).is_none());
    }
}
