//! Recording what came of claimed entries.

use std::collections::HashSet;

use async_trait::async_trait;
use pillarbox_core::port::{Keep, SettleRequest, Settled, Settlement, Verdict};
use pillarbox_core::{Error, Held, Result, Timestamp};
use sqlx::SqliteConnection;

use crate::bind::{Bind, held_json};
use crate::call::UnitOfWork;
use crate::claim::held_of;
use crate::error::classify;
use crate::sql::Statements;
use crate::store::SqliteStore;

impl SqliteStore {
    pub(crate) async fn settle_batch(&self, request: SettleRequest) -> Result<Settled> {
        if request.settlements.is_empty() {
            return Ok(Settled::default());
        }
        let batch = SettleBatch::new(&self.statements, &request)?;
        let mut settled = if batch.deaths {
            // A death that was reported must not be undone by a power cut.
            self.writer.durably(&batch).await?
        } else if batch.is_plain() && self.writer.together(DeliverAll(&batch)).await? {
            return Ok(Settled { accepted: batch.deliveries, fenced: batch.repeated });
        } else {
            self.writer.together(&batch).await?
        };
        let accepted = settled.len() as u64;
        // The same claim twice: the first verdict counts, the second finds the entry settled.
        let held = request.settlements.iter().map(|settlement| settlement.held);
        Ok(Settled { accepted, fenced: held.filter(|held| !settled.remove(held)).collect() })
    }
}

/// A batch of verdicts as statements read them.
struct SettleBatch<'a> {
    statements: &'a Statements,
    owner: &'a str,
    keep: Keep,
    now: Option<Timestamp>,
    /// How many deliveries there are.
    deliveries: u64,
    /// `{"seq": fence, …}` of the deliveries, if there are any.
    delivered: Option<String>,
    /// `[[seq, fence, verdict, wait, failure], …]` of everything else, if there is anything.
    changed: Option<String>,
    /// Whether any of these is a death.
    deaths: bool,
    /// Claims that had an earlier verdict in the same batch.
    repeated: Vec<Held>,
}

impl<'a> SettleBatch<'a> {
    fn new(statements: &'a Statements, request: &'a SettleRequest) -> Result<Self> {
        let mut seen = HashSet::with_capacity(request.settlements.len());
        let (first, repeated): (Vec<_>, Vec<_>) =
            request.settlements.iter().partition(|settlement| seen.insert(settlement.held));
        let (delivered, changed): (Vec<&Settlement>, Vec<&Settlement>) =
            first.into_iter().partition(|settlement| settlement.verdict == Verdict::Delivered);
        let held = delivered.iter().map(|settlement| settlement.held);
        Ok(Self {
            statements,
            owner: &request.owner,
            keep: request.keep,
            now: request.now,
            deliveries: delivered.len() as u64,
            delivered: (!delivered.is_empty()).then(|| held_json(held)),
            changed: if changed.is_empty() { None } else { Some(verdicts_json(&changed)?) },
            deaths: changed.iter().any(|settlement| matches!(settlement.verdict, Verdict::Dead { .. })),
            repeated: repeated.into_iter().map(|settlement| settlement.held).collect(),
        })
    }

    /// Whether these are deliveries, several of them, and nothing else.
    fn is_plain(&self) -> bool {
        self.changed.is_none() && self.deliveries > 1
    }
}

/// Settles a batch of deliveries if none of them is fenced, as is nearly always so; `false`: nothing happened.
///
/// Counting the changed rows costs half of having each of them told.
struct DeliverAll<'a>(&'a SettleBatch<'a>);

#[async_trait]
impl UnitOfWork for DeliverAll<'_> {
    type Outcome = bool;

    async fn run(self, tx: &mut SqliteConnection) -> Result<bool> {
        let Self(batch) = self;
        let statement = match batch.keep {
            Keep::UntilPurged => &batch.statements.settle_delivered.plain,
            Keep::No => &batch.statements.settle_deleted.plain,
        };
        let deliver = statement.with(Bind::new().at(batch.now).value(batch.delivered.clone()).done()?);
        Ok(deliver.execute(tx).await.map_err(classify)?.rows_affected() == batch.deliveries)
    }

    fn stands(all: &bool) -> bool {
        *all
    }
}

#[async_trait]
impl UnitOfWork for &SettleBatch<'_> {
    /// The claims that were still held.
    type Outcome = HashSet<Held>;

    async fn run(self, tx: &mut SqliteConnection) -> Result<HashSet<Held>> {
        let mut settled = HashSet::new();
        if let Some(changed) = &self.changed {
            if self.deaths {
                // The audit row comes before the status that it explains.
                let arguments = Bind::new().at(self.now).text(self.owner).text(changed).done()?;
                let audit = self.statements.settle_dead.with(arguments);
                audit.execute(&mut *tx).await.map_err(classify)?;
            }
            let arguments = Bind::new().at(self.now).text(changed).done()?;
            let statement = self.statements.settle_mixed.with(arguments);
            settled = held_of(&statement.fetch_all(&mut *tx).await.map_err(classify)?)?;
            // Should the route be read by lanes: these entries were not theirs until now.
            let seqs: Vec<i64> = settled.iter().map(|held| held.seq).collect();
            let revise = self.statements.lanes_revise.with(Bind::new().json(&seqs).done()?);
            revise.execute(&mut *tx).await.map_err(classify)?;
        }
        if let Some(delivered) = &self.delivered {
            let statement = match self.keep {
                Keep::UntilPurged => &self.statements.settle_delivered.told,
                Keep::No => &self.statements.settle_deleted.told,
            };
            let statement = statement.with(Bind::new().at(self.now).text(delivered).done()?);
            settled.extend(held_of(&statement.fetch_all(tx).await.map_err(classify)?)?);
        }
        Ok(settled)
    }
}

fn verdicts_json(settlements: &[&Settlement]) -> Result<String> {
    let rows: Vec<_> = settlements.iter().map(|settlement| settlement.row()).collect();
    serde_json::to_string(&rows).map_err(|_| Error::invalid("a verdict cannot be written as JSON"))
}
