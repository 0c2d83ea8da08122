//! Every row of the table that a server cannot be brought to.

use super::*;
use pillarbox_conformance::delivery::assert_outcome;

fn told(error: &KrafkaError) -> Outcome {
    unconfirmed(error, "orders", true).unwrap()
}

#[test]
fn every_refusal_of_a_record_has_its_outcome() {
    for (code, outcome) in [
        (ErrorCode::TopicAuthorizationFailed, "down/denied"),
        (ErrorCode::ClusterAuthorizationFailed, "down/denied"),
        (ErrorCode::UnknownTopicOrPartition, "down/no_topic"),
        (ErrorCode::NotEnoughReplicas, "down/no_replicas"),
        (ErrorCode::UnsupportedCompressionType, "down/compression"),
        (ErrorCode::PolicyViolation, "down/policy"),
        (ErrorCode::MessageTooLarge, "rejected/too_large"),
        (ErrorCode::RecordListTooLarge, "rejected/too_large"),
        (ErrorCode::InvalidTopic, "rejected/unroutable"),
        (ErrorCode::InvalidRecord, "rejected/invalid_record"),
        (ErrorCode::NotLeaderForPartition, "down/unavailable"),
        (ErrorCode::UnknownServerError, "failed/refused"),
    ] {
        let outcome_of = told(&KrafkaError::broker(code, "no"));
        assert!(assert_outcome(&outcome_of, outcome).text().contains("orders"), "{outcome_of:?}");
    }
}

#[test]
fn what_may_have_been_written_is_unknown_and_what_was_not_is_down() {
    assert_outcome(&told(&KrafkaError::delivery_timeout(true, "x")), "unknown/no_answer");
    assert_outcome(&told(&KrafkaError::delivery_timeout(false, "x")), "down/no_leader");
    assert_outcome(&told(&KrafkaError::closed("x")), "unknown/connection_lost");
    assert_outcome(&told(&KrafkaError::out_of_order_sequence("orders", 0, "x")), "failed/lost_before");
    assert_outcome(&told(&KrafkaError::unknown_topic("orders")), "down/no_topic");
    assert_outcome(&told(&KrafkaError::auth("no")), "down/denied");
    let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused");
    assert_outcome(&told(&KrafkaError::network(refused)), "down/unreachable");
}

#[test]
fn what_is_too_large_with_others_is_tried_alone() {
    let error = KrafkaError::broker(ErrorCode::MessageTooLarge, "no");
    assert_eq!(unconfirmed(&error, "orders", false), None);
}

#[test]
fn a_connection_that_is_refused_names_what_to_change() {
    for (error, kind, hint) in [
        (KrafkaError::auth("bad"), ErrorKind::Denied, "user and password"),
        (KrafkaError::broker(ErrorCode::SaslAuthenticationFailed, "no"), ErrorKind::Denied, "sasl="),
        (KrafkaError::broker(ErrorCode::GroupAuthorizationFailed, "no"), ErrorKind::Denied, "group"),
        (KrafkaError::broker(ErrorCode::TopicAuthorizationFailed, "no"), ErrorKind::Denied, "topic"),
        (KrafkaError::unknown_topic("orders"), ErrorKind::NotFound, "create the topic"),
        (KrafkaError::broker(ErrorCode::InvalidSessionTimeout, "no"), ErrorKind::Invalid, "session_timeout="),
        (KrafkaError::timeout("x"), ErrorKind::Timeout, "kafka://host"),
    ] {
        let error = connecting(&error, "kafka://host:9092");
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(text.contains(hint) && text.contains("kafka://host:9092"), "{text}");
    }
}
