//! Recording what came of claimed entries.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use pillarbox_core::port::{Keep, SettleRequest, Settled, Settlement, Verdict};
use pillarbox_core::{Fence, Held, Result};
use sqlx::MySqlConnection;

use crate::bind::Bind;
use crate::call::{Traffic, UnitOfWork};
use crate::claim::still_held;
use crate::sql::Statements;
use crate::store::MySqlStore;

impl MySqlStore {
    pub(crate) async fn settle_batch(&self, request: SettleRequest) -> Result<Settled> {
        if request.settlements.is_empty() {
            return Ok(Settled::default());
        }
        let mut seen = HashSet::with_capacity(request.settlements.len());
        // The same claim twice: the first verdict counts, the second finds the entry settled.
        let (first, repeated): (Vec<&Settlement>, Vec<&Settlement>) =
            request.settlements.iter().partition(|settlement| seen.insert(settlement.held));
        let batch = Settle { statements: &self.statements, request: &request, settlements: first };
        let is_plain = batch.settlements.iter().all(|settlement| settlement.verdict == Verdict::Delivered);
        let mut fenced: Vec<Held> = repeated.into_iter().map(|settlement| settlement.held).collect();
        let accepted = if is_plain && self.together(Traffic::Reserved, &DeliverAll(&batch)).await? {
            batch.settlements.len()
        } else {
            let settled = self.together(Traffic::Reserved, &batch).await?;
            let held = batch.settlements.iter().map(|settlement| settlement.held);
            fenced.extend(held.filter(|held| !settled.contains_key(held)));
            settled.len()
        };
        Ok(Settled { accepted: accepted as u64, fenced })
    }
}

/// A batch of verdicts, one for each claim.
struct Settle<'a> {
    statements: &'a Statements,
    request: &'a SettleRequest,
    settlements: Vec<&'a Settlement>,
}

impl Settle<'_> {
    async fn deliver(
        &self,
        held: impl Iterator<Item = Held> + Send,
        tx: &mut MySqlConnection,
    ) -> Result<u64> {
        let statement = match self.request.keep {
            Keep::UntilPurged => &self.statements.settle_delivered,
            Keep::No => &self.statements.settle_deleted,
        };
        // The entries of one claim have one fence, nearly always.
        let mut claims: BTreeMap<Fence, Vec<i64>> = BTreeMap::new();
        held.for_each(|held| claims.entry(held.fence).or_default().push(held.seq));
        let mut changed = 0;
        for (fence, seqs) in claims {
            let bind = Bind::new().at(self.request.now).number(fence.0);
            changed += statement.execute(&bind, seqs, tx).await?;
        }
        Ok(changed)
    }
}

/// Settles a batch of deliveries if none of them is fenced, as is nearly always so; `false`: nothing happened.
///
/// Counting the changed rows needs no look at each of them.
struct DeliverAll<'a>(&'a Settle<'a>);

#[async_trait]
impl UnitOfWork for DeliverAll<'_> {
    type Outcome = bool;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<bool> {
        let Self(batch) = self;
        let held = batch.settlements.iter().map(|settlement| settlement.held);
        Ok(batch.deliver(held, tx).await? == batch.settlements.len() as u64)
    }

    fn stands(&self, all: &bool) -> bool {
        *all
    }
}

#[async_trait]
impl UnitOfWork for Settle<'_> {
    /// The claims that were still held.
    type Outcome = BTreeMap<Held, ()>;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<BTreeMap<Held, ()>> {
        let (now, statements) = (self.request.now, self.statements);
        let all = self.settlements.iter().map(|settlement| settlement.held);
        let settled = still_held(statements, all, tx).await?;
        let counts = self.settlements.iter().filter(|settlement| settled.contains_key(&settlement.held));
        let (delivered, changed): (Vec<&Settlement>, Vec<&Settlement>) =
            counts.partition(|settlement| settlement.verdict == Verdict::Delivered);
        if !changed.is_empty() {
            let rows: Vec<_> = changed.iter().map(|settlement| settlement.row()).collect();
            if changed.iter().any(|settlement| matches!(settlement.verdict, Verdict::Dead { .. })) {
                // The audit row comes before the status that it explains.
                let audit = Bind::new().at(now).text(&self.request.owner).json(&rows);
                statements.settle_dead.with(audit)?.execute(tx).await?;
            }
            statements.settle_mixed.with(Bind::new().at(now).json(&rows))?.execute(tx).await?;
            // Should the route be read by lanes: these entries were not theirs until now.
            let seqs: Vec<i64> = changed.iter().map(|settlement| settlement.held.seq).collect();
            statements.lanes_revise.with(Bind::new().json(&seqs))?.execute(tx).await?;
        }
        if !delivered.is_empty() {
            self.deliver(delivered.iter().map(|settlement| settlement.held), tx).await?;
        }
        Ok(settled)
    }
}
