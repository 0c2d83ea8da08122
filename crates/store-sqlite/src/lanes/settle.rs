//! Recording what came of entries that a lane handed out.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use pillarbox_core::port::{Keep, LaneSettleRequest, LaneSettlement, Settled, Verdict};
use pillarbox_core::{Error, Fence, Held, Result, Timestamp};
use sqlx::SqliteConnection;

use crate::call::UnitOfWork;
use crate::claim::{held_of, seqs_json};
use crate::error::classify;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;

pub(super) async fn settle(store: &SqliteStore, request: LaneSettleRequest) -> Result<Settled> {
    if request.settlements.is_empty() {
        return Ok(Settled::default());
    }
    // The same row twice: the first verdict counts.
    let mut seen = HashSet::with_capacity(request.settlements.len());
    let first: Vec<&LaneSettlement> =
        request.settlements.iter().filter(|settlement| seen.insert(settlement.held)).collect();
    let batch = LaneSettleBatch { statements: &store.statements, request: &request, settlements: first };
    let mut settled = if batch.any(|verdict| matches!(verdict, Verdict::Dead { .. })) {
        // A death that was reported must not be undone by a power cut.
        store.writer.durably(&batch).await?
    } else if !batch.any(|verdict| *verdict != Verdict::release(None)) {
        // Nothing was written when it was handed out, so there is nothing to take back.
        batch.settleable(&mut *store.reader().await?).await?
    } else if batch.is_plain() && store.writer.together(DeliverAll(&batch)).await? {
        batch.settlements.iter().map(|settlement| settlement.held).collect()
    } else {
        store.writer.together(&batch).await?
    };
    let accepted = settled.len() as u64;
    let held = request.settlements.iter().map(|settlement| settlement.held);
    Ok(Settled { accepted, fenced: held.filter(|held| !settled.remove(held)).collect() })
}

/// A batch of verdicts, one for each claim.
struct LaneSettleBatch<'a> {
    statements: &'a Statements,
    request: &'a LaneSettleRequest,
    settlements: Vec<&'a LaneSettlement>,
}

impl LaneSettleBatch<'_> {
    fn any(&self, matches: impl Fn(&Verdict) -> bool) -> bool {
        self.settlements.iter().any(|settlement| matches(&settlement.verdict))
    }

    fn now(&self) -> Option<i64> {
        self.request.now.map(Timestamp::as_micros)
    }

    /// Whether these are deliveries and nothing else.
    fn is_plain(&self) -> bool {
        !self.any(|verdict| *verdict != Verdict::Delivered)
    }

    /// Records deliveries; one statement for all that have the same fence and attempts, so that these need not be
    /// looked up for each of them. Lanes that were taken together have one fence.
    async fn deliver<'s>(
        &self,
        delivered: impl Iterator<Item = &'s LaneSettlement>,
        tx: &mut SqliteConnection,
    ) -> Result<u64> {
        let mut alike: BTreeMap<(Fence, u32), Vec<i64>> = BTreeMap::new();
        for settlement in delivered {
            let seqs = alike.entry((settlement.held.fence, settlement.attempts)).or_default();
            seqs.push(settlement.held.seq);
        }
        let statement = match self.request.keep {
            Keep::UntilPurged => &self.statements.lanes_settle_delivered,
            Keep::No => &self.statements.lanes_settle_deleted,
        };
        let mut changed = 0;
        for ((fence, attempts), seqs) in alike {
            let mut write = query(statement)
                .bind(self.now())
                .bind(seqs_json(&seqs)?)
                .bind(self.request.route.to_string())
                .bind(self.request.session.to_string())
                .bind(fence.0);
            if self.request.keep == Keep::UntilPurged {
                write = write.bind(attempts);
            }
            changed += write.execute(&mut *tx).await.map_err(classify)?.rows_affected();
        }
        Ok(changed)
    }

    /// The verdicts that count.
    async fn settleable(&self, connection: &mut SqliteConnection) -> Result<HashSet<Held>> {
        let rows: Vec<_> = self
            .settlements
            .iter()
            .map(|settlement| {
                let is_retry = matches!(settlement.verdict, Verdict::Retry { .. });
                (settlement.held.seq, settlement.held.fence, is_retry.then_some(settlement.attempts))
            })
            .collect();
        let rows = query(&self.statements.lanes_settleable)
            .bind(self.request.route.to_string())
            .bind(self.request.session.to_string())
            .bind(serde_json::to_string(&rows).map_err(|_| unwritable())?)
            .fetch_all(connection)
            .await
            .map_err(classify)?;
        held_of(&rows)
    }
}

/// Settles a batch of deliveries if none of them is fenced, as is nearly always so; `false`: nothing happened.
///
/// Counting the changed rows is cheaper than looking at each of them first.
struct DeliverAll<'a>(&'a LaneSettleBatch<'a>);

#[async_trait]
impl UnitOfWork for DeliverAll<'_> {
    type Outcome = bool;

    async fn run(self, tx: &mut SqliteConnection) -> Result<bool> {
        let all = &self.0.settlements;
        Ok(self.0.deliver(all.iter().copied(), tx).await? == all.len() as u64)
    }

    fn stands(all: &bool) -> bool {
        *all
    }
}

#[async_trait]
impl UnitOfWork for &LaneSettleBatch<'_> {
    /// The claims that were still held.
    type Outcome = HashSet<Held>;

    async fn run(self, tx: &mut SqliteConnection) -> Result<HashSet<Held>> {
        let settled = self.settleable(&mut *tx).await?;
        let counts = |settlement: &&LaneSettlement| settled.contains(&settlement.held);
        let counting: Vec<&LaneSettlement> = self.settlements.iter().copied().filter(counts).collect();
        let failed: Vec<_> = counting.iter().filter_map(|settlement| settlement.failed()).collect();
        if !failed.is_empty() {
            let json = serde_json::to_string(&failed).map_err(|_| unwritable())?;
            // The audit row comes before the status that it explains.
            query(&self.statements.reap_audit)
                .bind(self.now())
                .bind(self.request.owner.clone())
                .bind(json.clone())
                .execute(&mut *tx)
                .await
                .map_err(classify)?;
            let write = query(&self.statements.lanes_settle_failed).bind(self.now()).bind(json);
            write.execute(&mut *tx).await.map_err(classify)?;
        }
        let released: Vec<_> = counting.iter().filter_map(|one| one.released()).collect();
        if !released.is_empty() {
            let json = serde_json::to_string(&released).map_err(|_| unwritable())?;
            let write = query(&self.statements.lanes_settle_released).bind(json);
            write.execute(&mut *tx).await.map_err(classify)?;
        }
        let delivered = counting.into_iter().filter(|settlement| settlement.verdict == Verdict::Delivered);
        self.deliver(delivered, tx).await?;
        Ok(settled)
    }
}

fn unwritable() -> Error {
    Error::invalid("a verdict cannot be written as JSON")
}
