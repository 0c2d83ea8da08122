//! `--held`: drains while another connection sits idle in a transaction, so that nothing that is dead can be removed.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox_cli::database::{Staging, StagingTx};
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{Design, median, ratio};
use pillarbox_cli::output::Progress;
use pillarbox_core::port::Keep;
use pillarbox_core::{Event, RouteName};
use pillarbox_engine::sink::NullSink;
use serde::Serialize;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::by::{By, fill, options};

const QUARTERS: usize = 4;
/// How often is looked how far a drain has come.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Drains beside a transaction that is never ended.
#[derive(Debug, Serialize)]
pub(crate) struct HeldFigures {
    /// The raw classic loop.
    pub(crate) classic: Quarters,
    pub(crate) rows_kept: Quarters,
    pub(crate) rows_deleted: Quarters,
    pub(crate) lanes_kept: Quarters,
    pub(crate) lanes_deleted: Quarters,
    /// The open transaction has itself staged an entry; not on SQLite, where it would be the only writer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lanes_deleted_beside_staging: Option<Quarters>,
}

/// The rates of the four quarters of a drain.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Quarters {
    pub(crate) per_second: [f64; QUARTERS],
    /// The last of the first, as the median of the rounds: below one, it decays.
    pub(crate) last_to_first: f64,
}

/// What the open transaction did before it was left alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Looked,
    Staged,
}

pub(crate) async fn measure(bed: &Bed, args: &BenchArgs, progress: &Progress) -> Result<HeldFigures, Fault> {
    let is_server = !matches!(bed.main.staging, Staging::Sqlite(..));
    let mut all: [Vec<[f64; QUARTERS]>; 6] = Default::default();
    for _ in 0..args.repeat {
        let [classic, relays @ .., staging] = &mut all;
        bed.fill_raw(args.events).await?;
        let holder = hold(bed, Holder::Looked).await?;
        let laps = Laps::new(args.events);
        bed.drain_raw(args.batch, Design::Classic, |count| laps.passed(count)).await?;
        classic.push(laps.rates());
        holder.rollback().await?;
        let kinds = By::BOTH.into_iter().flat_map(|by| [(by, Keep::UntilPurged), (by, Keep::No)]);
        for ((by, keep), quarters) in kinds.zip(relays) {
            quarters.push(beside(bed, args, by, keep, Holder::Looked).await?);
        }
        if is_server {
            staging.push(beside(bed, args, By::Lanes, Keep::No, Holder::Staged).await?);
        }
        progress.add(1);
    }
    let [classic, rows_kept, rows_deleted, lanes_kept, lanes_deleted, staging] = all.map(|all| middle(&all));
    Ok(HeldFigures {
        classic,
        rows_kept,
        rows_deleted,
        lanes_kept,
        lanes_deleted,
        lanes_deleted_beside_staging: is_server.then_some(staging),
    })
}

/// The relay's quarters while the transaction is open.
async fn beside(
    bed: &Bed,
    args: &BenchArgs,
    by: By,
    keep: Keep,
    holder: Holder,
) -> Result<[f64; QUARTERS], Fault> {
    fill(bed, args).await?;
    let holder = hold(bed, holder).await?;
    let relay = by.relay(&bed.main, Arc::new(NullSink), options(args, keep))?;
    let handle = relay.handle();
    let laps = Laps::new(args.events);
    let watched = async {
        loop {
            laps.passed(handle.state().tally.delivered);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let tally = tokio::select! {
        tally = relay.drain() => tally?,
        () = watched => return Err(Fault::failed("nobody watches for ever")),
    };
    laps.passed(tally.delivered);
    holder.rollback().await?;
    Ok(laps.rates())
}

/// A transaction of another pool that stays open until it is rolled back.
async fn hold(bed: &Bed, holder: Holder) -> Result<StagingTx, Fault> {
    let mut held = bed.big.staging.begin_reading().await?;
    held.execute(bed.sql.hold, &[]).await?;
    if holder == Holder::Staged {
        let outbox = bed.main.staging.outbox(&RouteName::new(ROUTE)?);
        let _ = held.stage_all(&outbox, vec![Event::new("bench.event", bed.payload.clone())]).await?;
    }
    Ok(held)
}

/// When each quarter of a drain was done.
struct Laps {
    started: Instant,
    events: u64,
    ends: RefCell<Vec<(u64, Duration)>>,
}

impl Laps {
    fn new(events: u32) -> Self {
        Self { started: Instant::now(), events: events.into(), ends: RefCell::default() }
    }

    /// Notes that so many are done by now.
    fn passed(&self, count: u64) {
        let mut ends = self.ends.borrow_mut();
        let next = u64::try_from(ends.len()).unwrap_or(u64::MAX) + 1;
        if ends.len() < QUARTERS && count * 4 >= self.events * next {
            ends.push((count, self.started.elapsed()));
        }
    }

    /// By what was really done at each end: batches do not stop at a quarter. A quarter that one look passed has the
    /// rate of the one before.
    fn rates(&self) -> [f64; QUARTERS] {
        let (mut rates, mut rate, mut before) = ([0.0; QUARTERS], 0.0, (0, Duration::ZERO));
        for (quarter, end) in self.ends.borrow().iter().enumerate() {
            let seconds = end.1.saturating_sub(before.1).as_secs_f64();
            if end.0 > before.0 && seconds > 0.0 {
                #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
                let count = (end.0 - before.0) as f64;
                rate = count / seconds;
            }
            rates[quarter..].fill(rate);
            before = *end;
        }
        rates
    }
}

fn middle(rounds: &[[f64; QUARTERS]]) -> Quarters {
    let of = |quarter: usize| rounds.iter().map(|rates| rates[quarter]).collect::<Vec<_>>();
    let per_second = [0, 1, 2, 3].map(|quarter| median(&of(quarter)).round());
    Quarters { per_second, last_to_first: ratio(&of(QUARTERS - 1), &of(0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_have_the_rate_of_what_was_done_in_them() {
        let second = Duration::from_secs(1);
        let ends = vec![(30, second), (50, 2 * second), (75, 3 * second), (100, 8 * second)];
        let laps = Laps { started: Instant::now(), events: 100, ends: RefCell::new(ends) };
        assert_eq!(laps.rates(), [30.0, 20.0, 25.0, 5.0]);
        let quarters = middle(&[laps.rates(), [10.0, 20.0, 25.0, 5.0], [90.0, 20.0, 25.0, 5.0]]);
        assert_eq!((quarters.per_second, quarters.last_to_first), ([30.0, 20.0, 25.0, 5.0], 0.17));
    }

    #[test]
    fn one_look_ends_one_quarter_at_most() {
        let laps = Laps::new(8);
        for count in [1, 2, 8, 8, 8, 8] {
            laps.passed(count);
        }
        assert_eq!(laps.ends.borrow().iter().map(|end| end.0).collect::<Vec<_>>(), [2, 8, 8, 8]);
    }

    #[test]
    fn a_drain_of_fewer_batches_than_quarters_has_four_rates() {
        let ends = vec![(60, Duration::from_secs(1)), (100, Duration::from_secs(2))];
        let laps = Laps { started: Instant::now(), events: 100, ends: RefCell::new(ends) };
        assert_eq!(laps.rates(), [60.0, 40.0, 40.0, 40.0]);
    }
}
