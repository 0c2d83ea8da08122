//! Recording what came of entries that a lane handed out.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use pillarbox_core::port::shared::{Columns, held};
use pillarbox_core::port::{Keep, LaneSettleRequest, LaneSettlement, Settled, Verdict};
use pillarbox_core::{Fence, Held, Result};
use sqlx::MySqlConnection;

use super::session;
use crate::bind::Bind;
use crate::call::{Traffic, UnitOfWork};
use crate::row::Cells;
use crate::sql::Statements;
use crate::store::MySqlStore;

pub(super) async fn settle(store: &MySqlStore, request: LaneSettleRequest) -> Result<Settled> {
    if request.settlements.is_empty() {
        return Ok(Settled::default());
    }
    // The same row twice: the first verdict counts.
    let mut seen = HashSet::with_capacity(request.settlements.len());
    let first = request.settlements.iter().filter(|settlement| seen.insert(settlement.held)).collect();
    let is_clustered = store.is_clustered().await?;
    let batch =
        LaneSettle { statements: &store.statements, request: &request, settlements: first, is_clustered };
    let is_plain = batch.settlements.iter().all(|settlement| settlement.verdict == Verdict::Delivered);
    let at_once = if is_plain { store.together(Traffic::Reserved, &DeliverAll(&batch)).await? } else { None };
    let mut settled = match at_once {
        Some(settled) => settled,
        None => store.together(Traffic::Reserved, &batch).await?,
    };
    let accepted = settled.len() as u64;
    let held = request.settlements.iter().map(|settlement| settlement.held);
    Ok(Settled { accepted, fenced: held.filter(|held| !settled.remove(held)).collect() })
}

/// A batch of verdicts, one for each claim.
struct LaneSettle<'a> {
    statements: &'a Statements,
    request: &'a LaneSettleRequest,
    settlements: Vec<&'a LaneSettlement>,
    /// Whether the locks of this transaction are unknown to other nodes.
    is_clustered: bool,
}

impl<'a> LaneSettle<'a> {
    /// The verdicts on entries of lanes that the session holds. No other session gets these before the transaction ends.
    async fn of_held_lanes(&self, tx: &mut MySqlConnection) -> Result<Vec<&'a LaneSettlement>> {
        let bind = session(&self.request.route, self.request.session);
        if self.is_clustered {
            // Before the lanes, as a heartbeat and a burial do it.
            self.statements.lanes_certify.with(bind.clone())?.execute(tx).await?;
        }
        let mut lanes: BTreeMap<u8, Fence> = BTreeMap::new();
        for row in &self.statements.lanes_share.with(bind)?.rows(tx).await? {
            let mut row = Cells::of(row);
            lanes.insert(u8::try_from(row.number()?).unwrap_or(u8::MAX), Fence(row.number()?));
        }
        let is_held = |one: &&LaneSettlement| lanes.get(&one.lane) == Some(&one.held.fence);
        Ok(self.settlements.iter().copied().filter(is_held).collect())
    }

    /// Records deliveries, and tells how many.
    async fn deliver(&self, delivered: &[&LaneSettlement], tx: &mut MySqlConnection) -> Result<u64> {
        let statement = match self.request.keep {
            Keep::UntilPurged => &self.statements.lanes_settle_delivered,
            Keep::No => &self.statements.lanes_settle_deleted,
        };
        // Nearly always it is the first attempt of all of them.
        let mut attempts: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        delivered.iter().for_each(|one| attempts.entry(one.attempts).or_default().push(one.held.seq));
        let mut changed = 0;
        for (attempts, seqs) in attempts {
            let bind =
                Bind::new().at(self.request.now).number(attempts.into()).bytes(self.request.route.as_str());
            changed += statement.execute(&bind, seqs, tx).await?;
        }
        Ok(changed)
    }
}

/// Settles a batch of deliveries if none of them was settled before, as is nearly always so; `None`: nothing happened.
///
/// Counting the changed rows is cheaper than looking at each of them first.
struct DeliverAll<'a>(&'a LaneSettle<'a>);

#[async_trait]
impl UnitOfWork for DeliverAll<'_> {
    type Outcome = Option<HashSet<Held>>;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<Option<HashSet<Held>>> {
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

    async fn run(&self, tx: &mut MySqlConnection) -> Result<HashSet<Held>> {
        let (statements, now) = (self.statements, self.request.now);
        let of_held = self.of_held_lanes(tx).await?;
        let verdict = |one: &&LaneSettlement| {
            let is_retry = matches!(one.verdict, Verdict::Retry { .. });
            (one.held.seq, one.held.fence, one.lane, is_retry.then_some(one.attempts))
        };
        let verdicts: Vec<_> = of_held.iter().map(verdict).collect();
        let look = Bind::new().bytes(self.request.route.as_str()).json(&verdicts);
        let rows = statements.lanes_settleable.with(look)?.rows(tx).await?;
        let settled = rows.iter().map(|row| held(&mut Cells::of(row))).collect::<Result<HashSet<_>>>()?;
        let counting: Vec<_> = of_held.into_iter().filter(|one| settled.contains(&one.held)).collect();
        let failed: Vec<_> = counting.iter().filter_map(|one| one.failed()).collect();
        if !failed.is_empty() {
            // The audit row comes before the status that it explains.
            let audit = Bind::new().at(now).text(&self.request.owner).json(&failed);
            statements.reap_audit.with(audit)?.execute(tx).await?;
            statements.lanes_settle_failed.with(Bind::new().at(now).json(&failed))?.execute(tx).await?;
        }
        let released: Vec<_> = counting.iter().filter_map(|one| one.released()).collect();
        if !released.is_empty() {
            statements.lanes_settle_released.with(Bind::new().json(&released))?.execute(tx).await?;
        }
        let delivered: Vec<_> =
            counting.into_iter().filter(|one| one.verdict == Verdict::Delivered).collect();
        self.deliver(&delivered, tx).await?;
        Ok(settled)
    }
}
