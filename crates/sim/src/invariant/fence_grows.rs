//! I-07: fences grow, per entry, over everything that happens to it.

use super::super::life::What;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for life in &evidence.lives {
        evidence.walk(life, |state, step| {
            let What::Granted { fence, .. } = step.what else { return };
            if fence <= state.fence {
                let (seq, last) = (life.seq, state.fence);
                findings.add("I-07", format!("at {} ms seq {seq} got fence {fence} after {last}", step.at));
            }
        });
    }
}
