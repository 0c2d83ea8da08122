//! The one table that says what an error of the server, the network or the client means for the work at hand.
//!
//! | what happened | for a publish | for a consumer |
//! |---|---|---|
//! | not reachable, handshake unanswered | down | unavailable |
//! | wrong user or password, banned | down | denied |
//! | the server does not speak MQTT 5, or not the wanted quality of service | down | unsupported |
//! | the client id is not valid | down | invalid |
//! | server busy, unavailable or moved, connection rate exceeded | down | unavailable |
//! | no right to publish to the topic (0x87) | down | denied |
//! | no right to subscribe, or no shared subscriptions | – | denied, or unsupported |
//! | nobody has subscribed to the topic (0x10) | confirmed | – |
//! | quota exceeded (0x97) | busy | unavailable |
//! | larger than the server's maximum packet size | rejected | – |
//! | not a topic after the template was filled, or the server says so (0x90) | rejected | invalid |
//! | the payload does not have the announced format (0x99) | rejected | – |
//! | any other refusal of one message (0x80, 0x83, 0x91) | later | – |
//! | another client has taken over the session | – | unavailable |
//! | no confirmation in time | unknown | unavailable |
//! | connection lost after the message was written | unknown, or down if nobody answers any more | unavailable |
//! | connection lost before that | down | unavailable |
//!
//! Missing rights are mistakes of the configuration, not of the message: calling them down opens the route's
//! circuit, and the entries wait, with the setting named, until an operator fixes it. Rejecting them would bury
//! every entry that is staged meanwhile. A quota may be of one topic alone: hence busy and not down, see
//! [`Busy`](Outcome::Busy).

use std::io;

use pillarbox_core::{Error, ErrorKind, Outcome};
use rumqttc::mqttbytes::v5::SubscribeReasonCode;
use rumqttc::{ConnectReturnCode, ConnectionError, PubAckReason, PubRecReason, StateError};

const LOGIN: &str = "; check the URL's user and password";
const TLS: &str = "; check the certificate, or ca=";

/// The outcome of a message that the server answered with this reason.
pub(crate) fn answered(reason: PubAckReason, topic: &str) -> Outcome {
    let said = |what: &str| format!("the server says of topic {topic:?}: {what}");
    match reason {
        PubAckReason::Success | PubAckReason::NoMatchingSubscribers => Outcome::Confirmed,
        PubAckReason::NotAuthorized => Outcome::down(
            "denied",
            said("not authorized; check the URL's user, and that user's right to publish there"),
        ),
        PubAckReason::QuotaExceeded => Outcome::busy("quota_exceeded", said("quota exceeded")),
        PubAckReason::TopicNameInvalid => Outcome::rejected("unroutable", said("topic name invalid")),
        PubAckReason::PayloadFormatInvalid => {
            Outcome::rejected("payload_format", said("payload format invalid"))
        }
        PubAckReason::PacketIdentifierInUse => {
            Outcome::failed("packet_id_in_use", said("packet identifier in use"))
        }
        PubAckReason::UnspecifiedError => Outcome::failed("unspecified", said("unspecified error")),
        PubAckReason::ImplementationSpecificError => {
            Outcome::failed("refused", said("implementation specific error"))
        }
    }
}

/// The same reason, in an answer to a message of quality of service 2.
pub(crate) fn same(reason: PubRecReason) -> PubAckReason {
    match reason {
        PubRecReason::Success => PubAckReason::Success,
        PubRecReason::NoMatchingSubscribers => PubAckReason::NoMatchingSubscribers,
        PubRecReason::UnspecifiedError => PubAckReason::UnspecifiedError,
        PubRecReason::ImplementationSpecificError => PubAckReason::ImplementationSpecificError,
        PubRecReason::NotAuthorized => PubAckReason::NotAuthorized,
        PubRecReason::TopicNameInvalid => PubAckReason::TopicNameInvalid,
        PubRecReason::PacketIdentifierInUse => PubAckReason::PacketIdentifierInUse,
        PubRecReason::QuotaExceeded => PubAckReason::QuotaExceeded,
        PubRecReason::PayloadFormatInvalid => PubAckReason::PayloadFormatInvalid,
    }
}

/// The server took the message and then did not know it any more.
pub(crate) fn forgotten() -> Outcome {
    Outcome::unknown("forgotten", "the server forgot the message between its two confirmations")
}

/// Over the server's limit.
pub(crate) fn too_large(bytes: usize, limit: usize) -> Outcome {
    let text = format!("the message has {bytes} bytes; the server accepts at most {limit}");
    Outcome::rejected("too_large", text)
}

/// The template, filled, is no topic.
pub(crate) fn unroutable(error: &Error) -> Outcome {
    Outcome::rejected("unroutable", error.message())
}

/// The connection went away after the message was written.
pub(crate) fn lost(why: &str) -> Outcome {
    Outcome::unknown(
        "connection_lost",
        format!("the connection was lost before the confirmation came: {why}"),
    )
}

/// The connection went away before the message was written.
pub(crate) fn lost_before() -> Outcome {
    Outcome::down("connection_lost", "the connection was lost before the message was written")
}

/// The confirmation did not come.
pub(crate) fn no_answer() -> Outcome {
    Outcome::unknown("no_answer", "no confirmation in time")
}

/// The server has not confirmed earlier messages, so this one was not written.
pub(crate) fn stuck() -> Outcome {
    Outcome::down("no_answer", "the server has not confirmed earlier messages, so this one was not written")
}

