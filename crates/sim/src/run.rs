//! Running one world.

use std::collections::BTreeMap;
use std::fmt;

use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::Admin;
use pillarbox_core::{AuditRecord, Error, ErrorKind, Result, SagaId};

use super::fault::Fault;
use super::history::{Happened, History, Row};
use super::invariant::{self, Evidence, Violation};
use super::life::lives;
use super::plan::Plan;
use super::world::{ENDED, LEDGER, World, live};

/// A world that is over.
#[must_use]
pub struct Run {
    /// What it was made of.
    pub plan: Plan,
    /// What happened in it.
    pub history: History,
    /// What must not have happened.
    pub violations: Vec<Violation>,
    /// How often each fault struck.
    pub reached: BTreeMap<Fault, u64>,
    /// Events that committed.
    pub committed: u64,
    /// Deliveries, repetitions included.
    pub deliveries: u64,
    /// Calls to the store.
    pub calls: u64,
}

/// Lives a world to its end and checks it.
///
/// # Errors
/// Only when no runtime can be started.
pub fn run(plan: &Plan) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| Error::new(ErrorKind::Internal, "no runtime").with_source(error))?;
    let (world, audit) = runtime.block_on(async {
        let world = live(plan).await;
        // Of sagas every end is recorded: there may be more records than are ever listed.
        let audit = world.store.audit(LIST_MAX * 10).await.unwrap_or_default();
        (world, audit)
    });
    Ok(judge(&world, audit))
}

fn judge(world: &World, audit: Vec<AuditRecord>) -> Run {
    let records = world.chaos.history().records();
    let accepted = world.store.accepted().into_iter();
    let ended = world.store.accepted().into_iter().filter(|(consumer, _)| consumer == ENDED);
    let evidence = Evidence {
        plan: world.plan.clone(),
        lives: lives(&records),
        rows: world.store.entries().iter().map(Row::from).collect(),
        ledger: accepted.filter(|(consumer, _)| consumer == LEDGER).map(|(_, id)| id).collect(),
        audit,
        sagas: world.store.saga_records(),
        ended: ended.map(|(_, id)| SagaId(id.0)).collect(),
        calls: world.chaos.calls(),
        records,
    };
    let delivered = |what: &Happened| matches!(what, Happened::Delivered { .. });
    Run {
        violations: invariant::check(&evidence),
        plan: world.plan.clone(),
        history: world.chaos.history().clone(),
        reached: world.chaos.reached(),
        committed: evidence.ledger.len() as u64,
        deliveries: evidence.records.iter().filter(|record| delivered(&record.what)).count() as u64,
        calls: evidence.calls.values().map(|calls| calls.all + calls.useful).sum(),
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.plan)?;
        write!(f, "{} committed, {} deliveries, {} calls", self.committed, self.deliveries, self.calls)?;
        for violation in &self.violations {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}
