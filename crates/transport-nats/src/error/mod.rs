//! The one table that says what an error of the server, the network or the client means for the work at hand.
//!
//! | what happened | for a publish | for a consumer |
//! |---|---|---|
//! | not reachable, handshake unanswered | down | unavailable |
//! | wrong user, password, token or credentials | down | denied |
//! | no right to publish to the subject | down | denied |
//! | no stream takes the subject, or JetStream is off | down | not found, or unavailable |
//! | another stream than `stream=` takes it, the stream is sealed | down | – |
//! | the stream or the subject is full (`discard: new`, `discard_new_per_subject`) | busy | – |
//! | no disk or memory left, no leader, too many requests | down | unavailable |
//! | larger than the server's `max_payload` or the stream's `max_msg_size` | rejected | – |
//! | not a subject after the template was filled | rejected | – |
//! | the same id is just being stored | later | – |
//! | an atomic batch is refused as a whole | none: its messages are sent again one by one | – |
//! | dropped as a repetition of the same event id | confirmed | – |
//! | no confirmation in time | unknown | – |
//! | connection lost after the message was written | unknown, or down if nobody answers any more | unavailable |
//! | connection lost before that | down | unavailable |
//!
//! A missing stream and missing rights are mistakes of the configuration, not of the message: calling them down opens
//! the route's circuit, and the entries wait, with the setting named, until an operator fixes it. Rejecting
//! them would bury every entry that is staged meanwhile. What is full is no fault of the message either. But
//! a URL may name several streams by its places, and one of them may be all that is full: hence busy and not
//! down, see [`Busy`](Outcome::Busy).

use std::error::Error as _;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{Error as Refusal, ErrorCode};
use async_nats::{ConnectError, ConnectErrorKind, client};
use pillarbox_core::{Error, ErrorKind, Outcome};

/// What the server said instead of a confirmation, or that it said nothing.
pub(crate) fn unconfirmed(error: &PublishError, subject: &str) -> Outcome {
    match error.kind() {
        PublishErrorKind::StreamNotFound => no_stream(subject),
        PublishErrorKind::MaxPayloadExceeded => too_large(&error.to_string()),
        PublishErrorKind::TimedOut => no_answer(),
        PublishErrorKind::BrokenPipe => lost(),
        _ => match error.source().and_then(|source| source.downcast_ref::<Refusal>()) {
            Some(refusal) => refused(refusal, subject),
            None => unreadable(),
        },
    }
}

/// What it means that an atomic batch, which is stored as a whole or not at all, was not confirmed.
pub(crate) enum Whole {
    /// Nothing of it is stored; what JetStream said, if it said something.
    NotStored(Option<ErrorCode>),
    /// It may be stored.
    Unknown(Outcome),
    /// It may be stored, and the connection is gone.
    Lost,
}

/// What the server said to the last message of an atomic batch, or that it said nothing.
pub(crate) fn whole(error: &PublishError) -> Whole {
    match error.kind() {
        PublishErrorKind::BrokenPipe => Whole::Lost,
        PublishErrorKind::StreamNotFound => Whole::NotStored(None),
        PublishErrorKind::TimedOut => Whole::Unknown(no_answer()),
        _ => match error.source().and_then(|source| source.downcast_ref::<Refusal>()) {
            Some(refusal) => Whole::NotStored(Some(refusal.error_code())),
            None => Whole::Unknown(unreadable()),
        },
    }
}

/// The server confirmed the last message of a batch, and not the batch.
pub(crate) fn not_whole() -> Outcome {
    Outcome::unknown("not_whole", "the server confirmed one message of a batch, and not the whole batch")
}

/// No confirmation came.
pub(crate) fn no_answer() -> Outcome {
    Outcome::unknown("no_answer", "no confirmation in time")
}

fn unreadable() -> Outcome {
    Outcome::unknown("unreadable", "the server's answer cannot be read as a confirmation")
}

/// What kept a message from being handed to the connection.
pub(crate) fn unsent(error: &PublishError) -> Outcome {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => too_large(&error.to_string()),
        PublishErrorKind::TimedOut => {
            Outcome::down("no_answer", "the connection to the server is stuck: it accepts no data")
        }
        _ => lost_before(),
    }
}

