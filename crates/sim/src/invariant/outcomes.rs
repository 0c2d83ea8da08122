//! The outcome table: what a relay records of an entry is what the sink said of it first.

use std::collections::BTreeMap;

use pillarbox_core::FailureKind;

use super::super::history::{Answer, Settling};
use super::super::life::What;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for life in &evidence.lives {
        let mut reported: BTreeMap<i64, Answer> = BTreeMap::new();
        for step in &life.steps {
            match step.what {
                What::Reported { fence, outcome } => {
                    reported.entry(fence).or_insert(outcome);
                }
                What::Settled { fence, verdict, .. } if !fits(reported.get(&fence).copied(), verdict) => {
                    findings.add(
                        "outcomes",
                        format!(
                            "at {} ms {} settles seq {} as {verdict:?} after {:?}",
                            step.at,
                            step.who,
                            life.seq,
                            reported.get(&fence)
                        ),
                    );
                }
                _ => {}
            }
        }
    }
}

fn fits(reported: Option<Answer>, verdict: Settling) -> bool {
    match (reported, verdict) {
        (Some(Answer::Confirmed), verdict) => verdict == Settling::Delivered,
        (Some(Answer::Rejected), verdict) => verdict == Settling::Dead(FailureKind::Rejected),
        (Some(Answer::Down | Answer::Untried), verdict) => verdict == Settling::Release,
        (Some(Answer::Failed | Answer::Unknown), Settling::Retry) => true,
        (Some(Answer::Failed), Settling::Dead(kind)) => kind == FailureKind::Failed,
        (Some(Answer::Unknown), Settling::Dead(kind)) => kind == FailureKind::Unknown,
        (Some(_), _) => false,
        // Nothing was said: anything but a confirmation.
        (None, verdict) => verdict != Settling::Delivered,
    }
}
