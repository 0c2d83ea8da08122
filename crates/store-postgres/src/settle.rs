//! Settling: what came of claimed entries, the whole batch at once.

use std::collections::BTreeSet;

use pillarbox_core::port::{Keep, SettleRequest, Settled, Settlement, Verdict};
use pillarbox_core::{Error, ErrorKind, Fence, Held, Result};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::claim::micros;
use crate::sql::Sql;
use crate::store::PostgresStore;

impl PostgresStore {
    /// The dead go in a statement of their own: it waits for the disk, which the others need not, and an
    /// audit trail that cannot be written does not keep what was delivered from being settled.
    pub(crate) async fn settle_batch(&self, request: SettleRequest) -> Result<Settled> {
        let (dead, others): (Vec<_>, Vec<_>) = request
            .settlements
            .iter()
            .partition(|settlement| matches!(settlement.verdict, Verdict::Dead { .. }));
        let others = self.settle_others(&request, others).await;
        let dead = self.settle_dead(&request, dead).await;
        let (mut settled, dead) = (others?, dead?);
        settled.accepted += dead.accepted;
        settled.fenced.extend(dead.fenced);
        Ok(settled)
    }

    async fn settle_others(&self, request: &SettleRequest, settlements: Vec<&Settlement>) -> Result<Settled> {
        if settlements.is_empty() {
            return Ok(Settled::default());
        }
        if settlements.iter().all(|settlement| settlement.verdict == Verdict::Delivered) {
            let held = sorted(settlements.iter().map(|settlement| settlement.held));
            let bind = Bind::new().held(&held);
            return match request.keep {
                Keep::UntilPurged => {
                    self.settle(&self.sql().settle_delivered, bind.at(request.now), held).await
                }
                Keep::No => self.settle(&self.sql().settle_deleted, bind, held).await,
            };
        }
        let settlements = sorted_by_row(settlements);
        let held: Vec<Held> = settlements.iter().map(|settlement| settlement.held).collect();
        let mut verdicts: Vec<&str> = Vec::with_capacity(held.len());
        let mut afters: Vec<Option<i64>> = Vec::with_capacity(held.len());
        let mut errors: Vec<Option<String>> = Vec::with_capacity(held.len());
        for settlement in settlements {
            let (verdict, after, failure) = match &settlement.verdict {
                Verdict::Delivered if request.keep == Keep::No => ("deleted", None, None),
                Verdict::Delivered => ("delivered", None, None),
                Verdict::Retry { after, failure, .. } => ("retry", Some(micros(*after)), Some(failure)),
                Verdict::Release { failure, .. } => ("release", None, failure.as_ref()),
                Verdict::Park { after, failure, .. } => ("park", Some(micros(*after)), Some(failure)),
                // Settled by their own statement.
                Verdict::Dead { .. } => continue,
            };
            verdicts.push(verdict);
            afters.push(after);
            errors.push(failure.map(ToString::to_string));
        }
        let bind = Bind::new().held(&held).value(verdicts).value(afters).value(errors).at(request.now);
        self.settle(&self.sql().settle_mixed, bind, held).await
    }

    async fn settle_dead(&self, request: &SettleRequest, settlements: Vec<&Settlement>) -> Result<Settled> {
        if settlements.is_empty() {
            return Ok(Settled::default());
        }
        let settlements = sorted_by_row(settlements);
        let held: Vec<Held> = settlements.iter().map(|settlement| settlement.held).collect();
        let errors: Vec<String> = settlements
            .iter()
            .map(|settlement| match &settlement.verdict {
                Verdict::Dead { failure, .. } => failure.to_string(),
                _ => String::new(),
            })
            .collect();
        let bind = Bind::new().held(&held).value(errors).at(request.now).text(&request.owner);
        self.settle(&self.sql().settle_dead, bind, held).await
    }

    async fn settle(&self, sql: &Sql, bind: Bind, held: Vec<Held>) -> Result<Settled> {
        // Not again when the answer is lost: what was settled then would come back as fenced. The caller
        // decides, it knows the lease.
        let rows = self.run(Traffic::Reserved, Again::IfUndone, sql, bind.done()?).await?;
        let changed = Changed::read(&rows)?;
        Ok(Settled { accepted: changed.count, fenced: changed.fenced(held) })
    }
}

/// What a guarded statement changed.
pub(crate) struct Changed {
    pub(crate) count: u64,
    /// `None`: everything.
    held: Option<BTreeSet<Held>>,
}

impl Changed {
    pub(crate) fn read(rows: &[PgRow]) -> Result<Self> {
        let unreadable = |_| Error::new(ErrorKind::Corrupt, "the answer to a settle cannot be read");
        let row = rows.first().ok_or(sqlx::Error::RowNotFound).map_err(unreadable)?;
        let count: i64 = row.try_get(0).map_err(unreadable)?;
        let seqs: Option<Vec<i64>> = row.try_get(1).map_err(unreadable)?;
        let fences: Option<Vec<i64>> = row.try_get(2).map_err(unreadable)?;
        let held = match (seqs, fences) {
            (Some(seqs), Some(fences)) => Some(
                seqs.into_iter().zip(fences).map(|(seq, fence)| Held { seq, fence: Fence(fence) }).collect(),
            ),
            // The arrays are also null when nothing at all was changed.
            _ if count == 0 => Some(BTreeSet::new()),
            _ => None,
        };
        Ok(Self { count: u64::try_from(count).unwrap_or(0), held })
    }

    /// What was asked for and not changed. An entry that is named twice is changed once.
    pub(crate) fn fenced(self, asked: Vec<Held>) -> Vec<Held> {
        let Some(mut changed) = self.held else { return vec![] };
        asked.into_iter().filter(|held| !changed.remove(held)).collect()
    }
}

/// In the order of the rows: every transaction that locks several rows locks them in this order.
pub(crate) fn sorted(held: impl Iterator<Item = Held>) -> Vec<Held> {
    let mut held: Vec<Held> = held.collect();
    held.sort_unstable();
    held
}

fn sorted_by_row(mut settlements: Vec<&Settlement>) -> Vec<&Settlement> {
    settlements.sort_by_key(|settlement| settlement.held);
    settlements
}
