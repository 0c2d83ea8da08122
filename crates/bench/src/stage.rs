//! Staging: what one staged event costs a business transaction, and how fast many are staged.

use std::ops::Range;
use std::time::{Duration, Instant};

use pillarbox_cli::database::{Staging, StagingTx};
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{median, rate, ratio};
use pillarbox_cli::output::Progress;
use pillarbox_core::port::Entropy;
use pillarbox_core::{Event, RouteName};
use pillarbox_host::OsEntropy;
use serde::Serialize;
use tokio::task::JoinSet;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::sql::Sql;

/// Turns of each round.
const TURNS: u32 = 20;
/// Events of one bulk call.
const BULK: u32 = 1000;

/// What staging reaches.
#[derive(Debug, Serialize)]
pub(crate) struct StageFigures {
    /// Business transactions a second, nothing staged.
    pub(crate) business_per_second: f64,
    /// The same with one event staged in each.
    pub(crate) business_with_event_per_second: f64,
    /// The second of the first.
    pub(crate) ratio: f64,
    /// The first with one more plain row of the same length instead of the event, of the first: what an event would
    /// cost that needs no more than a row.
    pub(crate) row_ratio: f64,
    /// Orders a second, nothing staged: one row read, one updated, two inserted.
    pub(crate) orders_per_second: f64,
    /// The same with one event staged in each.
    pub(crate) orders_with_event_per_second: f64,
    /// The second of the first.
    pub(crate) orders_ratio: f64,
    /// An order with one more plain row instead of the event, of one without.
    pub(crate) orders_row_ratio: f64,
    /// Events a second, a thousand a call.
    pub(crate) bulk_per_second: f64,
}

/// What a business transaction does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Business {
    /// One INSERT: the least that a transaction can be, so that the share of staging is the largest.
    Insert,
    /// One row read, one updated, two inserted, as an order would.
    Order,
}

/// Products that are ordered. No two writers order one at the same time: it is staging that is measured, not waiting.
const PRODUCTS: u32 = 1000;

/// What a business transaction does besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    Nothing,
    /// Writes a row of the event's length to a table with nothing but a primary key.
    Row,
    Event,
}

pub(crate) async fn measure(bed: &Bed, args: &BenchArgs, progress: &Progress) -> Result<StageFigures, Fault> {
    bed.main.staging.execute(bed.sql.load_products).await?;
    let (mut inserts, mut orders, mut bulk) = (Rates::default(), Rates::default(), Vec::new());
    for _ in 0..args.repeat {
        inserts.add(bed, args, Business::Insert).await?;
        orders.add(bed, args, Business::Order).await?;
        bulk.push(many(bed, args).await?);
        bed.main.staging.execute(bed.sql.clear_outbox).await?;
        progress.add(1);
    }
    Ok(StageFigures {
        business_per_second: median(&inserts.bare).round(),
        business_with_event_per_second: median(&inserts.event).round(),
        ratio: ratio(&inserts.event, &inserts.bare),
        row_ratio: ratio(&inserts.row, &inserts.bare),
        orders_per_second: median(&orders.bare).round(),
        orders_with_event_per_second: median(&orders.event).round(),
        orders_ratio: ratio(&orders.event, &orders.bare),
        orders_row_ratio: ratio(&orders.row, &orders.bare),
        bulk_per_second: median(&bulk).round(),
    })
}

/// Transactions a second in each round, by what they do besides.
#[derive(Default)]
struct Rates {
    bare: Vec<f64>,
    event: Vec<f64>,
    row: Vec<f64>,
}

