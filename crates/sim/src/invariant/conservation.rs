//! I-12: at every sampled moment, what was staged is what is there plus what was purged; and I-10: every death,
//! requeue, discard and purge has its audit record.

use std::collections::BTreeMap;

use pillarbox_core::{AuditKind, Status};

use super::super::history::{Happened, Settling};
use super::super::life::What;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    counts(evidence, findings);
    rows(evidence, findings);
    audits(evidence, findings);
}

fn counts(evidence: &Evidence, findings: &mut Findings) {
    let (mut staged, mut gone) = (0_usize, 0_usize);
    for record in &evidence.records {
        match &record.what {
            Happened::Committed { fresh, .. } => staged += fresh.len(),
            Happened::Purged { .. } => gone += 1,
            Happened::Settled { verdict: Settling::Delivered, accepted: true, .. }
            | Happened::LaneSettled { verdict: Settling::Delivered, accepted: true, .. } => {
                gone += usize::from(!evidence.keeps_delivered());
            }
            Happened::Sampled { rows } if rows.len() + gone != staged => {
                let there = rows.len();
                findings.add(
                    "I-12",
                    format!("at {} ms {staged} were staged, {there} are there, {gone} are gone", record.at),
                );
            }
            _ => {}
        }
    }
}

/// An entry is there exactly as long as it should be.
fn rows(evidence: &Evidence, findings: &mut Findings) {
    for life in &evidence.lives {
        evidence.walk(life, |state, step| {
            let What::Seen(row) = step.what else { return };
            if row.is_some() != state.status.is_some() {
                findings.add(
                    "I-12",
                    format!("at {} ms seq {} is {row:?} and must be {:?}", step.at, life.seq, state.status),
                );
            }
        });
    }
}

fn audits(evidence: &Evidence, findings: &mut Findings) {
    let mut happened: BTreeMap<AuditKindKey, u64> = BTreeMap::new();
    for step in evidence.lives.iter().flat_map(|life| &life.steps) {
        let kind = match step.what {
            What::Settled { verdict: Settling::Dead(_), accepted: true, .. }
            | What::LaneSettled { verdict: Settling::Dead(_), accepted: true, .. }
            | What::TakenOver { to: Status::Dead, .. }
            | What::Reaped { to: Some(Status::Dead) } => AuditKind::Dead,
            What::Requeued => AuditKind::Requeued,
            What::Discarded => AuditKind::Discarded,
            What::Purged => AuditKind::Purged,
            _ => continue,
        };
        *happened.entry(kind.as_str()).or_default() += 1;
    }
    let mut audited: BTreeMap<AuditKindKey, u64> = BTreeMap::new();
    for record in &evidence.audit {
        // A purge is audited once with its count.
        let purged = record.detail.split_whitespace().next().and_then(|count| count.parse().ok());
        let count = if record.kind == AuditKind::Purged { purged.unwrap_or(0) } else { 1 };
        *audited.entry(record.kind.as_str()).or_default() += count;
    }
    if happened != audited {
        findings.add("I-10", format!("happened: {happened:?}, audited: {audited:?}"));
    }
}

type AuditKindKey = &'static str;