/// What kept a message for core NATS from being handed to the connection.
pub(crate) fn not_passed_on(error: &client::PublishError) -> Outcome {
    match error.kind() {
        client::PublishErrorKind::MaxPayloadExceeded => too_large(&error.to_string()),
        client::PublishErrorKind::InvalidSubject => Outcome::rejected("unroutable", error.to_string()),
        _ => lost_before(),
    }
}

/// What JetStream itself says.
fn refused(refusal: &Refusal, subject: &str) -> Outcome {
    let code = refusal.error_code();
    let name = format!("js_{}", code.0);
    let said = format!("JetStream says of subject {subject:?}: {refusal}");
    match code {
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
            too_large(&said)
        }
        ErrorCode::STREAM_NOT_MATCH => {
            Outcome::down("wrong_stream", format!("{said}; check stream= in the URL"))
        }
        ErrorCode::STREAM_SEALED => Outcome::down("sealed", said),
        ErrorCode::STREAM_STORE_FAILED if said.contains("per subject") => Outcome::busy("subject_full", said),
        ErrorCode::STREAM_STORE_FAILED => Outcome::busy(
            "stream_full",
            format!("{said}; the stream is at its limit and refuses new messages"),
        ),
        ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT => Outcome::failed("in_process", said),
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
            Outcome::down("not_enabled", said)
        }
        _ if refusal.code() >= 500 || refusal.code() == 429 => Outcome::down(name, said),
        _ => Outcome::failed(name, said),
    }
}

fn no_stream(subject: &str) -> Outcome {
    let text = format!("no stream has the subject {subject:?}. Create one, or check the subject in the URL");
    Outcome::down("no_stream", text)
}

/// Over a limit, the server's or the stream's.
pub(crate) fn too_large(text: &str) -> Outcome {
    Outcome::rejected("too_large", text)
}

/// The template, filled, is no subject.
pub(crate) fn unroutable(error: &Error) -> Outcome {
    Outcome::rejected("unroutable", error.message())
}

/// The server refused the right to publish there.
pub(crate) fn denied(subject: &str) -> Outcome {
    Outcome::down("denied", no_right(subject))
}

pub(crate) fn no_right(subject: &str) -> String {
    format!("the server forbids publishing to {subject:?}. Check the URL's user, and that user's permissions")
}

/// The connection went away after the message was written.
pub(crate) fn lost() -> Outcome {
    Outcome::unknown("connection_lost", "the connection was lost before the confirmation came")
}

/// The connection went away before the message was written.
pub(crate) fn lost_before() -> Outcome {
    Outcome::down("connection_lost", "the connection was lost before the message was written")
}

/// No server can be reached.
pub(crate) fn down(error: &Error) -> Outcome {
    Outcome::down(error.code().unwrap_or(error.kind().as_str()), error.message())
}

/// Why no connection could be made.
pub(crate) fn connecting(error: &ConnectError, address: &str) -> Error {
    let (kind, code, hint) = match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            (ErrorKind::Denied, "denied", "; check the URL's user and password, or credentials=")
        }
        ConnectErrorKind::Tls => (ErrorKind::Denied, "tls", "; check the certificate, or ca="),
        ConnectErrorKind::ServerParse => (ErrorKind::Invalid, "address", ""),
        ConnectErrorKind::Dns => (ErrorKind::Unavailable, "dns", "; check the URL's host"),
        ConnectErrorKind::TimedOut => (ErrorKind::Timeout, "no_answer", ""),
        _ => (ErrorKind::Unavailable, "unreachable", ""),
    };
    // rustls reports a certificate that it does not trust as invalid data.
    let untrusted = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    let (kind, code, hint) = match untrusted {
        Some(cause) if cause.kind() == std::io::ErrorKind::InvalidData => {
            (ErrorKind::Denied, "tls", "; check the certificate, or ca=")
        }
        _ => (kind, code, hint),
    };
    Error::new(kind, format!("cannot connect to {address}: {error}{hint}")).with_code(code)
}

/// JetStream did not answer a question.
pub(crate) fn unanswered(cause: &impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{cause}; is JetStream enabled?")).with_code("no_answer")
}

/// JetStream answered a question with a refusal.
pub(crate) fn asking(refusal: &Refusal) -> Error {
    let kind = match refusal.code() {
        404 => ErrorKind::NotFound,
        401 | 403 => ErrorKind::Denied,
        400..=499 => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, refusal.to_string()).with_code(format!("js_{}", refusal.error_code().0))
}

#[cfg(test)]
mod tests;
