//! I-04: for one key, A's first delivery precedes B's if A's transaction committed before B was staged, or if one
//! transaction staged A before B. What an inbox refuses because its lane has a newer owner does not count. An entry that
//! died is waited for until it is requeued or discarded, or not at all, as the route says. Relays by rows keep no order;
//! those by lanes keep it beside them and after them.

use std::collections::BTreeMap;

use pillarbox_core::Status;
use pillarbox_engine::OnDead;

use super::super::super::history::{Happened, Settling};
use super::super::Findings;
use super::{Entered, Evidence, accepted, entered};

/// The places in the history of what matters for the order of an entry.
#[derive(Default)]
struct Times {
    delivered: Option<usize>,
    /// Whether the first delivery was by rows.
    by_rows: bool,
    /// When it was over without a delivery, as far as the route goes on then.
    given_up: Option<usize>,
}

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let entered = entered(evidence);
    let times = times(evidence);
    let mut keys: BTreeMap<&str, Vec<&Entered<'_>>> = BTreeMap::new();
    for entry in entered.values() {
        if let Some(key) = entry.key {
            keys.entry(key).or_default().push(entry);
        }
    }
    for (key, entries) in keys {
        for later in &entries {
            let first = times.get(&later.seq).filter(|times| !times.by_rows);
            let Some(delivered) = first.and_then(|times| times.delivered) else { continue };
            for earlier in entries.iter().filter(|earlier| precedes(earlier, later)) {
                let before = |place: Option<usize>| place.is_some_and(|place| place < delivered);
                let kept = times
                    .get(&earlier.seq)
                    .is_some_and(|times| before(times.delivered) || before(times.given_up));
                if !kept {
                    let at = evidence.records.get(delivered).map_or(0, |record| record.at);
                    findings.add(
                        "I-04",
                        format!(
                            "at {at} ms seq {} of {key} was delivered before seq {}, which was there first",
                            later.seq, earlier.seq
                        ),
                    );
                }
            }
        }
    }
}

fn precedes(earlier: &Entered<'_>, later: &Entered<'_>) -> bool {
    let together = earlier.transaction == later.transaction && earlier.seq < later.seq;
    together || earlier.transaction <= later.staged
}

fn times(evidence: &Evidence) -> BTreeMap<i64, Times> {
    let skips = evidence.plan.options.on_dead == OnDead::Skip;
    let accepted = accepted(evidence);
    let mut times: BTreeMap<i64, Times> = BTreeMap::new();
    for (place, record) in evidence.records.iter().enumerate() {
        match record.what {
            Happened::Delivered { seq, lane, .. } if accepted.contains(&place) => {
                let times = times.entry(seq).or_default();
                if times.delivered.is_none() {
                    (times.delivered, times.by_rows) = (Some(place), lane.is_none());
                }
            }
            Happened::Discarded { seq } => {
                times.entry(seq).or_default().given_up.get_or_insert(place);
            }
            Happened::LaneSettled { seq, verdict: Settling::Dead(_), accepted: true, .. }
            | Happened::Settled { seq, verdict: Settling::Dead(_), accepted: true, .. }
            | Happened::TakenOver { seq, to: Status::Dead, .. }
            | Happened::Reaped { seq, to: Some(Status::Dead) }
                if skips =>
            {
                times.entry(seq).or_default().given_up.get_or_insert(place);
            }
            _ => {}
        }
    }
    times
}
