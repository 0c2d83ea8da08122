//! I-02: whatever was delivered had committed before, and arrived byte for byte.

use std::collections::BTreeSet;

use super::super::history::Happened;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let mut committed = BTreeSet::new();
    for record in &evidence.records {
        match &record.what {
            Happened::Committed { fresh, .. } => committed.extend(fresh.iter().copied()),
            Happened::Delivered { id, intact, .. } => {
                if !committed.contains(id) || !evidence.ledger.contains(id) {
                    findings
                        .add("I-02", format!("at {} ms {id} was delivered and never committed", record.at));
                }
                if !intact {
                    findings
                        .add("I-02", format!("at {} ms {id} was delivered with another payload", record.at));
                }
            }
            _ => {}
        }
    }
}
