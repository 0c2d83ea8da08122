use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::audit::AuditKind;
use crate::entry::{Fence, Held};
use crate::error::{ErrorKind, Result};
use crate::event::EventId;
use crate::name::RouteName;
use crate::outcome::{Failure, FailureKind};
use crate::port::Intervention;
use crate::status::Status;
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp::MIN;

fn subject() -> Reference {
    Reference::new("person", "p-7")
}

fn group() -> SagaBuilder {
    Saga::group("erase", subject()).step(Step::new("a", "a.do")).step(Step::new("b", "b.do"))
}

fn booking() -> SagaBuilder {
    Saga::ordered("booking", subject())
        .step(Step::compensatable("hotel", "hotel.book", "hotel.cancel"))
        .step(Step::compensatable("car", "car.book", "car.cancel"))
        .step(Step::pivot("pay", "card.charge"))
        .step(Step::retryable("mail", "mail.send"))
}

fn started(builder: SagaBuilder) -> (SagaRecord, Moves) {
    let saga = builder.build().unwrap();
    let route = RouteName::new("sagas").unwrap();
    let mut record = SagaRecord::new(saga, SagaId(Uuid::from_u128(1)), route, 1, NOW);
    let moves = record.start().unwrap();
    (record, moves)
}

fn forward(saga: &SagaRecord, step: &str) -> EventId {
    saga.key_of(step, Direction::Forward)
}

fn back(saga: &SagaRecord, step: &str) -> EventId {
    saga.key_of(step, Direction::Compensation)
}

fn failed(kind: FailureKind) -> Failure {
    Failure::new(kind, "code", "")
}

fn kinds(moves: &Moves) -> Vec<AuditKind> {
    moves.audit.iter().map(|record| record.kind).collect()
}

fn staged(moves: &Moves) -> Vec<&str> {
    moves.stage.iter().map(|event| event.event_type.as_str()).collect()
}

fn seen(event_id: EventId, status: Status, attempts: u32, kind: Option<FailureKind>) -> StepSeen {
    let held = Held { seq: 1, fence: Fence(1) };
    StepSeen { held, event_id, status, attempts, last_error: kind.map(failed) }
}

