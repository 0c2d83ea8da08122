//! The one table that says what an error of the server, the network or the client means for the work at hand.
//!
//! | what happened | for a publish | for a consumer |
//! |---|---|---|
//! | not reachable, or no answer to the first question | down | unavailable, or timed out |
//! | wrong user or password, wrong `sasl=`, certificate not trusted | down | denied |
//! | no right to write to the topic, or to the cluster | down | denied |
//! | no right to read the topic, or to use the group | – | denied |
//! | the topic does not exist | down | not found |
//! | too few replicas are in sync | down | – |
//! | the topic does not take the compression | down | – |
//! | larger than the topic's `max.message.bytes`, alone in its batch | rejected | – |
//! | not a topic after the template was filled | rejected | invalid |
//! | the server finds the record invalid | rejected | – |
//! | no leader, leader moved, connection lost | the client tries again until `confirm_timeout` | the client tries again |
//! | `confirm_timeout` over, and the record was never written | down | – |
//! | `confirm_timeout` over, and the record may have been written | unknown, or down if no server answers any more | – |
//! | the server has lost earlier records of this producer | failed | – |
//! | another delivery gave up the producer | unknown, or down if the record was not handed over yet | – |
//! | any other refusal of one record | later | – |
//! | a commit comes from a member whom the group has left behind | – | unavailable: the consumer joins anew |
//!
//! Missing rights and a missing topic are mistakes of the configuration, not of the message: calling them down opens the
//! route's circuit, and the entries wait, with the setting named, until an operator fixes it. Rejecting them would bury
//! every entry that is staged meanwhile.

use krafka::KrafkaError;
use krafka::ProtocolErrorKind;
use krafka::error::ErrorCode;
use pillarbox_core::{Error, ErrorKind, Outcome};

const LOGIN: &str = "; check the URL's user and password, and sasl=";
const TLS: &str = "; check the certificate, or ca=";

/// The outcome of a record that was not confirmed. `None`: the record was too large together with others, and is to be
/// tried alone.
pub(crate) fn unconfirmed(error: &KrafkaError, topic: &str, is_alone: bool) -> Option<Outcome> {
    Some(match error {
        KrafkaError::Broker { code: ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge, .. }
        | KrafkaError::Protocol { kind: ProtocolErrorKind::FrameTooLarge, .. } => {
            if !is_alone {
                return None;
            }
            too_large(topic)
        }
        KrafkaError::Broker { code, .. } => refused(*code, topic),
        // The client counts it as possibly written. Who is told that it is down loses nothing by that.
        KrafkaError::DeliveryTimeout { message, .. } if message.contains("NotEnoughReplicas") => {
            refused(ErrorCode::NotEnoughReplicas, topic)
        }
        KrafkaError::DeliveryTimeout { possibly_written: true, .. } | KrafkaError::Timeout { .. } => {
            no_answer()
        }
        KrafkaError::DeliveryTimeout { possibly_written: false, message } => {
            Outcome::down("no_leader", format!("topic {topic:?} took nothing in time: {message}"))
        }
        KrafkaError::Closed { .. } => given_up(),
        KrafkaError::UnknownTopic { .. } => no_topic(topic),
        KrafkaError::OutOfOrderSequence { .. } => Outcome::failed("lost_before", error.to_string()),
        KrafkaError::Config { message } => Outcome::rejected("too_large", message.clone()),
        KrafkaError::Protocol { kind: ProtocolErrorKind::InvalidLength, message } => {
            Outcome::rejected("too_large", message.clone())
        }
        other => {
            let error = connecting(other, "the server");
            Outcome::down(error.code().unwrap_or("refused"), error.message())
        }
    })
}

/// What the server says of one record.
fn refused(code: ErrorCode, topic: &str) -> Outcome {
    let said = |what: &str| format!("the server says of topic {topic:?}: {code:?}{what}");
    match code {
        ErrorCode::TopicAuthorizationFailed | ErrorCode::ClusterAuthorizationFailed => {
            Outcome::down("denied", said("; check the URL's user, and that user's right to write there"))
        }
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId => no_topic(topic),
        ErrorCode::NotEnoughReplicas | ErrorCode::NotEnoughReplicasAfterAppend => {
            Outcome::down("no_replicas", said("; fewer replicas are in sync than min.insync.replicas wants"))
        }
        ErrorCode::UnsupportedCompressionType => Outcome::down("compression", said("; check compression=")),
        ErrorCode::InvalidTopic => Outcome::rejected("unroutable", said("")),
        ErrorCode::InvalidRecord | ErrorCode::CorruptMessage | ErrorCode::InvalidTimestamp => {
            Outcome::rejected("invalid_record", said(""))
        }
        ErrorCode::PolicyViolation => Outcome::down("policy", said("; a policy of the cluster refuses it")),
        _ if code.is_retriable() => Outcome::down("unavailable", said("")),
        _ => Outcome::failed("refused", said("")),
    }
}

fn no_topic(topic: &str) -> Outcome {
    let text = format!("topic {topic:?} does not exist; create it, or check the path of the URL");
    Outcome::down("no_topic", text)
}

/// Over the topic's limit, alone.
fn too_large(topic: &str) -> Outcome {
    let text = format!("the record is larger than topic {topic:?} takes; see its max.message.bytes");
    Outcome::rejected("too_large", text)
}

/// The template, filled, is no topic.
pub(crate) fn unroutable(error: &Error) -> Outcome {
    Outcome::rejected("unroutable", error.message())
}