impl Rates {
    /// One more round. Short turns, one after the other: a machine that is slower for a second is so for all three.
    async fn add(&mut self, bed: &Bed, args: &BenchArgs, business: Business) -> Result<(), Fault> {
        bed.settle_down().await?;
        let each = args.transactions.div_ceil(TURNS);
        let (mut bare, mut event, mut row) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for turn in 0..TURNS {
            let numbers = turn * each..(turn + 1) * each;
            bare += turn_of(bed, args, numbers.clone(), business, With::Nothing).await?;
            event += turn_of(bed, args, numbers.clone(), business, With::Event).await?;
            row += turn_of(bed, args, numbers, business, With::Row).await?;
        }
        let rate = |took: Duration| f64::from(each * TURNS) / took.as_secs_f64();
        self.bare.push(rate(bare));
        self.event.push(rate(event));
        self.row.push(rate(row));
        Ok(())
    }
}

/// How long these transactions take.
async fn turn_of(
    bed: &Bed,
    args: &BenchArgs,
    numbers: Range<u32>,
    business: Business,
    with: With,
) -> Result<Duration, Fault> {
    let clients = match bed.main.staging {
        Staging::Sqlite(..) => 1,
        Staging::Postgres(..) | Staging::MySql(..) | Staging::Mongo(..) => args.clients,
    };
    let started = Instant::now();
    // Each a task, as the requests of a service are: one task for all would be what is measured.
    let mut writers = JoinSet::new();
    for client in 0..clients {
        let writer = Writer { staging: bed.main.staging.clone(), sql: bed.sql, payload: bed.payload.clone() };
        // What is left over by the division goes to the first ones.
        let numbers = numbers.clone().skip(client.try_into().unwrap_or(0));
        let numbers = numbers.step_by(clients.try_into().unwrap_or(1));
        writers.spawn(async move { writer.transactions(numbers, business, with).await });
    }
    while let Some(ended) = writers.join_next().await {
        ended.map_err(|error| Fault::failed(format!("a writer panicked: {error}")))??;
    }
    Ok(started.elapsed())
}

/// One client of the application's database.
struct Writer {
    staging: Staging,
    sql: &'static Sql,
    payload: Vec<u8>,
}

impl Writer {
    async fn transactions(
        &self,
        numbers: impl Iterator<Item = u32>,
        business: Business,
        with: With,
    ) -> Result<(), Fault> {
        let outbox = self.staging.outbox(&RouteName::new(ROUTE)?);
        for number in numbers {
            let mut tx = self.staging.begin().await?;
            match business {
                Business::Insert => {
                    tx.execute(self.sql.business, &["a business row of a plausible length"]).await?
                }
                Business::Order => order(self.sql, &mut tx, number).await?,
            }
            match with {
                With::Nothing => {}
                With::Row => {
                    tx.execute(self.sql.business, &[&String::from_utf8_lossy(&self.payload)]).await?
                }
                With::Event => {
                    let event = Event::new("bench.event", self.payload.clone());
                    let _ = tx.stage_all(&outbox, vec![event]).await?;
                }
            }
            tx.commit().await?;
        }
        Ok(())
    }
}

async fn order(sql: &Sql, tx: &mut StagingTx, number: u32) -> Result<(), Fault> {
    let (order, product) = (OsEntropy.event_id().to_string(), (number % PRODUCTS + 1).to_string());
    let [read, lower, insert, insert_line] = sql.order;
    tx.execute(read, &[&product]).await?;
    tx.execute(lower, &[&product]).await?;
    tx.execute(insert, &[&order, &product]).await?;
    tx.execute(insert_line, &[&order, &product]).await?;
    Ok(())
}

async fn many(bed: &Bed, args: &BenchArgs) -> Result<f64, Fault> {
    let route = RouteName::new(ROUTE)?;
    let outbox = bed.main.staging.outbox(&route);
    bed.settle_down().await?;
    let started = Instant::now();
    let mut left = args.events;
    while left > 0 {
        let now = left.min(BULK);
        let events = (0..now).map(|_| Event::new("bench.event", bed.payload.clone())).collect();
        let mut tx = bed.main.staging.begin().await?;
        let _ = tx.stage_all(&outbox, events).await?;
        tx.commit().await?;
        left -= now;
    }
    Ok(rate(u64::from(args.events), started))
}