#[test]
fn what_cannot_run_is_refused_when_it_is_built() {
    fn check(saga: SagaBuilder, says: &str) {
        let error = saga.build().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let ordered = || Saga::ordered("s", subject());
    check(Saga::group("s", subject()), "at least one step");
    check(Saga::group("", subject()).step(Step::new("a", "h")), "the name of a saga must not be empty");
    check(group().step(Step::new("a", "other")), "two steps have the name \"a\"");
    check(group().step(Step::new("", "h")), "the name of a step");
    check(group().step(Step::new("c", "")), "the handler of step \"c\"");
    check(group().step(Step::compensatable("c", "h", "undo")), "step \"c\" cannot be in a group");
    check(
        group().step(Step::new("c", "h").compensation("undo")),
        "\"c\" is a pivot or retryable step, which is never undone",
    );
    check(
        booking().step(Step::retryable("late", "h").compensation("undo")),
        "\"late\" is a pivot or retryable step",
    );
    check(booking().step(Step::compensatable("late", "h", "undo")), "comes after step \"mail\"");
    check(ordered().step(Step::pivot("p", "h")).step(Step::pivot("q", "h")), "comes after step \"p\"");
    check(ordered().step(Step::new("r", "h")).step(Step::pivot("q", "h")), "comes after step \"r\"");
    check(ordered().step(Step::compensatable("c", "h", "")), "the compensation of step \"c\"");
    check(Saga::group("s", Reference::new("k", "v".repeat(256))).step(Step::new("a", "h")), "256 characters");
    let long = Reference::new("kind", "v".repeat(256));
    check(
        group().step(Step::new("c", "h").reference(long)),
        "the value of the reference of step \"c\" has 256",
    );
    let extra = Reference::new("kind", "v").extra("e", "v".repeat(5000));
    check(group().step(Step::new("c", "h").reference(extra)), "at most 4096 bytes");
    check(group().step(Step::new("c", "h").input(&"x".repeat(70_000)).unwrap()), "the input of step \"c\"");
    check(group().step(Step::new("c", "h").max_attempts(0)), "max_attempts");
    check(group().timeout(Duration::ZERO), "timeout");
    check((0..65).fold(ordered(), |saga, n| saga.step(Step::new(n.to_string(), "h"))), "65 steps");
}

#[test]
fn a_group_runs_at_once_and_completes_with_its_last_step() {
    let (mut saga, moves) = started(group());
    assert_eq!(staged(&moves), ["a.do", "b.do"]);
    let (a, b) = (forward(&saga, "a"), forward(&saga, "b"));
    let moves = saga.done(b, None, NOW).unwrap();
    assert_eq!(kinds(&moves), [AuditKind::StepSucceeded]);
    assert!(!moves.ended);
    let moves = saga.done(a, None, NOW).unwrap();
    assert_eq!(kinds(&moves), [AuditKind::StepSucceeded, AuditKind::Completed]);
    assert!(moves.ended && saga.status == SagaStatus::Completed && saga.ended_at == Some(NOW));
    // Told once more, it changes nothing.
    let again = saga.done(a, None, NOW).unwrap();
    assert!(again.audit.is_empty() && !again.ended);
}

#[test]
fn a_dead_step_blocks_a_group_until_it_is_done_after_all() {
    let (mut saga, _) = started(group());
    let (a, b) = (forward(&saga, "a"), forward(&saga, "b"));
    let moves = saga.given_up(a, true, failed(FailureKind::Failed), NOW).unwrap();
    assert_eq!(kinds(&moves), [AuditKind::StepFailed]);
    assert!(moves.audit[0].detail.starts_with("abandoned"));
    assert!(matches!(moves.entries[..], [(_, EntryMove::Bury(_))]));
    assert!(!saga.done(b, None, NOW).unwrap().ended);
    assert_eq!((saga.status, saga.dead()), (SagaStatus::Blocked, 1));
    let moves = saga.intervene(&[], &Intervention::Retry, NOW).unwrap();
    assert_eq!(moves.entries, [(a, EntryMove::Requeue)]);
    assert_eq!((saga.status, saga.dead()), (SagaStatus::Running, 0));
    assert!(saga.done(a, None, NOW).unwrap().ended);
}

#[test]
fn steps_in_order_pass_data_on() {
    let (mut saga, moves) = started(booking());
    assert_eq!(staged(&moves), ["hotel.book"]);
    let moves = saga.done(forward(&saga, "hotel"), Some(json!({"room": 7})), NOW).unwrap();
    assert_eq!(staged(&moves), ["car.book"]);
    let input: StepInput = serde_json::from_slice(&moves.stage[0].payload).unwrap();
    assert_eq!(input.data["hotel"], json!({"room": 7}));
    assert_eq!(moves.stage[0].id, Some(forward(&saga, "car")));
    for step in ["car", "pay", "mail"] {
        let moves = saga.done(forward(&saga, step), None, NOW).unwrap();
        assert_eq!(moves.ended, step == "mail");
    }
}

#[test]
fn a_failure_before_the_pivot_undoes_what_may_have_run_in_reverse() {
    let (mut saga, _) = started(booking());
    for step in ["hotel", "car"] {
        let _ = saga.done(forward(&saga, step), Some(json!(step)), NOW).unwrap();
    }
    let moves = saga.given_up(forward(&saga, "pay"), false, failed(FailureKind::Rejected), NOW).unwrap();
    assert_eq!(kinds(&moves), [AuditKind::StepFailed, AuditKind::Compensating]);
    assert!(matches!(moves.entries[..], [(_, EntryMove::Discard(_))]));
    assert_eq!(staged(&moves), ["car.cancel"]);
    let input: StepInput = serde_json::from_slice(&moves.stage[0].payload).unwrap();
    assert_eq!((input.direction, &input.data["car"]), (Direction::Compensation, &json!("car")));
    let moves = saga.done(back(&saga, "car"), None, NOW).unwrap();
    assert_eq!(staged(&moves), ["hotel.cancel"]);
    let moves = saga.done(back(&saga, "hotel"), None, NOW).unwrap();
    assert_eq!(kinds(&moves), [AuditKind::StepCompensated, AuditKind::Compensated]);
    assert!(moves.ended && saga.status == SagaStatus::Compensated);
}

#[test]
fn a_step_that_may_have_run_is_undone_too() {
    for (kind, attempts, undone) in [
        (FailureKind::Rejected, 1, false),
        (FailureKind::UnknownHandler, 1, false),
        (FailureKind::Rejected, 2, true),
        (FailureKind::Failed, 1, true),
        (FailureKind::Panicked, 3, true),
    ] {
        let (mut saga, _) = started(booking());
        let moves = saga.given_up(forward(&saga, "hotel"), attempts > 1, failed(kind), NOW).unwrap();
        assert_eq!(staged(&moves), if undone { vec!["hotel.cancel"] } else { vec![] }, "{kind:?} {attempts}");
        assert_eq!(moves.ended, !undone);
    }
}

#[test]
fn an_unknown_outcome_compensates_nothing() {
    for kind in [FailureKind::Unknown, FailureKind::LeaseExpired] {
        let (mut saga, _) = started(booking());
        let hotel = forward(&saga, "hotel");
        let moves = saga.given_up(hotel, true, failed(kind), NOW).unwrap();
        assert!(moves.stage.is_empty() && matches!(moves.entries[..], [(_, EntryMove::Bury(_))]));
        assert_eq!(saga.status, SagaStatus::Blocked);
        let mut other = saga.clone();
        assert_eq!(
            other.intervene(&[], &Intervention::Retry, NOW).unwrap().entries,
            [(hotel, EntryMove::Requeue)]
        );
        let moves = saga.intervene(&[], &Intervention::Compensate, NOW).unwrap();
        assert!(matches!(moves.entries[..], [(_, EntryMove::Discard(_))]));
        // The relay goes on from here.
        assert!(moves.stage.is_empty() && saga.due_at == Some(NOW));
        assert_eq!(staged(&saga.reconcile(&[], NOW).unwrap()), ["hotel.cancel"]);
    }
}

#[test]
fn after_the_pivot_it_only_goes_forward() {
    let (mut saga, _) = started(booking());
    for step in ["hotel", "car", "pay"] {
        let _ = saga.done(forward(&saga, step), None, NOW).unwrap();
    }
    let moves = saga.given_up(forward(&saga, "mail"), false, failed(FailureKind::Rejected), NOW).unwrap();
    assert!(moves.stage.is_empty());
    assert_eq!(saga.status, SagaStatus::Blocked);
    assert!(
        saga.intervene(&[], &Intervention::Compensate, NOW)
            .unwrap_err()
            .to_string()
            .contains("the saga cannot be compensated")
    );
    let _ = saga.intervene(&[], &Intervention::Retry, NOW).unwrap();
    assert!(saga.done(forward(&saga, "mail"), None, NOW).unwrap().ended);
}

#[test]
fn a_failed_compensation_is_seen_and_the_rest_still_run() {
    let (mut saga, _) = started(booking());
    for step in ["hotel", "car"] {
        let _ = saga.done(forward(&saga, step), None, NOW).unwrap();
    }
    let _ = saga.given_up(forward(&saga, "pay"), true, failed(FailureKind::Failed), NOW).unwrap();
    let moves = saga.given_up(back(&saga, "car"), true, failed(FailureKind::Failed), NOW).unwrap();
    assert_eq!(kinds(&moves), [AuditKind::CompensationFailed]);
    assert_eq!((staged(&moves), saga.status), (vec!["hotel.cancel"], SagaStatus::CompensationFailed));
    let moves = saga.done(back(&saga, "hotel"), None, NOW).unwrap();
    assert!(!moves.ended && saga.status == SagaStatus::CompensationFailed);
    let moves = saga.intervene(&[], &Intervention::Retry, NOW).unwrap();
    assert_eq!(moves.entries, [(back(&saga, "car"), EntryMove::Requeue)]);
    assert_eq!(saga.status, SagaStatus::Compensating);
    assert!(saga.done(back(&saga, "car"), None, NOW).unwrap().ended);
    assert_eq!(saga.status, SagaStatus::Compensated);
}

#[test]
fn a_sweep_sees_what_a_reap_or_an_operator_did() {
    let (mut saga, _) = started(group());
    let a = forward(&saga, "a");
    let dead = seen(a, Status::Dead, 8, Some(FailureKind::LeaseExpired));
    let moves = saga.reconcile(std::slice::from_ref(&dead), NOW).unwrap();
    assert_eq!(kinds(&moves), [AuditKind::StepFailed]);
    assert_eq!((saga.status, saga.dead()), (SagaStatus::Blocked, 1));
    assert!(saga.reconcile(&[dead], NOW).unwrap().is_empty(), "it knows it by now");
    assert!(saga.reconcile(&[seen(a, Status::Pending, 0, None)], NOW).unwrap().is_empty());
    assert_eq!((saga.status, saga.dead()), (SagaStatus::Running, 0));
    let _ = saga.given_up(a, false, failed(FailureKind::Rejected), NOW).unwrap();
    let _ = saga.reconcile(&[seen(a, Status::Discarded, 1, None)], NOW).unwrap();
    assert_eq!((saga.status, saga.dead()), (SagaStatus::Blocked, 0));
    assert!(
        saga.intervene(&[], &Intervention::Retry, NOW).unwrap_err().to_string().contains("no longer exist")
    );
    assert!(!saga.done(forward(&saga, "b"), None, NOW).unwrap().ended);
    assert_eq!(saga.status, SagaStatus::Blocked);
}

#[test]
fn past_its_deadline_a_saga_before_its_pivot_goes_back() {
    let (mut saga, _) = started(booking().timeout(Duration::from_secs(60)));
    let late = NOW.saturating_add(Duration::from_secs(60));
    assert_eq!(saga.due_at, Some(late));
    let _ = saga.done(forward(&saga, "hotel"), None, NOW).unwrap();
    let car = forward(&saga, "car");
    let mut busy = saga.clone();
    assert!(busy.reconcile(&[seen(car, Status::InFlight, 1, None)], late).unwrap().is_empty());
    assert!(busy.due_at > Some(late), "in flight: looked at again soon");
    // Done too late: no further step is begun.
    assert_eq!(staged(&busy.done(car, None, late).unwrap()), ["car.cancel"]);
    for kind in [FailureKind::Unknown, FailureKind::LeaseExpired] {
        let mut unknown = saga.clone();
        let lost = seen(car, Status::Retrying, 1, Some(kind));
        assert!(
            unknown.reconcile(&[lost], late).unwrap().is_empty(),
            "{kind:?}: nobody knows whether it ran"
        );
        assert!(unknown.due_at > Some(late), "looked at again soon");
    }
    let moves = saga.reconcile(&[seen(car, Status::Retrying, 1, Some(FailureKind::Failed))], late).unwrap();
    assert_eq!(staged(&moves), ["car.cancel"]);
    assert!(matches!(moves.entries[..], [(_, EntryMove::Discard(_))]));
    let (group, _) = started(group().timeout(Duration::from_secs(60)));
    assert_eq!(group.due_at, None);
    assert!(group.is_stuck(late), "overdue, and told");
}

#[test]
fn only_what_waits_for_an_operator_is_resumed() {
    let (mut saga, _) = started(group());
    assert!(
        saga.intervene(&[], &Intervention::Retry, NOW).unwrap_err().to_string().contains("nothing to resume")
    );
}

fn skip(step: &str) -> Intervention {
    Intervention::Skip { step: step.into(), reason: "sent by hand".into() }
}

#[test]
fn a_saga_goes_on_without_a_step_that_an_operator_skips() {
    let says = |saga: &mut SagaRecord, step: &str, part: &str| {
        let error = saga.intervene(&[], &skip(step), NOW).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    let builder = booking().step(Step::retryable("survey", "survey.send"));
    let (mut saga, _) = started(builder);
    says(&mut saga, "nobody", "its steps are hotel, car, pay, mail, survey");
    says(&mut saga, "hotel", "step \"hotel\" cannot be skipped");
    says(&mut saga, "mail", "is waiting");
    for step in ["hotel", "car", "pay"] {
        let _ = saga.done(forward(&saga, step), None, NOW).unwrap();
    }
    let _ = saga.given_up(forward(&saga, "mail"), false, failed(FailureKind::Rejected), NOW).unwrap();
    let moves = saga.intervene(&[], &skip("mail"), NOW).unwrap();
    assert_eq!((kinds(&moves), staged(&moves)), (vec![AuditKind::StepSkipped], vec!["survey.send"]));
    assert_eq!(moves.audit[0].detail, "sent by hand");
    assert!(matches!(moves.entries[..], [(_, EntryMove::Discard(_))]));
    assert_eq!((saga.status, saga.steps[3].state), (SagaStatus::Running, StepState::Skipped));
    let moves = saga.given_up(forward(&saga, "survey"), false, failed(FailureKind::Rejected), NOW).unwrap();
    assert!(!moves.ended);
    // The end is the relay's, with the callback.
    assert!(!saga.intervene(&[], &skip("survey"), NOW).unwrap().ended);
    assert_eq!((saga.status, saga.due_at), (SagaStatus::Running, Some(NOW)));
    let moves = saga.reconcile(&[], NOW).unwrap();
    assert!(moves.ended && kinds(&moves) == [AuditKind::Completed]);
    assert_eq!((saga.status, saga.due_at), (SagaStatus::Completed, None));
}

#[test]
fn a_group_completes_without_the_steps_that_were_skipped() {
    let (mut saga, _) = started(group());
    let _ = saga.given_up(forward(&saga, "a"), false, failed(FailureKind::Rejected), NOW).unwrap();
    let _ = saga.intervene(&[], &skip("a"), NOW).unwrap();
    assert!(saga.reconcile(&[], NOW).unwrap().is_empty(), "the other step is still to come");
    assert!(saga.done(forward(&saga, "b"), None, NOW).unwrap().ended);
}

/// Else the steps behind it would run although an operator has ended the saga.
#[test]
fn no_step_of_an_abandoned_saga_is_skipped() {
    let (mut saga, _) = started(group());
    let _ = saga.given_up(forward(&saga, "a"), false, failed(FailureKind::Rejected), NOW).unwrap();
    let abandon = Intervention::Abandon { reason: "the customer is gone".into() };
    let _ = saga.intervene(&[], &abandon, NOW).unwrap();
    let error = saga.intervene(&[], &skip("a"), NOW).unwrap_err().to_string();
    assert!(error.contains("the saga is abandoned: there is nothing to skip"), "{error}");
}

#[test]
fn a_saga_is_abandoned_wherever_it_is() {
    let abandon = Intervention::Abandon { reason: "the customer is gone".into() };
    let (mut saga, _) = started(booking());
    let _ = saga.done(forward(&saga, "hotel"), None, NOW).unwrap();
    let entry = |status| [seen(forward(&saga, "car"), status, 1, None)];
    for status in [Status::Pending, Status::InFlight, Status::Retrying, Status::Dead] {
        let mut saga = saga.clone();
        let moves = saga.intervene(&entry(status), &abandon, NOW).unwrap();
        assert!(matches!(moves.entries[..], [(_, EntryMove::Discard(_))]), "{status}");
        assert!(moves.ended && moves.stage.is_empty() && kinds(&moves) == [AuditKind::Abandoned]);
        assert_eq!((saga.status, saga.ended_at, saga.due_at), (SagaStatus::Abandoned, Some(NOW), None));
        let states: Vec<_> = saga.steps.iter().map(|step| step.state).collect();
        use StepState::{Abandoned, Done, Waiting};
        assert_eq!(states, [Done, Abandoned, Waiting, Waiting]);
        assert_eq!(saga.dead(), 0, "no sweep comes back to it");
        assert!(saga.intervene(&[], &abandon, NOW).unwrap_err().to_string().contains("nothing to abandon"));
        assert!(saga.reconcile(&[], NOW).unwrap().is_empty());
    }
    let blank = Intervention::Abandon { reason: String::new() };
    assert!(saga.intervene(&[], &blank, NOW).unwrap_err().to_string().contains("the reason"));
}

#[test]
fn a_step_that_was_taken_away_by_hand_can_still_be_undone() {
    let (mut saga, _) = started(booking());
    let hotel = forward(&saga, "hotel");
    let _ = saga.given_up(hotel, true, failed(FailureKind::Unknown), NOW).unwrap();
    let _ = saga.reconcile(&[], NOW).unwrap();
    assert_eq!(saga.steps[0].state, StepState::Abandoned);
    assert!(saga.intervene(&[], &Intervention::Compensate, NOW).unwrap().entries.is_empty());
    assert_eq!(staged(&saga.reconcile(&[], NOW).unwrap()), ["hotel.cancel"]);
}

#[test]
fn a_row_reads_back_as_it_was() -> Result<()> {
    let extra = Reference::new("person", "p-7").extra("region", "eu");
    let builder = Saga::ordered("s", extra)
        .step(Step::compensatable("a", "h", "u").input(&7)?.max_attempts(3).timeout(Duration::from_secs(5)))
        .header("traceparent", "00-1")
        .tenant("t")
        .correlation_id("c")
        .timeout(Duration::from_secs(9));
    let (mut saga, _) = started(builder);
    let _ = saga.given_up(forward(&saga, "a"), true, failed(FailureKind::Failed), NOW)?;
    assert_eq!(SagaRecord::read(saga.columns()?)?, saga);
    for (change, says) in [("body", "its body"), ("status", "its status"), ("id", "its id")] {
        let mut columns = saga.columns()?;
        match change {
            "body" => columns.body = "{".into(),
            "status" => columns.status = "gone".into(),
            _ => columns.id = "x".into(),
        }
        let error = SagaRecord::read(columns).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(says), "{error}");
    }
    Ok(())
}

#[test]
fn a_diagram_has_every_step_and_the_way_back() {
    let text = booking().build().unwrap().mermaid();
    for part in [
        "start --> s0 --> s1 --> s2 --> s3 --> done",
        "s2{{\"pay<br/>card.charge\"}}",
        "s2 -. fails .-> c1",
        "c1 --> c0 --> back",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let text = group().step(Step::new("\"<x>\"", "h")).build().unwrap().mermaid();
    assert!(text.contains("start --> s2 --> done") && !text.contains("<x>"), "{text}");
    assert!(started(booking()).0.mermaid().contains("hotel.book<br/>running"));
}
