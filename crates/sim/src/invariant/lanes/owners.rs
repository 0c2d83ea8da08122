//! Who may do what with a lane. I-05: nobody gets a lane that a live session holds. I-06: a verdict is recorded exactly
//! if its session holds the lane. I-07: the fences of a lane grow, and envelopes carry them. A relay publishes only
//! while its session is leased, and one that stops leaves no session behind.

use std::collections::BTreeMap;

use pillarbox_core::Status;

use super::super::super::history::{Happened, Record, Settling};
use super::super::Findings;
use super::model::{Model, walk};
use super::{Evidence, by_rows, entered};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    walk(evidence, |model, record| {
        gains(model, record, findings);
        verdicts(model, record, findings);
        if evidence.plan.is_calm() {
            leaves(model, record, findings);
        }
    });
    envelopes(evidence, findings);
    leases(evidence, findings);
}

fn gains(model: &Model<'_>, record: &Record, findings: &mut Findings) {
    if let Happened::SessionsReaped { now_micros, left } = record.what {
        let alive = model.sessions.len() - model.expired("", now_micros).len();
        if usize::try_from(left).ok() != Some(alive) {
            let (at, who) = (record.at, &record.who);
            findings.add("I-05", format!("at {at} ms {who} left {left} sessions; {alive} were alive"));
        }
    }
    let Happened::Attended { session, now_micros, lost: false, buried, lanes, .. } = &record.what else {
        return;
    };
    let (at, who) = (record.at, &record.who);
    let expired = model.expired(session, *now_micros);
    if usize::try_from(*buried).ok() != Some(expired.len()) {
        findings
            .add("I-05", format!("at {at} ms {who} buried {buried} sessions; {} were dead", expired.len()));
    }
    for (lane, fence) in lanes {
        let own = model.sessions.get(session.as_str()).and_then(|own| own.lanes.get(lane));
        if own == Some(fence) {
            continue;
        }
        let others = model.sessions.iter().filter(|(name, _)| **name != session && !expired.contains(name));
        for (_, other) in others.filter(|(_, other)| other.lanes.contains_key(lane)) {
            findings.add("I-05", format!("at {at} ms {who} got lane {lane}, which {} holds", other.who));
        }
        if let Some(last) = model.fences.get(lane).filter(|last| *last >= fence) {
            findings
                .add("I-07", format!("at {at} ms {who} got lane {lane} under fence {fence} after {last}"));
        }
    }
}

fn verdicts(model: &Model<'_>, record: &Record, findings: &mut Findings) {
    let Happened::LaneSettled { seq, session, fence, attempts, verdict, accepted, .. } = &record.what else {
        return;
    };
    let Some(place) = model.places.get(seq) else { return };
    let holds = model.holds(session, *seq, *fence);
    let waits = place.is_unsettled() && (*verdict != Settling::Retry || place.attempts + 1 == *attempts);
    if *accepted != (holds && waits) {
        let what = if *accepted { "was accepted" } else { "was refused" };
        findings.add(
            "I-06",
            format!(
                "at {} ms {}'s {verdict:?} of seq {seq} under fence {fence} {what}; it holds the lane: {holds}; the \
                 entry is {:?} after {} attempts",
                record.at, record.who, place.status, place.attempts
            ),
        );
    }
}

/// Where every call is answered, a relay that stops ends its session.
fn leaves(model: &Model<'_>, record: &Record, findings: &mut Findings) {
    if let Happened::Stopped { error: None, .. } = record.what
        && model.sessions.values().any(|session| session.who == record.who)
    {
        findings.add("F-02", format!("at {} ms {} stopped and left its lanes leased", record.at, record.who));
    }
}

fn envelopes(evidence: &Evidence, findings: &mut Findings) {
    let (entered, by_rows) = (entered(evidence), by_rows(evidence));
    let mut fences: BTreeMap<(&str, u8), Vec<i64>> = BTreeMap::new();
    for record in &evidence.records {
        match &record.what {
            Happened::Attended { lanes, .. } => {
                for (lane, fence) in lanes {
                    fences.entry((&record.who, *lane)).or_default().push(*fence);
                }
            }
            Happened::Delivered { seq, lane, fence, .. } if !by_rows.contains(&*record.who) => {
                let right = entered.get(seq).map(|entered| entered.lane);
                let own = right.and_then(|lane| fences.get(&(&*record.who, lane)));
                if *lane != right || !own.is_some_and(|own| own.contains(fence)) {
                    findings.add(
                        "I-07",
                        format!(
                            "at {} ms {} published seq {seq} of lane {right:?} as of lane {lane:?} under fence \
                             {fence}",
                            record.at, record.who
                        ),
                    );
                }
            }
            _ => {}
        }
    }
}

/// A relay that runs publishes only under a lease, by the clock that never jumps.
fn leases(evidence: &Evidence, findings: &mut Findings) {
    let lease = evidence.plan.options.lease + evidence.plan.options.lease / 4;
    let lease = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    let by_rows = by_rows(evidence);
    let mut attended: BTreeMap<&str, u64> = BTreeMap::new();
    let mut frozen: BTreeMap<&str, u64> = BTreeMap::new();
    for record in &evidence.records {
        match record.what {
            Happened::Attended { lost: false, .. } => drop(attended.insert(&record.who, record.at)),
            Happened::Frozen { .. } => drop(frozen.insert(&record.who, record.at)),
            Happened::Handed { seq, .. } if !by_rows.contains(&*record.who) => {
                let since = attended.get(&*record.who).copied().unwrap_or(0);
                // A frozen relay cannot stop in time; the fence is there for what it does then.
                let stood_still = frozen.get(&*record.who).is_some_and(|at| *at >= since);
                if record.at > since + lease && !stood_still {
                    let late = record.at - since - lease;
                    findings.add(
                        "lease",
                        format!("at {} ms {} publishes seq {seq} {late} ms late", record.at, record.who),
                    );
                }
            }
            _ => {}
        }
    }
}

/// Whether an entry is at its end.
pub(super) fn is_over(status: Option<Status>) -> bool {
    status.is_none_or(Status::is_terminal)
}
