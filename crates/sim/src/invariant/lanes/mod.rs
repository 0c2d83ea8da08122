//! The checks of worlds that go by lanes.

mod attempts;
mod mixed;
mod model;
mod order;
mod outcomes;
mod owners;

use std::collections::{BTreeMap, BTreeSet};

use pillarbox_core::{EventId, Status};
use pillarbox_engine::OnDead;

use super::super::history::Happened;
use super::{Check, Evidence};

pub(super) const CHECKS: &[Check] =
    &[owners::check, attempts::check, order::check, outcomes::check, mixed::check];

/// An entry as it entered the outbox.
#[derive(Debug)]
struct Entered<'a> {
    seq: i64,
    key: Option<&'a str>,
    lane: u8,
    staged: usize,
    transaction: usize,
    max_attempts: u32,
}

fn entered(evidence: &Evidence) -> BTreeMap<i64, Entered<'_>> {
    let entered = evidence.records.iter().filter_map(|record| match &record.what {
        Happened::Entered { seq, key, lane, staged, transaction, max_attempts, .. } => {
            let entered = Entered {
                seq: *seq,
                key: key.as_deref(),
                lane: *lane,
                staged: *staged,
                transaction: *transaction,
                max_attempts: *max_attempts,
            };
            Some((*seq, entered))
        }
        _ => None,
    });
    entered.collect()
}

/// Relays that go by rows.
fn by_rows(evidence: &Evidence) -> BTreeSet<&str> {
    let started = evidence.records.iter();
    started
        .filter(|record| matches!(record.what, Happened::Started { by_lanes: false }))
        .map(|record| &*record.who)
        .collect()
}

/// What an inbox on the other side would take: nothing of an owner of a lane after something of a newer one.
/// What relays by rows deliver has no lane. Gives the places in the history of these deliveries.
pub(super) fn accepted(evidence: &Evidence) -> BTreeSet<usize> {
    let by_rows = by_rows(evidence);
    let mut newest: BTreeMap<u8, i64> = BTreeMap::new();
    let mut accepted = BTreeSet::new();
    for (place, record) in evidence.records.iter().enumerate() {
        match record.what {
            Happened::Delivered { lane: Some(lane), fence, .. } => {
                let newest = newest.entry(lane).or_insert(fence);
                if fence >= *newest {
                    *newest = fence;
                    accepted.insert(place);
                }
            }
            Happened::Delivered { lane: None, .. } if by_rows.contains(&*record.who) => {
                accepted.insert(place);
            }
            _ => {}
        }
    }
    accepted
}

/// Entries that wait behind a dead one for an operator.
pub(super) fn blocked(evidence: &Evidence) -> BTreeSet<EventId> {
    if evidence.plan.options.on_dead == OnDead::Skip {
        return BTreeSet::new();
    }
    let entered = entered(evidence);
    let mut dead: BTreeSet<&str> = BTreeSet::new();
    let mut blocked = BTreeSet::new();
    for row in &evidence.rows {
        let Some(key) = entered.get(&row.seq).and_then(|entered| entered.key) else { continue };
        if row.status == Status::Dead {
            dead.insert(key);
        } else if !row.status.is_terminal() && dead.contains(key) {
            blocked.insert(row.id);
        }
    }
    blocked
}
