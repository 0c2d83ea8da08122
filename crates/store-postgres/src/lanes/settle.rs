//! Recording what came of entries that a lane handed out.

use std::collections::BTreeSet;

use pillarbox_core::port::{Keep, LaneSettleRequest, LaneSettlement, Settled, Verdict};
use pillarbox_core::{Error, ErrorKind, Held, Result};
use sqlx::Row;

use super::hint;
use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::claim::micros;
use crate::settle::Changed;
use crate::store::PostgresStore;

/// Not again when the answer is lost: what was settled then would come back as fenced. The caller decides, it knows the
/// lease.
const AGAIN: Again = Again::IfUndone;

impl PostgresStore {
    /// The whole batch in one statement; in two, if a lane of a delivered batch is not held any more, or a row is not
    /// where it was read.
    pub(crate) async fn settle_lanes(&self, request: LaneSettleRequest) -> Result<Settled> {
        let mut settlements: Vec<&LaneSettlement> = request.settlements.iter().collect();
        // In the order of the rows: every transaction that locks several rows locks them in this order.
        settlements.sort_by_key(|settlement| settlement.held);
        let Some(first) = settlements.first() else { return Ok(Settled::default()) };
        let alike = |one: &&LaneSettlement| {
            one.verdict == Verdict::Delivered && (request.keep == Keep::No || one.attempts == first.attempts)
        };
        if settlements.iter().all(alike)
            && let Some(settled) = self.settle_delivered(&request, &settlements).await?
        {
            return Ok(settled);
        }
        self.settle_mixed(&request, &settlements).await
    }

    /// Everything was delivered. `None`: a lane is not held as it was, or nobody knows where a row was read, and nothing
    /// happened.
    async fn settle_delivered(
        &self,
        request: &LaneSettleRequest,
        settlements: &[&LaneSettlement],
    ) -> Result<Option<Settled>> {
        let places = hint::to_text(settlements.iter().map(|one| one.hint));
        let Some(places) = places else { return Ok(None) };
        let seqs: Vec<i64> = settlements.iter().map(|settlement| settlement.held.seq).collect();
        let lanes: BTreeSet<(i16, i64)> =
            settlements.iter().map(|one| (one.lane.into(), one.held.fence.0)).collect();
        let (lanes, fences): (Vec<i16>, Vec<i64>) = lanes.into_iter().unzip();
        let bind = Bind::new().text(request.route.as_str()).value(request.session.0);
        let bind = bind.value(seqs).value(lanes).value(fences).value(places);
        let (sql, bind) = match request.keep {
            Keep::No => (&self.sql().lanes_settle_deleted, bind),
            Keep::UntilPurged => {
                let attempts = settlements.first().map_or(0, |one| one.attempts);
                (&self.sql().lanes_settle_delivered, bind.value(count(attempts)).at(request.now))
            }
        };
        let rows = self.run(Traffic::Reserved, AGAIN, sql, bind.done()?).await?;
        let row = rows.first().ok_or_else(unreadable)?;
        if !row.try_get::<bool, _>(0).map_err(|_| unreadable())? {
            return Ok(None);
        }
        let changed: i64 = row.try_get(1).map_err(|_| unreadable())?;
        let accepted = u64::try_from(changed).unwrap_or(0);
        if accepted == settlements.len() as u64 {
            return Ok(Some(Settled { accepted, fenced: vec![] }));
        }
        let changed: Option<Vec<i64>> = row.try_get(2).map_err(|_| unreadable())?;
        // An entry that is named twice is changed once.
        let mut changed: BTreeSet<i64> = changed.unwrap_or_default().into_iter().collect();
        let elsewhere =
            settlements.iter().copied().filter(|one| !changed.remove(&one.held.seq)).collect::<Vec<_>>();
        let rest = self.settle_mixed(request, &elsewhere).await?;
        Ok(Some(Settled { accepted: accepted + rest.accepted, fenced: rest.fenced }))
    }

    /// Anything else.
    async fn settle_mixed(
        &self,
        request: &LaneSettleRequest,
        settlements: &[&LaneSettlement],
    ) -> Result<Settled> {
        let held: Vec<Held> = settlements.iter().map(|settlement| settlement.held).collect();
        let attempts: Vec<i32> = settlements.iter().map(|settlement| count(settlement.attempts)).collect();
        let bind = Bind::new().text(request.route.as_str()).value(request.session.0).held(&held);
        let bind = mixed(bind.value(attempts), settlements, request);
        let rows = self.run(Traffic::Reserved, AGAIN, &self.sql().lanes_settle_mixed, bind.done()?).await?;
        let changed = Changed::read(&rows)?;
        Ok(Settled { accepted: changed.count, fenced: changed.fenced(held) })
    }
}

/// Attempts as the database has them.
fn count(attempts: u32) -> i32 {
    i32::try_from(attempts).unwrap_or(i32::MAX)
}

fn mixed(bind: Bind, settlements: &[&LaneSettlement], request: &LaneSettleRequest) -> Bind {
    let mut verdicts: Vec<&str> = Vec::with_capacity(settlements.len());
    let mut afters: Vec<Option<i64>> = Vec::with_capacity(settlements.len());
    let mut errors: Vec<Option<String>> = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        let (verdict, after, failure) = match &settlement.verdict {
            Verdict::Delivered if request.keep == Keep::No => ("deleted", None, None),
            Verdict::Delivered => ("delivered", None, None),
            Verdict::Retry { after, failure, .. } => ("retry", Some(micros(*after)), Some(failure)),
            // Lanes have no budget to give back: see the lane reader of the engine.
            Verdict::Park { after, failure, .. } => ("retry", Some(micros(*after)), Some(failure)),
            Verdict::Dead { failure, .. } => ("dead", None, Some(failure)),
            Verdict::Release { failure, .. } => ("release", None, failure.as_ref()),
        };
        verdicts.push(verdict);
        afters.push(after);
        errors.push(failure.map(ToString::to_string));
    }
    let deaths = verdicts.contains(&"dead");
    bind.value(verdicts).value(afters).value(errors).at(request.now).value(deaths).text(&request.owner)
}

fn unreadable() -> Error {
    Error::new(ErrorKind::Corrupt, "the answer to a settle of lanes cannot be read")
}