/// No server can be reached.
pub(crate) fn down(error: &Error) -> Outcome {
    Outcome::down(error.code().unwrap_or(error.kind().as_str()), error.message())
}

/// Why no connection could be made.
pub(crate) fn connecting(error: &ConnectionError, address: &str) -> Error {
    let (kind, code, what) = match error {
        ConnectionError::Timeout(_) => (ErrorKind::Timeout, "no_answer", "no answer in time".to_owned()),
        ConnectionError::ConnectionRefused(code)
        | ConnectionError::MqttState(StateError::ConnFail { reason: code }) => refused(*code),
        ConnectionError::Tls(cause) => (ErrorKind::Denied, "tls", format!("{cause}{TLS}")),
        ConnectionError::Io(cause) => network(cause),
        ConnectionError::MqttState(StateError::Io(cause)) => network(cause),
        ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, .. }) => {
            (ErrorKind::Unavailable, "disconnected", format!("the server hung up: {reason_code:?}"))
        }
        ConnectionError::MqttState(_) | ConnectionError::NotConnAck(_) => (
            ErrorKind::Unavailable,
            "no_mqtt",
            format!("{error}; the server must speak MQTT 5, which older ones do not"),
        ),
        _ => (ErrorKind::Unavailable, "unreachable", error.to_string()),
    };
    Error::new(kind, format!("cannot connect to {address}: {what}")).with_code(code)
}

fn network(cause: &io::Error) -> (ErrorKind, &'static str, String) {
    match cause.kind() {
        // rustls reports a certificate that it does not trust, and a server without TLS, as invalid data.
        io::ErrorKind::InvalidData => (ErrorKind::Denied, "tls", format!("{cause}{TLS}")),
        io::ErrorKind::TimedOut => (ErrorKind::Timeout, "no_answer", cause.to_string()),
        _ => (ErrorKind::Unavailable, "unreachable", cause.to_string()),
    }
}

fn refused(code: ConnectReturnCode) -> (ErrorKind, &'static str, String) {
    use ConnectReturnCode as Code;
    match code {
        Code::BadUserNamePassword | Code::NotAuthorized | Code::BadAuthenticationMethod | Code::Banned => {
            (ErrorKind::Denied, "denied", format!("{code:?}{LOGIN}"))
        }
        Code::UnsupportedProtocolVersion | Code::RefusedProtocolVersion => {
            (ErrorKind::Unsupported, "no_mqtt5", format!("{code:?}; the server must speak MQTT 5"))
        }
        Code::ClientIdentifierNotValid | Code::BadClientId => {
            (ErrorKind::Invalid, "client_id", format!("{code:?}; check client_id="))
        }
        Code::QoSNotSupported => (ErrorKind::Unsupported, "qos", format!("{code:?}; check qos=")),
        Code::ServerBusy | Code::ConnectionRateExceeded | Code::QuotaExceeded => {
            (ErrorKind::Unavailable, "busy", format!("{code:?}"))
        }
        _ => (ErrorKind::Unavailable, "refused", format!("{code:?}")),
    }
}

/// The server does not offer the quality of service that is wanted.
pub(crate) fn qos(offered: u8, address: &str) -> Error {
    let text = format!("{address} offers quality of service {offered} at most; check qos=");
    Error::new(ErrorKind::Unsupported, text).with_code("qos")
}

/// Why a connection ended, in words for people.
pub(crate) fn ended(error: &ConnectionError) -> String {
    match error {
        ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, reason_string }) => {
            let more = reason_string.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
            format!("the server hung up: {reason_code:?}{more}")
        }
        ConnectionError::MqttState(StateError::ConnectionAborted) => "the server closed it".to_owned(),
        ConnectionError::MqttState(StateError::AwaitPingResp) => "the server does not answer".to_owned(),
        other => other.to_string(),
    }
}

/// The connection of a consumer is gone. Not every server says that another client has taken over the session.
pub(crate) fn consumer_lost(why: &str) -> Error {
    let text = format!(
        "the connection to the MQTT server was lost: {why}. If this repeats, check that no other consumer uses the \
         same client_id="
    );
    Error::new(ErrorKind::Unavailable, text).with_code("connection_lost")
}

/// The server did not answer a consumer's request.
pub(crate) fn consumer_unanswered(doing: &str) -> Error {
    Error::new(ErrorKind::Timeout, format!("{doing}: no answer in time")).with_code("no_answer")
}

/// Why the server refused a subscription.
pub(crate) fn subscribing(reason: SubscribeReasonCode, filter: &str) -> Error {
    use SubscribeReasonCode as Code;
    let (kind, hint) = match reason {
        Code::NotAuthorized => {
            (ErrorKind::Denied, "; check the URL's user, and that user's right to subscribe")
        }
        Code::TopicFilterInvalid => (ErrorKind::Invalid, "; check the topic in the URL"),
        Code::SharedSubscriptionsNotSupported => (ErrorKind::Unsupported, "; leave out group="),
        Code::WildcardSubscriptionsNotSupported => {
            (ErrorKind::Unsupported, "; name one topic without + and #")
        }
        Code::Success(_) => (ErrorKind::Unsupported, "; the server must offer quality of service 1"),
        _ => (ErrorKind::Unavailable, ""),
    };
    Error::new(kind, format!("the server refuses the subscription to {filter:?}: {reason:?}{hint}"))
        .with_code("subscribe")
}

#[cfg(test)]
mod tests;
