//! Every row of the table that a server cannot be brought to, and every reason.

use super::*;
use pillarbox_conformance::delivery::assert_outcome;

#[test]
fn every_reason_of_an_acknowledgement_has_its_outcome() {
    for (reason, told) in [
        (PubRecReason::UnspecifiedError, "failed/unspecified"),
        (PubRecReason::ImplementationSpecificError, "failed/refused"),
        (PubRecReason::NotAuthorized, "down/denied"),
        (PubRecReason::TopicNameInvalid, "rejected/unroutable"),
        (PubRecReason::PacketIdentifierInUse, "failed/packet_id_in_use"),
        (PubRecReason::QuotaExceeded, "down/quota_exceeded"),
        (PubRecReason::PayloadFormatInvalid, "rejected/payload_format"),
    ] {
        let outcome = answered(same(reason), "orders/placed");
        assert!(assert_outcome(&outcome, told).text().contains("orders/placed"), "{outcome:?}");
    }
    assert!(matches!(answered(PubAckReason::QuotaExceeded, "t"), Outcome::Busy { .. }));
    for reason in [PubRecReason::Success, PubRecReason::NoMatchingSubscribers] {
        assert_eq!(answered(same(reason), "t"), Outcome::Confirmed);
    }
}

#[test]
fn a_refused_connection_names_what_to_change() {
    use ConnectReturnCode as Code;
    for (code, kind, hint) in [
        (Code::BadUserNamePassword, ErrorKind::Denied, "user and password"),
        (Code::NotAuthorized, ErrorKind::Denied, "user and password"),
        (Code::Banned, ErrorKind::Denied, "user and password"),
        (Code::UnsupportedProtocolVersion, ErrorKind::Unsupported, "MQTT 5"),
        (Code::ClientIdentifierNotValid, ErrorKind::Invalid, "client_id="),
        (Code::QoSNotSupported, ErrorKind::Unsupported, "qos="),
        (Code::ServerBusy, ErrorKind::Unavailable, "ServerBusy"),
        (Code::ServerMoved, ErrorKind::Unavailable, "ServerMoved"),
    ] {
        let error = connecting(&ConnectionError::ConnectionRefused(code), "mqtt://host:1883");
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(text.contains(hint) && text.contains("mqtt://host:1883"), "{text}");
    }
}

#[test]
fn a_refused_subscription_names_what_to_change() {
    use SubscribeReasonCode as Code;
    for (code, kind, hint) in [
        (Code::NotAuthorized, ErrorKind::Denied, "right to subscribe"),
        (Code::TopicFilterInvalid, ErrorKind::Invalid, "topic"),
        (Code::SharedSubscriptionsNotSupported, ErrorKind::Unsupported, "group="),
        (Code::WildcardSubscriptionsNotSupported, ErrorKind::Unsupported, "without + and #"),
        (Code::Success(rumqttc::QoS::AtMostOnce), ErrorKind::Unsupported, "quality of service 1"),
        (Code::QuotaExceeded, ErrorKind::Unavailable, "QuotaExceeded"),
    ] {
        let error = subscribing(code, "$share/billing/orders/#");
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(text.contains(hint) && text.contains("$share/billing/orders/#"), "{text}");
    }
}

#[test]
fn a_session_that_was_taken_over_says_so() {
    let cause = StateError::ServerDisconnect {
        reason_code: rumqttc::DisconnectReasonCode::SessionTakenOver,
        reason_string: Some("other".into()),
    };
    let text = consumer_lost(&ended(&ConnectionError::MqttState(cause))).to_string();
    assert!(text.contains("SessionTakenOver (other)") && text.contains("client_id="), "{text}");
}
