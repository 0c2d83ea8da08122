//! The outcome table by lanes: nothing is recorded as delivered that no sink confirmed, or as rejected that none rejected.

use std::collections::BTreeSet;

use pillarbox_core::FailureKind;

use super::super::super::history::{Answer, Happened, Settling};
use super::super::Findings;
use super::Evidence;

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let mut confirmed: BTreeSet<(i64, i64)> = BTreeSet::new();
    let mut rejected: BTreeSet<(i64, i64)> = BTreeSet::new();
    for record in &evidence.records {
        match record.what {
            Happened::Reported { seq, fence, outcome: Answer::Confirmed } => {
                confirmed.insert((seq, fence));
            }
            Happened::Reported { seq, fence, outcome: Answer::Rejected } => {
                rejected.insert((seq, fence));
            }
            Happened::LaneSettled { seq, fence, verdict, .. } => {
                let said = match verdict {
                    Settling::Delivered => confirmed.contains(&(seq, fence)),
                    Settling::Dead(FailureKind::Rejected) => rejected.contains(&(seq, fence)),
                    _ => true,
                };
                if !said {
                    let (at, who) = (record.at, &record.who);
                    findings.add(
                        "outcomes",
                        format!("at {at} ms {who} settles seq {seq} as {verdict:?} and no sink said so"),
                    );
                }
            }
            _ => {}
        }
    }
}