/// The confirmation did not come, and a server answers.
pub(crate) fn no_answer() -> Outcome {
    Outcome::unknown("no_answer", "no confirmation in time; the record may have been written")
}

/// The producer was ended while the record was on its way.
fn given_up() -> Outcome {
    Outcome::unknown("connection_lost", "the connection was given up before the confirmation came")
}

/// The producer was ended before it got the record.
pub(crate) fn given_up_before() -> Outcome {
    Outcome::down("connection_lost", "the connection was given up before the record was written")
}

/// No server can be reached.
pub(crate) fn down(error: &Error) -> Outcome {
    Outcome::down(error.code().unwrap_or(error.kind().as_str()), error.message())
}

/// Whether nothing more can be sent with the producer that reported it.
pub(crate) fn ends_producer(error: &KrafkaError) -> bool {
    error.is_fatal()
}

/// Why no connection could be made, or a question had no answer.
pub(crate) fn connecting(error: &KrafkaError, address: &str) -> Error {
    let text = chain(error);
    let (kind, code, hint) = match error {
        KrafkaError::Timeout { .. } | KrafkaError::DeliveryTimeout { .. } => {
            (ErrorKind::Timeout, "no_answer", "")
        }
        // The client tells in words that it was the time.
        KrafkaError::Network(_) if text.contains("timed out") => (ErrorKind::Timeout, "no_answer", ""),
        _ if is_tls(error, &text) => (ErrorKind::Denied, "tls", TLS),
        KrafkaError::Auth { .. } => (ErrorKind::Denied, "denied", LOGIN),
        KrafkaError::Broker { code, .. } => kind_of(*code),
        KrafkaError::UnknownTopic { .. } => {
            (ErrorKind::NotFound, "no_topic", "; create the topic, or check the path of the URL")
        }
        KrafkaError::Config { .. } => (ErrorKind::Invalid, "invalid", ""),
        KrafkaError::Protocol { kind: ProtocolErrorKind::UnknownApiVersion, .. } => {
            (ErrorKind::Unsupported, "too_old", "; the server must speak the protocol of Kafka 3.9 or newer")
        }
        _ => (ErrorKind::Unavailable, "unreachable", ""),
    };
    Error::new(kind, format!("cannot use {address}: {text}{hint}")).with_code(code)
}

fn kind_of(code: ErrorCode) -> (ErrorKind, &'static str, &'static str) {
    match code {
        ErrorCode::SaslAuthenticationFailed | ErrorCode::UnsupportedSaslMechanism => {
            (ErrorKind::Denied, "denied", LOGIN)
        }
        ErrorCode::TopicAuthorizationFailed => {
            (ErrorKind::Denied, "denied", "; check the URL's user, and that user's right to the topic")
        }
        ErrorCode::GroupAuthorizationFailed => {
            (ErrorKind::Denied, "denied", "; check the URL's user, and that user's right to the group")
        }
        ErrorCode::ClusterAuthorizationFailed => {
            (ErrorKind::Denied, "denied", "; check the URL's user, and that user's right to the cluster")
        }
        ErrorCode::UnknownTopicOrPartition => {
            (ErrorKind::NotFound, "no_topic", "; create the topic, or check the path of the URL")
        }
        ErrorCode::InvalidSessionTimeout => {
            (ErrorKind::Invalid, "session_timeout", "; the server does not allow this session_timeout=")
        }
        _ => (ErrorKind::Unavailable, "refused", ""),
    }
}

/// Whether a certificate or the handshake is the reason. The client tells it in words.
fn is_tls(error: &KrafkaError, text: &str) -> bool {
    let words = ["certificate", "TLS", "tls", "InvalidContentType", "CA file", "received corrupt message"];
    matches!(error, KrafkaError::Auth { .. } | KrafkaError::Network(_) | KrafkaError::Config { .. })
        && words.iter().any(|word| text.contains(word))
}

/// The error with all that is behind it, each once.
fn chain(error: &KrafkaError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

/// A consumer cannot go on.
pub(crate) fn consuming(error: &KrafkaError, address: &str) -> Error {
    connecting(error, address)
}

/// The partition was given to another member of the group.
pub(crate) fn partition_lost(topic: &str, partition: i32) -> Error {
    let text = format!(
        "partition {partition} of topic {topic:?} belongs to another consumer of the group now; this answer comes too \
         late, and the message is delivered again"
    );
    Error::new(ErrorKind::Unavailable, text).with_code("partition_lost")
}

/// Whether the server refuses a commit because the group has gone on without this member.
pub(crate) fn is_left_behind(error: &KrafkaError) -> bool {
    use ErrorCode::{FencedMemberEpoch, IllegalGeneration, UnknownMemberId};
    matches!(error, KrafkaError::Broker { code: IllegalGeneration | UnknownMemberId | FencedMemberEpoch, .. })
}

/// The group has gone on without this consumer.
pub(crate) fn left_behind(error: &KrafkaError, topic: &str) -> Error {
    let text = format!(
        "the group gave the partitions of topic {topic:?} to others, because this consumer was silent for too long; it joins \
         again, and what it had not answered is delivered again: {error}"
    );
    Error::new(ErrorKind::Unavailable, text).with_code("partition_lost")
}

/// Nothing was answered in time.
pub(crate) fn unanswered(doing: &str, address: &str) -> Error {
    Error::new(ErrorKind::Timeout, format!("{doing} {address}: no answer in time")).with_code("no_answer")
}

#[cfg(test)]
mod tests;
