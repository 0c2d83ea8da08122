//! Recording what came of entries that a lane handed out.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::{Keep, LaneSettleRequest, LaneSettlement, Settled, Verdict};
use pillarbox_core::{Fence, Held, Result};

use super::waiting;
use crate::call::{Link, Traffic, UnitOfWork};
use crate::change::audit;
use crate::command::{Change, Find, binary, delete, insert, now, stamps, update};
use crate::row::number;
use crate::settle::LAST;
use crate::store::MongoStore;
use crate::tables::{SEQ, Tables};

pub(super) async fn settle(store: &MongoStore, request: LaneSettleRequest) -> Result<Settled> {
    if request.settlements.is_empty() {
        return Ok(Settled::default());
    }
    // The same entry twice: the first verdict counts.
    let mut seen = HashSet::with_capacity(request.settlements.len());
    let first = request.settlements.iter().filter(|settlement| seen.insert(settlement.held)).collect();
    let batch = LaneSettle { tables: &store.tables, request: &request, settlements: first };
    let is_plain = batch.settlements.iter().all(|settlement| settlement.verdict == Verdict::Delivered);
    let at_once = if is_plain { store.together(Traffic::Relay, &DeliverAll(&batch)).await? } else { None };
    let mut settled = match at_once {
        Some(settled) => settled,
        None => store.together(Traffic::Relay, &batch).await?,
    };
    let accepted = settled.len() as u64;
    let held = request.settlements.iter().map(|settlement| settlement.held);
    Ok(Settled { accepted, fenced: held.filter(|held| !settled.remove(held)).collect() })
}

/// A batch of verdicts, one for each claim.
struct LaneSettle<'a> {
    tables: &'a Tables,
    request: &'a LaneSettleRequest,
    settlements: Vec<&'a LaneSettlement>,
}

impl<'a> LaneSettle<'a> {
    /// The verdicts on entries of lanes that the session holds. A burial of the session writes to the same entries, so one
    /// of the two transactions is rolled back.
    async fn of_held_lanes(&self, tx: &mut Link<'_>) -> Result<Vec<&'a LaneSettlement>> {
        let filter = doc! { "route": self.request.route.as_str(), "session": binary(self.request.session.0) };
        let find = Find::new(&self.tables.lane, filter).fields(&["lane", "fence"]);
        let mut lanes: BTreeMap<u8, Fence> = BTreeMap::new();
        for document in tx.find(find).await? {
            let lane = u8::try_from(number(&document, "lane")).unwrap_or(u8::MAX);
            lanes.insert(lane, Fence(number(&document, "fence")));
        }
        let is_held = |one: &&LaneSettlement| lanes.get(&one.lane) == Some(&one.held.fence);
        Ok(self.settlements.iter().copied().filter(is_held).collect())
    }

    fn filter(&self, seqs: impl IntoIterator<Item = i64>) -> Document {
        let mut filter = doc! { "seq": { "$in": stamps(seqs) }, "route": self.request.route.as_str() };
        filter.extend(waiting());
        filter
    }

    /// Records deliveries, and tells how many.
    async fn deliver(&self, delivered: &[&LaneSettlement], tx: &mut Link<'_>) -> Result<u64> {
        if delivered.is_empty() {
            return Ok(0);
        }
        let collection = &self.tables.outbox;
        if self.request.keep == Keep::No {
            let seqs = delivered.iter().map(|one| one.held.seq);
            return Ok(tx.write(delete(collection, self.filter(seqs))).await?.found);
        }
        // A part for each number of attempts: nearly always it is the first.
        let mut attempts: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for one in delivered {
            attempts.entry(one.attempts).or_default().push(one.held.seq);
        }
        let at = now(self.request.now);
        let change = |(attempts, seqs): (u32, Vec<i64>)| {
            let set = doc! {
                "status": "delivered",
                "attempts": { "$max": ["$attempts", i64::from(attempts)] },
                "last_attempt_at": at.clone(),
                "settled_at": at.clone(),
            };
            let pipeline = vec![doc! { "$set": set }, doc! { "$unset": ["due_at", "last_error"] }];
            Change::all(self.filter(seqs), pipeline).hint(self.tables.index(SEQ))
        };
        Ok(tx.write(update(collection, attempts.into_iter().map(change))).await?.found)
    }
}

/// Settles a batch of deliveries if none of them was settled before, as is nearly always so; `None`: nothing happened.
///
/// Counting the changed entries is cheaper than looking at each of them first.
struct DeliverAll<'a>(&'a LaneSettle<'a>);

#[async_trait]
impl UnitOfWork for DeliverAll<'_> {
    type Outcome = Option<HashSet<Held>>;

