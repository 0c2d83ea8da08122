//! What the actors saw on the spot: I-13 (liveness after the faults), I-14, a relay that panics, spins or does not
//! stop, stamps that do not grow.

use super::super::history::Happened;
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for record in &evidence.records {
        if let Happened::Broken { invariant, detail } = &record.what {
            findings.add(invariant, format!("at {} ms: {detail}", record.at));
        }
    }
}
