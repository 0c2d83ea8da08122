//! I-06: a stale fence changes nothing and is told so; a fence that stands is never refused; and whatever the store
//! holds at any sampled moment was written by the highest fence.

use pillarbox_core::Status;

use super::super::life::{LifeEvent, State, What};
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for life in &evidence.lives {
        evidence.walk(life, |state, step| {
            let (doing, fence, accepted) = match step.what {
                What::Settled { fence, accepted, .. } => ("settle", fence, accepted),
                What::Extended { fence, accepted, .. } => ("extend", fence, accepted),
                What::Seen(Some(row)) => {
                    if row.fence != state.fence || Some(row.status) != state.status {
                        findings.add("I-06", seen(life.seq, state, step, row.fence, row.status));
                    }
                    return;
                }
                _ => return,
            };
            let stands = state.is_held_by(fence);
            if stands != accepted {
                let (what, how) = if accepted { ("a stale", "was accepted") } else { ("the current", "was refused") };
                findings.add(
                    "I-06",
                    format!(
                        "at {} ms {}'s {doing} of seq {} with {what} fence {fence} {how}; the fence is {}, the status {:?}",
                        step.at, step.who, life.seq, state.fence, state.status
                    ),
                );
            }
        });
    }
}

fn seen(seq: i64, state: &State, step: &LifeEvent, fence: i64, status: Status) -> String {
    format!(
        "at {} ms seq {seq} is {status} under fence {fence}, and must be {:?} under fence {}",
        step.at, state.status, state.fence
    )
}
