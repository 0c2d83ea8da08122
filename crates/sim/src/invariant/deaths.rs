//! The death hook: nobody is told of a death that is not durable, or twice of one. A death whose settle was answered is
//! told.

use std::collections::BTreeMap;

use pillarbox_core::{EventId, Status};

use super::super::history::{Happened, Settling};
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let ids: BTreeMap<i64, EventId> =
        evidence.lives.iter().filter_map(|life| life.id.map(|id| (life.seq, id))).collect();
    let mut deaths: BTreeMap<EventId, i64> = BTreeMap::new();
    for record in &evidence.records {
        match record.what {
            Happened::Settled { seq, verdict: Settling::Dead(_), accepted: true, .. }
            | Happened::LaneSettled { seq, verdict: Settling::Dead(_), accepted: true, .. }
            | Happened::TakenOver { seq, to: Status::Dead, .. }
            | Happened::Reaped { seq, to: Some(Status::Dead) } => {
                if let Some(id) = ids.get(&seq) {
                    *deaths.entry(*id).or_default() += 1;
                }
            }
            Happened::DeathTold { id } => {
                let left = deaths.entry(id).or_default();
                *left -= 1;
                if *left < 0 {
                    findings.add(
                        "deaths",
                        format!(
                            "at {} ms {} was told of a death of {id} that is none",
                            record.at, record.who
                        ),
                    );
                }
            }
            _ => {}
        }
    }
    if evidence.plan.is_calm() && deaths.values().any(|untold| *untold > 0) {
        findings.add("deaths", "a death was not told though every answer arrived");
    }
}
