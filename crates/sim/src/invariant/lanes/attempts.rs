//! I-08 by lanes: an attempt is counted with its verdict, or when the session that may have made it is buried; nothing is
//! handed out beyond what is allowed; an entry is dead exactly when its attempts are spent or it was refused for good.

use pillarbox_core::{FailureKind, Status, attempts_counted};

use super::super::super::history::{Happened, Record, Row, Settling};
use super::super::Findings;
use super::Evidence;
use super::model::{EntryState, Model, walk};
use super::owners::is_over;

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    walk(evidence, |model, record| {
        let told = |seq: i64, wrong: String| format!("at {} ms seq {seq}: {wrong}", record.at);
        match &record.what {
            Happened::LaneSettled { seq, attempts, verdict, accepted: true, .. } => {
                if let Some(wrong) =
                    model.places.get(seq).and_then(|place| wrong_verdict(place, *attempts, *verdict))
                {
                    findings.add("I-08", told(*seq, wrong));
                }
            }
            Happened::TakenOver { seq, attempts, to } => {
                if let Some(wrong) =
                    model.places.get(seq).and_then(|place| wrong_take_over(place, *attempts, *to))
                {
                    findings.add("I-08", told(*seq, wrong));
                }
            }
            Happened::Handed { seq, attempts, .. } => {
                let place = model.places.get(seq);
                let max = place.map_or(u32::MAX, |place| place.entered.max_attempts);
                if attempts_counted(*attempts, place.map_or(0, |place| place.crashes)) > max {
                    findings.add("I-08", told(*seq, format!("handed out as attempt {attempts} of {max}")));
                }
            }
            Happened::Attended { session, now_micros, lost: false, .. } => {
                for dead in model.expired(session, *now_micros) {
                    uncounted(model, dead, *now_micros, record, findings);
                }
            }
            Happened::SessionsReaped { now_micros, .. } => {
                for dead in model.expired("", *now_micros) {
                    uncounted(model, dead, *now_micros, record, findings);
                }
            }
            Happened::Sampled { rows } => seen(model, rows, record, findings),
            _ => {}
        }
    });
}

fn wrong_verdict(place: &EntryState<'_>, attempts: u32, verdict: Settling) -> Option<String> {
    let max = place.entered.max_attempts;
    let spent = attempts_counted(attempts.max(place.attempts), place.crashes) >= max;
    match verdict {
        // A verdict whose answer was lost is sent again, and an operator may have requeued the dead entry meanwhile.
        _ if attempts > place.attempts + 1 && place.handed.is_some() => {
            Some(format!("attempt {attempts} after {}", place.attempts))
        }
        Settling::Dead(kind) => {
            let for_good = matches!(
                kind,
                FailureKind::Rejected | FailureKind::Undecodable | FailureKind::UnknownHandler
            );
            (!for_good && !spent).then(|| format!("dead of {kind:?} at attempt {attempts} of {max}"))
        }
        Settling::Retry if spent => Some(format!("to be retried after attempt {attempts} of {max}")),
        Settling::Release => Some("a release was sent to the store".into()),
        _ => None,
    }
}

fn wrong_take_over(place: &EntryState<'_>, attempts: u32, to: Status) -> Option<String> {
    if attempts != place.attempts + 1 {
        return Some(format!("{attempts} attempts after a burial, {} before", place.attempts));
    }
    let spent = attempts_counted(attempts, place.crashes + 1) >= place.entered.max_attempts;
    let right = if spent { Status::Dead } else { Status::Retrying };
    (to != right).then(|| format!("taken over to {to} instead of {right}"))
}

/// What a buried session had handed to its sink has spent that attempt: else an entry that kills whoever delivers it
/// would do so for ever.
fn uncounted(model: &Model<'_>, dead: &str, now: i64, record: &Record, findings: &mut Findings) {
    let Some(session) = model.sessions.get(dead) else { return };
    for place in model.places.values().filter(|place| !is_over(place.status)) {
        let fence = session.lanes.get(&place.entered.lane);
        let Some((_, attempt)) = place.handed.filter(|(under, _)| Some(under) == fence) else { continue };
        // Behind one that is dead or waits for its time by the database's clock, a store takes it for not handed out.
        let held_back = |other: &EntryState<'_>| {
            let waits = other.is_unsettled() && !other.is_due(now);
            other.entered.seq <= place.entered.seq
                && (other.entered.seq == place.entered.seq || other.entered.key.is_some())
                && (other.entered.seq == place.entered.seq || other.entered.key == place.entered.key)
                && (waits || other.status == Some(Status::Dead))
        };
        if place.attempts < attempt && !model.places.values().any(held_back) {
            findings.add(
                "I-08",
                format!(
                    "at {} ms seq {} was in flight of {} when that was buried, and attempt {attempt} is not counted",
                    record.at, place.entered.seq, session.who
                ),
            );
        }
    }
}

fn seen(model: &Model<'_>, rows: &[Row], record: &Record, findings: &mut Findings) {
    for row in rows {
        let Some(place) = model.places.get(&row.seq) else { continue };
        if Some(row.status) != place.status || row.attempts != place.attempts {
            findings.add(
                "I-08",
                format!(
                    "at {} ms seq {} is {} after {} attempts, and must be {:?} after {}",
                    record.at, row.seq, row.status, row.attempts, place.status, place.attempts
                ),
            );
        }
    }
}
