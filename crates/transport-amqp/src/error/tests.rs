//! One test per row of the table.

use std::sync::Arc;
use std::time::Duration;

use lapin::protocol::AMQPError;
use pillarbox_core::FailureKind;

use super::*;

fn broker(reply_code: u16, said: &str) -> Fault {
    let error = AMQPError::from_id(reply_code, said.into()).unwrap();
    lapin::Error::from(Cause::ProtocolError(error)).into()
}

/// What a message of 10 bytes comes to before and after it was written, with the code that operators see.
fn check(fault: &Fault, code: &str, waiting: FailureKind, written: FailureKind) {
    for (progress, wanted) in [(Progress::Waiting, waiting), (Progress::Written, written)] {
        let outcome = fault.outcome(10, progress);
        let failure = match &outcome {
            Outcome::Rejected(failure) | Outcome::Down(failure) | Outcome::Unknown(failure) => failure,
            other => panic!("{other:?}"),
        };
        assert_eq!((failure.kind, failure.code()), (wanted, code), "{outcome:?}");
    }
}

fn down(fault: &Fault, code: &str) {
    check(fault, code, FailureKind::Down, FailureKind::Down);
}

fn lost(fault: &Fault, code: &str) {
    check(fault, code, FailureKind::Down, FailureKind::Unknown);
}

fn kind(fault: Fault) -> ErrorKind {
    fault.into_error("consume").kind()
}

#[test]
fn a_missing_exchange_or_queue_is_down_and_names_the_setting() {
    let fault = broker(404, "NOT_FOUND - no exchange 'x' in vhost '/'");
    down(&fault, "not_found");
    assert!(fault.text.contains("'x'") && fault.text.contains("exchange="), "{}", fault.text);
    assert_eq!(kind(fault), ErrorKind::NotFound);
}

#[test]
fn missing_rights_and_a_wrong_password_are_down_and_name_the_setting() {
    let fault = broker(403, "ACCESS_REFUSED - access to exchange 'x' refused");
    down(&fault, "denied");
    assert!(fault.text.contains("user and password"), "{}", fault.text);
    assert_eq!(kind(fault), ErrorKind::Denied);
}

#[test]
fn a_wrong_vhost_is_down_and_names_the_setting() {
    let fault = broker(530, "NOT_ALLOWED - vhost nope not found");
    down(&fault, "not_allowed");
    assert!(fault.text.contains("vhost in the URL"), "{}", fault.text);
    assert_eq!(kind(fault), ErrorKind::Denied);
}

#[test]
fn a_broker_that_shuts_down_is_down() {
    let fault = broker(320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'");
    down(&fault, "shutdown");
    assert_eq!(kind(fault), ErrorKind::Unavailable);
}

#[test]
fn a_locked_queue_and_spent_resources_are_down() {
    down(&broker(405, "RESOURCE_LOCKED - cannot obtain exclusive access"), "locked");
    down(&broker(506, "RESOURCE_ERROR"), "resources");
    down(&lapin::Error::from(Cause::ChannelsLimitReached).into(), "channels");
}

#[test]
fn only_what_is_over_the_brokers_limit_is_rejected() {
    let said =
        |limit| format!("PRECONDITION_FAILED - message size 9 is larger than configured max size {limit}");
    check(&broker(406, &said(9)), "too_large", FailureKind::Rejected, FailureKind::Rejected);
    lost(&broker(406, &said(10)), "too_large_neighbour");
}

#[test]
fn any_other_precondition_is_a_lost_channel() {
    let fault = broker(406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out");
    lost(&fault, "precondition_failed");
    assert_eq!(kind(fault), ErrorKind::Unavailable);
}

#[test]
fn a_lost_connection_is_unknown_only_once_the_message_was_written() {
    let io = |kind| Cause::IOError(Arc::new(io::Error::from(kind)));
    for kind in [io::ErrorKind::ConnectionReset, io::ErrorKind::ConnectionAborted, io::ErrorKind::BrokenPipe]
    {
        lost(&lapin::Error::from(io(kind)).into(), "connection_lost");
    }
    lost(&lapin::Error::from(Cause::MissingHeartbeatError).into(), "heartbeat");
    lost(
        &lapin::Error::from(Cause::InvalidConnectionState(lapin::ConnectionState::Closed)).into(),
        "connection_lost",
    );
    lost(&broker(501, "FRAME_ERROR"), "protocol");
    lost(&broker(504, "CHANNEL_ERROR - expected 'channel.open'"), "protocol");
}

#[test]
fn a_refused_connection_is_down_because_nothing_was_written() {
    let refused = Cause::IOError(Arc::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
    let fault = Fault::from(lapin::Error::from(refused));
    assert!(matches!(fault.outcome(10, Progress::Waiting), Outcome::Down(_)));
    assert_eq!(kind(fault), ErrorKind::Unavailable);
}

#[test]
fn an_unanswered_question_is_down() {
    let fault = Fault::no_answer("connect", Duration::from_secs(1));
    down(&fault, "no_answer");
    assert_eq!(kind(fault), ErrorKind::Timeout);
}

#[test]
fn a_refused_certificate_is_down_and_denied() {
    let refused = Cause::IOError(Arc::new(io::Error::new(io::ErrorKind::InvalidData, "UnknownIssuer")));
    let fault = Fault::from(lapin::Error::from(refused));
    down(&fault, "tls");
    assert_eq!(kind(fault), ErrorKind::Denied);
}

#[test]
fn a_file_that_cannot_be_read_is_down_and_invalid_and_names_the_setting() {
    let fault = Fault::unreadable("ca=", &io::Error::from(io::ErrorKind::NotFound));
    down(&fault, "unreadable");
    assert!(fault.text.contains("ca="), "{}", fault.text);
    assert_eq!(kind(fault), ErrorKind::Invalid);
}

#[test]
fn a_failed_login_is_down_and_denied() {
    let fault = Fault::from(lapin::Error::from(Cause::AuthProviderError("no".into())));
    down(&fault, "denied");
    assert_eq!(kind(fault), ErrorKind::Denied);
}

#[test]
fn a_returned_message_is_rejected_and_a_refused_one_costs_no_attempt() {
    assert!(matches!(unroutable("e", "k"), Outcome::Rejected(failure) if failure.code() == "unroutable"));
    assert!(matches!(nacked(), Outcome::Busy { failure, retry_after: None } if failure.code() == "nack"));
}

#[test]
fn a_broker_that_confirms_nothing_is_down() {
    let outcome = no_confirm(Duration::from_secs(15));
    assert!(matches!(&outcome, Outcome::Down(failure) if failure.code() == "no_confirm"), "{outcome:?}");
}
