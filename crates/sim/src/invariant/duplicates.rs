//! Where nothing goes wrong, nothing is doubled: every entry is delivered once and no verdict comes too late.

use super::super::history::Happened;
use super::super::life::What;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    if !evidence.plan.is_calm() {
        return;
    }
    let told: u64 = evidence
        .records
        .iter()
        .map(|record| match record.what {
            Happened::Stopped { delivered, .. } => delivered,
            _ => 0,
        })
        .sum();
    if told != evidence.lives.len() as u64 {
        findings.add("duplicates", format!("the relays say {told} delivered of {}", evidence.lives.len()));
    }
    for life in &evidence.lives {
        let delivered = life.steps.iter().filter(|step| matches!(step.what, What::Delivered)).count();
        if delivered != 1 {
            findings.add(
                "duplicates",
                format!("seq {} was delivered {delivered} times without a fault", life.seq),
            );
        }
        let late = |what: &What| {
            matches!(what, What::Settled { accepted: false, .. } | What::LaneSettled { accepted: false, .. })
        };
        if life.steps.iter().any(|step| late(&step.what)) {
            findings
                .add("duplicates", format!("a verdict on seq {} came too late without a fault", life.seq));
        }
    }
}