    async fn run(&self, tx: &mut Link<'_>) -> Result<Option<HashSet<Held>>> {
        let held = self.0.of_held_lanes(tx).await?;
        let changed = self.0.deliver(&held, tx).await?;
        Ok((changed == held.len() as u64).then(|| held.iter().map(|one| one.held).collect()))
    }

    fn stands(&self, settled: &Option<HashSet<Held>>) -> bool {
        settled.is_some()
    }
}

#[async_trait]
impl UnitOfWork for LaneSettle<'_> {
    /// The claims that were still held.
    type Outcome = HashSet<Held>;

    async fn run(&self, tx: &mut Link<'_>) -> Result<HashSet<Held>> {
        let tables = self.tables;
        let of_held = self.of_held_lanes(tx).await?;
        let counting = self.counting(of_held, tx).await?;
        let at = tx.now_or(self.request.now).await?.as_micros();
        let (mut records, mut changes) = (Vec::new(), Vec::new());
        for (one, event_id) in &counting {
            if let Some((seq, is_death, failure, attempts, wait)) = one.failed() {
                let mut set = doc! {
                    "status": if is_death { "dead" } else { "retrying" },
                    "last_error": failure.to_string(),
                    "last_attempt_at": at,
                };
                let mut change = Document::new();
                if is_death {
                    set.insert("settled_at", at);
                    let mut record = audit(at, "dead", &self.request.owner);
                    record.insert("route", self.request.route.as_str());
                    record.insert("event_id", event_id.clone());
                    record.insert("detail", failure.to_string());
                    records.push(record);
                }
                match wait {
                    Some(wait) => drop(set.insert("due_at", at.saturating_add(wait).min(LAST))),
                    None => drop(change.insert("$unset", doc! { "due_at": "" })),
                }
                change.insert("$set", set);
                change.insert("$max", doc! { "attempts": i64::from(attempts) });
                changes.push(Change::all(self.filter([seq]), change).hint(tables.index(SEQ)));
            }
            if let Some((seq, failure)) = one.released() {
                // A probe that is in vain for the same reason writes nothing.
                let set = doc! { "$set": { "last_error": failure.to_string() } };
                changes.push(Change::all(self.filter([seq]), set).hint(tables.index(SEQ)));
            }
        }
        // The audit record comes before the status that it explains.
        if !records.is_empty() {
            tx.write(insert(&tables.audit, records)).await?;
        }
        if !changes.is_empty() {
            tx.write(update(&tables.outbox, changes)).await?;
        }
        let is_delivered = |one: &&LaneSettlement| one.verdict == Verdict::Delivered;
        let delivered: Vec<_> = counting.iter().map(|(one, _)| *one).filter(is_delivered).collect();
        self.deliver(&delivered, tx).await?;
        Ok(counting.iter().map(|(one, _)| one.held).collect())
    }
}

impl<'a> LaneSettle<'a> {
    /// The verdicts that count: the entry is in the lane that handed it out and is not settled. A retry leaves it so: a
    /// second one, or one of before a requeue, is told by its attempts.
    async fn counting(
        &self,
        of_held: Vec<&'a LaneSettlement>,
        tx: &mut Link<'_>,
    ) -> Result<Vec<(&'a LaneSettlement, Bson)>> {
        let filter = self.filter(of_held.iter().map(|one| one.held.seq));
        let find = Find::new(&self.tables.outbox, filter)
            .fields(&["seq", "lane", "attempts", "event_id"])
            .hint(self.tables.index(SEQ));
        let found: BTreeMap<i64, Document> =
            tx.find(find).await?.into_iter().map(|found| (number(&found, "seq"), found)).collect();
        let counts = |one: &'a LaneSettlement| {
            let entry =
                found.get(&one.held.seq).filter(|entry| number(entry, "lane") == i64::from(one.lane))?;
            let is_retry = matches!(one.verdict, Verdict::Retry { .. });
            let fits = !is_retry || number(entry, "attempts") + 1 == i64::from(one.attempts);
            fits.then(|| (one, entry.get("event_id").cloned().unwrap_or(Bson::Null)))
        };
        Ok(of_held.into_iter().filter_map(counts).collect())
    }
}
