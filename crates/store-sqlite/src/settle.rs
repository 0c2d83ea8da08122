//! Recording what came of claimed entries.

use std::collections::HashSet;

use async_trait::async_trait;
use pillarbox_core::port::{Keep, SettleRequest, Settled, Settlement, Verdict};
use pillarbox_core::{Error, Held, Result, Timestamp};
use sqlx::SqliteConnection;

use crate::claim::{held_json, held_of, micros};
use crate::error::classify;
use crate::sql::{Statements, query};
use crate::store::{SqliteStore, Step, together};

pub(crate) async fn settle(store: &SqliteStore, request: SettleRequest) -> Result<Settled> {
    if request.settlements.is_empty() {
        return Ok(Settled::default());
    }
    let batch = Batch::new(&store.statements, &request)?;
    let settled = if batch.deaths {
        // A death that somebody was told of must not be undone by a power cut.
        store.durably(&batch).await?
    } else {
        let mut connection = store.writer().await?;
        if batch.deleted.is_some() && batch.changed.is_some() {
            together(&mut connection, &batch).await?
        } else {
            // One statement is a transaction of its own.
            batch.run(&mut connection).await?
        }
    };
    let mut unseen = settled;
    // The same claim twice: the first verdict counts, the second finds the entry settled.
    let fenced: Vec<Held> = request
        .settlements
        .iter()
        .map(|settlement| settlement.held)
        .filter(|held| !unseen.remove(held))
        .collect();
    let accepted = request.settlements.len() - fenced.len();
    Ok(Settled { accepted: accepted as u64, fenced })
}

/// A batch of verdicts as statements read them.
struct Batch<'a> {
    statements: &'a Statements,
    owner: &'a str,
    now: Option<i64>,
    /// `[[seq, fence, verdict, wait, failure], …]`, if there are any.
    changed: Option<String>,
    /// `[[seq, fence], …]` of delivered entries that are not kept, if there are any.
    deleted: Option<String>,
    deaths: bool,
}

impl<'a> Batch<'a> {
    fn new(statements: &'a Statements, request: &'a SettleRequest) -> Result<Self> {
        let mut seen = HashSet::with_capacity(request.settlements.len());
        let first = request.settlements.iter().filter(|settlement| seen.insert(settlement.held));
        let (deleted, changed): (Vec<_>, Vec<_>) = first
            .partition(|settlement| request.keep == Keep::No && settlement.verdict == Verdict::Delivered);
        let deaths = changed.iter().any(|settlement| matches!(settlement.verdict, Verdict::Dead { .. }));
        let deleted: Vec<Held> = deleted.into_iter().map(|settlement| settlement.held).collect();
        Ok(Self {
            statements,
            owner: &request.owner,
            now: request.now.map(Timestamp::as_micros),
            changed: if changed.is_empty() { None } else { Some(verdicts_json(&changed)?) },
            deleted: if deleted.is_empty() { None } else { Some(held_json(&deleted)?) },
            deaths,
        })
    }
}

#[async_trait]
impl Step for Batch<'_> {
    /// The claims that were still held.
    type Outcome = HashSet<Held>;

    async fn run(&self, tx: &mut SqliteConnection) -> Result<HashSet<Held>> {
        if self.deaths {
            // The audit row comes before the status that it explains.
            query(&self.statements.settle_dead)
                .bind(self.now)
                .bind(self.owner.to_owned())
                .bind(self.changed.clone())
                .execute(&mut *tx)
                .await
                .map_err(classify)?;
        }
        let mut settled = HashSet::new();
        if let Some(changed) = &self.changed {
            let statement = query(&self.statements.settle_mixed).bind(self.now).bind(changed.clone());
            settled = held_of(&statement.fetch_all(&mut *tx).await.map_err(classify)?)?;
        }
        if let Some(deleted) = &self.deleted {
            let statement = query(&self.statements.settle_deleted).bind(deleted.clone());
            settled.extend(held_of(&statement.fetch_all(tx).await.map_err(classify)?)?);
        }
        Ok(settled)
    }
}

fn verdicts_json(settlements: &[&Settlement]) -> Result<String> {
    let rows: Vec<_> = settlements
        .iter()
        .map(|settlement| {
            let (name, wait, failure) = match &settlement.verdict {
                Verdict::Delivered => ("delivered", None, None),
                Verdict::Retry { after, failure } => ("retrying", Some(micros(*after)), Some(failure)),
                Verdict::Dead { failure } => ("dead", None, Some(failure)),
                Verdict::Release { failure } => ("released", None, failure.as_ref()),
            };
            (settlement.held.seq, settlement.held.fence, name, wait, failure)
        })
        .collect();
    serde_json::to_string(&rows).map_err(|_| Error::invalid("a verdict cannot be written as JSON"))
}
