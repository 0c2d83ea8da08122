//! Recording what came of entries that a lane handed out.

use pillarbox_core::port::{Keep, LaneSettleRequest, LaneSettlement, Settled, Verdict};
use pillarbox_core::{Held, Result};

use crate::bind::Bind;
use crate::call::{Again, Line};
use crate::claim::micros;
use crate::settle::Changed;
use crate::store::PostgresStore;

impl PostgresStore {
    /// The whole batch in one statement.
    pub(crate) async fn settle_lanes(&self, request: LaneSettleRequest) -> Result<Settled> {
        if request.settlements.is_empty() {
            return Ok(Settled::default());
        }
        let mut settlements: Vec<&LaneSettlement> = request.settlements.iter().collect();
        // In the order of the rows: whoever locks several locks them in this order.
        settlements.sort_by_key(|settlement| settlement.held);
        let held: Vec<Held> = settlements.iter().map(|settlement| settlement.held).collect();
        let attempts: Vec<i32> = settlements
            .iter()
            .map(|settlement| i32::try_from(settlement.attempts).unwrap_or(i32::MAX))
            .collect();
        let bind = Bind::new().text(request.route.as_str()).value(request.session.0).held(&held);
        let delivered = settlements.iter().all(|settlement| settlement.verdict == Verdict::Delivered);
        let (sql, bind) = match request.keep {
            Keep::No if delivered => (&self.sql().lanes_settle_deleted, bind),
            Keep::UntilPurged if delivered => {
                (&self.sql().lanes_settle_delivered, bind.value(attempts).at(request.now))
            }
            _ => (&self.sql().lanes_settle_mixed, mixed(bind.value(attempts), &settlements, &request)),
        };
        // Not again when the answer is lost: what was settled then would come back as fenced. The caller decides, it
        // knows the lease.
        let rows = self.run(Line::Reserved, Again::IfUndone, sql, bind.done()?).await?;
        let changed = Changed::read(&rows)?;
        Ok(Settled { accepted: changed.count, fenced: changed.fenced(held) })
    }
}

fn mixed(bind: Bind, settlements: &[&LaneSettlement], request: &LaneSettleRequest) -> Bind {
    let mut verdicts: Vec<&str> = Vec::with_capacity(settlements.len());
    let mut afters: Vec<Option<i64>> = Vec::with_capacity(settlements.len());
    let mut errors: Vec<Option<String>> = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        let (verdict, after, failure) = match &settlement.verdict {
            Verdict::Delivered if request.keep == Keep::No => ("deleted", None, None),
            Verdict::Delivered => ("delivered", None, None),
            Verdict::Retry { after, failure } => ("retry", Some(micros(*after)), Some(failure)),
            // Lanes have no budget to give back: see the lane reader of the engine.
            Verdict::Park { after, failure } => ("retry", Some(micros(*after)), Some(failure)),
            Verdict::Dead { failure } => ("dead", None, Some(failure)),
            Verdict::Release { .. } => ("release", None, None),
        };
        verdicts.push(verdict);
        afters.push(after);
        errors.push(failure.map(ToString::to_string));
    }
    let deaths = verdicts.contains(&"dead");
    bind.value(verdicts).value(afters).value(errors).at(request.now).value(deaths).text(&request.owner)
}
