//! The checks: each looks at the evidence of one world and says what it finds wrong.
//!
//! The ids are those of the reliability list. Worlds by rows and worlds by lanes share what does not depend on how
//! entries are claimed.

mod attempts;
mod bounded;
mod broken;
mod conservation;
mod deaths;
mod duplicates;
mod fence_grows;
mod fencing;
mod innocents;
mod lanes;
mod no_loss;
mod no_phantom;
mod one_lease;
mod outcomes;
mod publish_under_lease;
pub(crate) mod sagas;
mod stopping;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use pillarbox_core::port::Keep;
use pillarbox_core::{AuditRecord, EventId, SagaId, SagaRecord};

use super::chaos::Calls;
use super::history::{Record, Row};
use super::life::{Life, LifeEvent, State};
use super::plan::Plan;

/// What is left of a world when it is over.
pub(crate) struct Evidence {
    pub(crate) plan: Plan,
    pub(crate) records: Vec<Record>,
    pub(crate) lives: Vec<Life>,
    /// The rows at the end.
    pub(crate) rows: Vec<Row>,
    /// The truth about what committed: written in the same transactions as the events.
    pub(crate) ledger: BTreeSet<EventId>,
    pub(crate) audit: Vec<AuditRecord>,
    /// The sagas at the end.
    pub(crate) sagas: Vec<SagaRecord>,
    /// Those whose callback has left its mark.
    pub(crate) ended: BTreeSet<SagaId>,
    pub(crate) calls: BTreeMap<(Arc<str>, u64), Calls>,
}

impl Evidence {
    fn keeps_delivered(&self) -> bool {
        self.plan.options.keep == Keep::UntilPurged
    }

    fn walk(&self, life: &Life, look: impl FnMut(&State, &LifeEvent)) -> State {
        life.walk(self.keeps_delivered(), look)
    }
}

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule, by its id.
    pub invariant: &'static str,
    /// What was seen.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

/// Takes what a check finds. A rule that is broken everywhere is told a few times only.
#[derive(Default)]
pub(crate) struct Findings(Vec<Violation>);

const FINDINGS_PER_INVARIANT_MAX: usize = 5;

impl Findings {
    pub(crate) fn add(&mut self, invariant: &'static str, detail: impl fmt::Display) {
        let known = self.0.iter().filter(|violation| violation.invariant == invariant).count();
        if known < FINDINGS_PER_INVARIANT_MAX {
            self.0.push(Violation { invariant, detail: detail.to_string() });
        }
    }
}

type Check = fn(&Evidence, &mut Findings);

/// What holds however entries are claimed.
const CHECKS: &[Check] = &[
    broken::check,
    no_loss::check,
    no_phantom::check,
    conservation::check,
    deaths::check,
    bounded::check,
    duplicates::check,
    innocents::check,
];

const ROW_CHECKS: &[Check] = &[
    one_lease::check,
    fencing::check,
    fence_grows::check,
    attempts::check,
    outcomes::check,
    publish_under_lease::check,
    stopping::check,
];

/// Everything that is wrong with a world.
pub(crate) fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut findings = Findings::default();
    if evidence.plan.sagas.is_some() {
        for check in sagas::CHECKS {
            check(evidence, &mut findings);
        }
        return findings.0;
    }
    let by_rows = evidence.plan.lanes.is_none() || evidence.plan.mix.is_some();
    let rows = if by_rows { ROW_CHECKS } else { &[] };
    let lanes = if evidence.plan.lanes.is_some() { lanes::CHECKS } else { &[] };
    for check in CHECKS.iter().chain(rows).chain(lanes) {
        check(evidence, &mut findings);
    }
    findings.0
}
