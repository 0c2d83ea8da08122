//! Recording what came of claimed entries.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::{Keep, SettleRequest, Settled, Settlement, Verdict};
use pillarbox_core::{Held, Result, Timestamp};

use crate::call::{Link, Traffic, UnitOfWork};
use crate::change::audit;
use crate::claim::{Claimed, by_fence, held_changes, held_filter, still_held};
use crate::command::{Change, delete, insert, now, stamps, update};
use crate::lanes;
use crate::store::MongoStore;
use crate::tables::{SEQ, Tables};

/// The last moment that a due time can have.
pub(crate) const LAST: i64 = 253_402_300_799_999_999;

impl MongoStore {
    pub(crate) async fn settle_batch(&self, request: SettleRequest) -> Result<Settled> {
        if request.settlements.is_empty() {
            return Ok(Settled::default());
        }
        let mut seen = HashSet::with_capacity(request.settlements.len());
        // The same claim twice: the first verdict counts, the second finds the entry settled.
        let (first, repeated): (Vec<&Settlement>, Vec<&Settlement>) =
            request.settlements.iter().partition(|settlement| seen.insert(settlement.held));
        let batch = Settle { tables: &self.tables, request: &request, settlements: first };
        let is_plain = batch.settlements.iter().all(|settlement| settlement.verdict == Verdict::Delivered);
        let mut fenced: Vec<Held> = repeated.into_iter().map(|settlement| settlement.held).collect();
        let accepted = if is_plain && self.together(Traffic::Relay, &DeliverAll(&batch)).await? {
            batch.settlements.len()
        } else {
            let settled = self.together(Traffic::Relay, &batch).await?;
            let held = batch.settlements.iter().map(|settlement| settlement.held);
            fenced.extend(held.filter(|held| !settled.contains_key(held)));
            settled.len()
        };
        Ok(Settled { accepted: accepted as u64, fenced })
    }
}

/// A batch of verdicts, one for each claim.
struct Settle<'a> {
    tables: &'a Tables,
    request: &'a SettleRequest,
    settlements: Vec<&'a Settlement>,
}

impl Settle<'_> {
    async fn deliver(&self, held: impl Iterator<Item = Held> + Send, tx: &mut Link<'_>) -> Result<u64> {
        let collection = &self.tables.outbox;
        match self.request.keep {
            Keep::UntilPurged => {
                let changes = held_changes(held, self.tables, &delivered(self.request.now));
                Ok(tx.write(update(collection, changes)).await?.found)
            }
            Keep::No => {
                let mut deleted = 0;
                for (fence, seqs) in by_fence(held) {
                    deleted += tx.write(delete(collection, held_filter(fence, seqs))).await?.found;
                }
                Ok(deleted)
            }
        }
    }
}

/// What a delivery changes.
fn delivered(at: Option<Timestamp>) -> Vec<Document> {
    vec![
        doc! { "$set": { "status": "delivered", "settled_at": now(at) } },
        doc! { "$unset": ["due_at", "owner", "last_error", "claim"] },
    ]
}

/// Settles a batch of deliveries if none of them is fenced, as is nearly always so; `false`: nothing happened.
///
/// Counting the changed entries needs no look at each of them.
struct DeliverAll<'a>(&'a Settle<'a>);

#[async_trait]
impl UnitOfWork for DeliverAll<'_> {
    type Outcome = bool;

    async fn run(&self, tx: &mut Link<'_>) -> Result<bool> {
        let Self(batch) = self;
        let held: Vec<Held> = batch.settlements.iter().map(|settlement| settlement.held).collect();
        Ok(batch.deliver(held.into_iter(), tx).await? == batch.settlements.len() as u64)
    }

    fn stands(&self, all: &bool) -> bool {
        *all
    }
}

#[async_trait]
impl UnitOfWork for Settle<'_> {
    /// The claims that were still held.
    type Outcome = BTreeMap<Held, Claimed>;

    async fn run(&self, tx: &mut Link<'_>) -> Result<BTreeMap<Held, Claimed>> {
        let tables = self.tables;
        let all: Vec<Held> = self.settlements.iter().map(|settlement| settlement.held).collect();
        let settled = still_held(tx, tables, all.into_iter()).await?;
        let at = tx.now_or(self.request.now).await?.as_micros();
        let (mut records, mut changes) = (Vec::new(), Vec::new());
        let (mut revised, mut delivered) = (BTreeSet::new(), Vec::new());
        for settlement in &self.settlements {
            let Some(claimed) = settled.get(&settlement.held) else { continue };
            if settlement.verdict == Verdict::Delivered {
                delivered.push(settlement.held);
                continue;
            }
            if let Verdict::Dead { failure, .. } = &settlement.verdict {
                let mut record = audit(at, "dead", &self.request.owner);
                record.insert("route", claimed.route.as_str());
                record.insert("event_id", claimed.event_id.clone());
                record.insert("detail", failure.to_string());
                records.push(record);
            }
            changes.push(change(settlement, claimed, at).hint(tables.index(SEQ)));
            // Should the route be read by lanes: these entries were not theirs until now.
            revised.insert((claimed.route.clone(), claimed.lane));
        }
        // The audit record comes before the status that it explains.
        if !records.is_empty() {
            tx.write(insert(&tables.audit, records)).await?;
        }
        if !changes.is_empty() {
            tx.write(update(&tables.outbox, changes)).await?;
            if let Some(revise) = lanes::revise(tables, &revised) {
                tx.write(revise).await?;
            }
        }
        if !delivered.is_empty() {
            self.deliver(delivered.into_iter(), tx).await?;
        }
        Ok(settled)
    }
}

/// What a verdict other than a delivery changes.
fn change(settlement: &Settlement, claimed: &Claimed, at: i64) -> Change {
    let (_, _, name, wait, failure) = settlement.row();
    let attempts = match name {
        "parked" => 0,
        "released" => (claimed.attempts - 1).max(0),
        _ => claimed.attempts,
    };
    let status = match name {
        "released" if claimed.attempts <= 1 => "pending",
        "released" => "retrying",
        "parked" => "pending",
        name => name,
    };
    let crashes = if name == "parked" { 0 } else { claimed.crashes };
    let mut set = doc! { "status": status, "attempts": attempts, "crashes": crashes };
    let mut unset = doc! { "owner": "", "claim": "" };
    match wait {
        Some(wait) => drop(set.insert("due_at", at.saturating_add(wait).min(LAST))),
        None => drop(unset.insert("due_at", "")),
    }
    if name == "dead" {
        set.insert("settled_at", at);
    }
    set.extend(failure.map(|failure| ("last_error".to_owned(), Bson::String(failure.to_string()))));
    let held = settlement.held;
    let filter = doc! { "seq": { "$in": stamps([held.seq]) }, "fence": held.fence.0, "status": "in_flight" };
    Change::all(filter, doc! { "$set": set, "$unset": unset })
}
