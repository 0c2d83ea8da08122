//! A relay that runs publishes only under a lease: it stops before the end, by the clock that never jumps.

use std::collections::BTreeMap;

use super::super::history::Happened;
use super::super::life::What;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let lease = u64::try_from(evidence.plan.options.lease.as_millis()).unwrap_or(u64::MAX);
    let frozen: Vec<(&str, u64)> = evidence
        .records
        .iter()
        .filter(|record| matches!(record.what, Happened::Frozen { .. }))
        .map(|record| (&*record.who, record.at))
        .collect();
    for life in &evidence.lives {
        // A claim by rows and a lane may have the same number: both begin with the clock.
        let mut leased_at: BTreeMap<(&str, i64), u64> = BTreeMap::new();
        for step in &life.steps {
            match step.what {
                What::Granted { fence, .. } | What::Extended { fence, accepted: true, .. } => {
                    leased_at.insert((&*step.who, fence), step.at);
                }
                What::Handed { fence } => {
                    let Some(since) = leased_at.get(&(&*step.who, fence)).copied() else { continue };
                    // A frozen relay cannot stop in time; the fence is there for what it does then.
                    let stood_still =
                        frozen.iter().any(|(who, at)| *who == &*step.who && *at >= since && *at <= step.at);
                    if step.at > since + lease && !stood_still {
                        findings.add(
                            "lease",
                            format!(
                                "at {} ms {} publishes seq {} {} ms after its lease ended",
                                step.at,
                                step.who,
                                life.seq,
                                step.at - since - lease
                            ),
                        );
                    }
                }
                _ => {}
            }
        }
    }
}
