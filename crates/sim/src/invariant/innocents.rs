//! A crash accuses, it does not convict: where relays are killed and nothing else is held against an entry, only those die
//! that kill who delivers them.

use pillarbox_core::{EventId, Status};

use super::super::fault::Fault;
use super::super::history::{Happened, Settling};
use super::super::rng::Rng;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    if !evidence.plan.kills {
        return;
    }
    for life in &evidence.lives {
        let Some(id) = life.id.filter(|id| !is_poisoned(evidence, *id)) else { continue };
        for record in &evidence.records {
            let dies = match record.what {
                Happened::Settled { seq, verdict: Settling::Dead(_), accepted: true, .. }
                | Happened::LaneSettled { seq, verdict: Settling::Dead(_), accepted: true, .. }
                | Happened::TakenOver { seq, to: Status::Dead, .. }
                | Happened::Reaped { seq, to: Some(Status::Dead) } => seq == life.seq,
                _ => false,
            };
            if dies {
                findings.add("innocents", format!("at {} ms {id} died and had done nothing", record.at));
            }
        }
    }
}

/// Whether this entry kills whoever delivers it: drawn from the seed and its id, as the sink draws it.
fn is_poisoned(evidence: &Evidence, id: EventId) -> bool {
    let permille = evidence.plan.faults.get(&Fault::PoisonedEntry).copied().unwrap_or(0);
    Rng::new(evidence.plan.seed).fork("poison").fork(&id.to_string()).permille(permille)
}
