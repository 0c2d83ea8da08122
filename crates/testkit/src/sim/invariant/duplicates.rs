//! Where nothing goes wrong, nothing is doubled: every entry is delivered once and no verdict comes too late.

use super::super::life::What;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    if !evidence.plan.is_calm() {
        return;
    }
    for life in &evidence.lives {
        let delivered = life.steps.iter().filter(|step| matches!(step.what, What::Delivered)).count();
        if delivered != 1 {
            findings.add(
                "duplicates",
                format!("seq {} was delivered {delivered} times without a fault", life.seq),
            );
        }
        let late = |what: &What| matches!(what, What::Settled { accepted: false, .. });
        if life.steps.iter().any(|step| late(&step.what)) {
            findings
                .add("duplicates", format!("a verdict on seq {} came too late without a fault", life.seq));
        }
    }
}
