//! I-01: every event that committed was delivered, or is visibly dead or discarded.

use std::collections::BTreeSet;

use pillarbox_core::{EventId, Status};

use super::super::history::Happened;
use super::super::life::What;
use super::{Evidence, Findings, lanes};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let quiet = evidence.records.iter().any(|record| matches!(record.what, Happened::Quiet { undrained: 0 }));
    if !quiet {
        // Liveness failed; what is still under way is not lost yet.
        return;
    }
    let by_lanes = evidence.plan.lanes.map(|_| lanes::accepted(evidence));
    let delivered: BTreeSet<EventId> = evidence
        .records
        .iter()
        .enumerate()
        .filter(|(place, _)| by_lanes.as_ref().is_none_or(|accepted| accepted.contains(place)))
        .filter_map(|(_, record)| match record.what {
            Happened::Delivered { id, .. } => Some(id),
            _ => None,
        })
        .collect();
    let blocked = evidence.plan.lanes.map_or_else(BTreeSet::new, |_| lanes::blocked(evidence));
    let visible: BTreeSet<EventId> = evidence
        .rows
        .iter()
        .filter(|row| matches!(row.status, Status::Dead | Status::Discarded))
        .map(|row| row.id)
        .collect();
    // Discarded by an operator, audited, and purged when its time came.
    let given_up: BTreeSet<EventId> = evidence
        .lives
        .iter()
        .filter(|life| life.steps.iter().any(|step| matches!(step.what, What::Discarded)))
        .filter_map(|life| life.id)
        .collect();
    for id in &evidence.ledger {
        let over = delivered.contains(id) || visible.contains(id) || given_up.contains(id);
        if !over && !blocked.contains(id) {
            findings.add("I-01", format!("{id} committed and was neither delivered nor is it dead"));
        }
    }
}
