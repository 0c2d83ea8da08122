//! I-05: by the database's clock, nobody is granted an entry that somebody else still holds, and no reap takes it away.

use pillarbox_core::Status;

use super::super::life::What;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for life in &evidence.lives {
        evidence.walk(life, |state, step| {
            if let What::Reaped { .. } = step.what
                && state.lease_left(step.db) > 0
            {
                let (at, seq, left) = (step.at, life.seq, state.lease_left(step.db));
                findings.add(
                    "I-05",
                    format!("at {at} ms seq {seq} was reaped while fence {} holds it for {left} ms more", state.fence),
                );
            }
            let What::Granted { fence, .. } = step.what else { return };
            if state.status == Some(Status::InFlight) && step.db < state.until {
                findings.add(
                    "I-05",
                    format!(
                        "at {} ms seq {} was granted under fence {fence} while fence {} holds it for {} ms more",
                        step.at,
                        life.seq,
                        state.fence,
                        state.until - step.db
                    ),
                );
            }
            if state.status.is_none_or(Status::is_terminal) {
                findings.add(
                    "I-05",
                    format!("at {} ms seq {} was granted though it was at its end", step.at, life.seq),
                );
            }
        });
    }
}
