//! `--consume N`: a consumer of events from memory, one by one and in batches, beside a plain loop that writes the same
//! rows.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pillarbox_cli::context::Context;
use pillarbox_cli::database::Staging;
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{median, rate, ratio};
use pillarbox_cli::output::{Align, Progress, Table};
use pillarbox_core::port::{Message, Receipt, Source, SourceCapabilities, Subscription, Transactions};
use pillarbox_core::{Headers, Received, Result};
use pillarbox_engine::sink::HandlerError;
use pillarbox_engine::{Consumer, ConsumerOptions};
use serde::Serialize;
use tokio::sync::Notify;
use uuid::Uuid;

use super::BenchArgs;
use super::bed::Bed;

/// Events of one batch.
const BATCH: usize = 100;
const NOTE: &str = "a business row of a plausible length";

/// What a consumer reaches, in events a second.
#[derive(Debug, Serialize)]
pub(crate) struct ConsumeReport {
    database: &'static str,
    events: u32,
    batch: usize,
    repeat: u32,
    /// A transaction for each event, as many at once as a consumer has by default.
    single_per_second: f64,
    /// Batches; the handler is called for each event, and writes one row each time.
    each_per_second: f64,
    /// Of one by one.
    each_to_single: f64,
    /// Batches; the handler is called once, and writes its rows in one statement.
    batch_per_second: f64,
    /// Of one by one.
    batch_to_single: f64,
    /// A plain loop: in each transaction one statement with the marks, and one with the rows.
    raw_per_second: f64,
    /// The batches of the plain loop.
    batch_to_raw: f64,
}

/// The statements of the plain loop and of a handler that writes a batch.
struct Sql {
    /// `$1` notes as JSON.
    rows: &'static str,
    /// `$1` event ids as JSON.
    marks: &'static str,
}

const SQLITE: Sql = Sql {
    rows: "insert into pillarbox_bench_business (note) select value from json_each($1)",
    marks: "insert into pillarbox_bench_inbox (consumer, event_id, accepted_at)
        select 'raw', value, 0 from json_each($1)",
};
const POSTGRES: Sql = Sql {
    rows: "insert into pillarbox_bench.business (note) select * from json_array_elements_text($1::text::json)",
    marks: "insert into pillarbox_bench.pillarbox_inbox (consumer, event_id, accepted_at)
        select 'raw', id::uuid, now() from json_array_elements_text($1::text::json) as id",
};

/// How events are consumed.
#[derive(Clone, Copy)]
enum Way {
    Single,
    Each,
    Together,
}

pub(crate) async fn measure(
    bed: &Bed,
    args: &BenchArgs,
    events: u32,
    context: &Context,
) -> Result<ConsumeReport, Fault> {
    let progress = Progress::new(context.out, "measuring", Some(u64::from(args.repeat) * 4));
    let (mut single, mut each, mut batch, mut raw) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.repeat {
        for (way, rates) in [(Way::Single, &mut single), (Way::Each, &mut each), (Way::Together, &mut batch)]
        {
            rates.push(consumed(bed, events, way).await?);
            progress.add(1);
        }
        raw.push(written(bed, events).await?);
        progress.add(1);
    }
    Ok(ConsumeReport {
        database: bed.main.staging.name(),
        events,
        batch: BATCH,
        repeat: args.repeat,
        single_per_second: median(&single).round(),
        each_per_second: median(&each).round(),
        each_to_single: ratio(&each, &single),
        batch_per_second: median(&batch).round(),
        batch_to_single: ratio(&batch, &single),
        raw_per_second: median(&raw).round(),
        batch_to_raw: ratio(&batch, &raw),
    })
}

async fn consumed(bed: &Bed, events: u32, way: Way) -> Result<f64, Fault> {
    bed.settle_down().await?;
    let one = bed.sql.business;
    match &bed.main.staging {
        Staging::Sqlite(store, _) => {
            let write = async |tx: &mut sqlx::Transaction<'static, sqlx::Sqlite>, rows: Rows| {
                let (sql, value) = rows.query(one, SQLITE.rows);
                sqlx::query(sql).bind(value).execute(&mut **tx).await.map(drop)
            };
            consume(store.inbox(), events, way, write).await
        }
        Staging::Postgres(store, _) => {
            let write = async |tx: &mut sqlx::Transaction<'static, sqlx::Postgres>, rows: Rows| {
                let (sql, value) = rows.query(one, POSTGRES.rows);
                sqlx::query(sql).bind(value).execute(&mut **tx).await.map(drop)
            };
            consume(store.inbox(), events, way, write).await
        }
        _ => Err(unmeasured()),
    }
}

/// What the handler writes.
#[derive(Clone, Copy)]
enum Rows {
    One,
    Many(usize),
}

impl Rows {
    fn query(self, one: &'static str, many: &'static str) -> (&'static str, String) {
        match self {
            Self::One => (one, NOTE.to_owned()),
            Self::Many(count) => (many, notes(count)),
        }
    }
}

async fn written(bed: &Bed, events: u32) -> Result<f64, Fault> {
    bed.settle_down().await?;
    match &bed.main.staging {
        Staging::Sqlite(..) => raw(&bed.main.staging, events, &SQLITE).await,
        Staging::Postgres(..) => raw(&bed.main.staging, events, &POSTGRES).await,
        _ => Err(unmeasured()),
    }
}

fn unmeasured() -> Fault {
    Fault::usage("--consume is measured on SQLite and PostgreSQL")
}

/// The plain loop.
async fn raw(staging: &Staging, events: u32, sql: &Sql) -> Result<f64, Fault> {
    let batches = events.div_ceil(u32::try_from(BATCH).unwrap_or(u32::MAX));
    let begun = Instant::now();
    for _ in 0..batches {
        let ids: Vec<String> = (0..BATCH).map(|_| Uuid::now_v7().to_string()).collect();
        let ids = format!("[\"{}\"]", ids.join("\",\""));
        let mut tx = staging.begin().await?;
        tx.execute(sql.marks, &[&ids]).await?;
        tx.execute(sql.rows, &[&notes(BATCH)]).await?;
        tx.commit().await?;
    }
    Ok(rate(u64::from(batches) * BATCH as u64, begun))
}

fn notes(count: usize) -> String {
    format!("[\"{}\"]", vec![NOTE; count].join("\",\""))
}

/// Consumes until all events were handled and answered, and says how fast.
async fn consume<S: Transactions>(
    inbox: S,
    events: u32,
    way: Way,
    write: impl AsyncFn(&mut S::Tx, Rows) -> sqlx::Result<()>,
) -> Result<f64, Fault> {
    let options = match way {
        Way::Single => ConsumerOptions::default(),
        Way::Each | Way::Together => ConsumerOptions::default().batch(BATCH, Duration::from_millis(5)),
    };
    let source = Prepared::new(events);
    let answered = Arc::clone(&source.answered);
    let consumer = Consumer::builder(source, inbox).name("bench").options(options).build()?;
    let failed = |error: sqlx::Error| HandlerError::retry("database", error.to_string());
    let begun = Instant::now();
    let tally = match way {
        Way::Single | Way::Each => {
            let handler = async |tx: &mut S::Tx, _: Received| write(tx, Rows::One).await.map_err(failed);
            consumer.run(answered.all(), handler).await?
        }
        Way::Together => {
            let handler = async |tx: &mut S::Tx, events: Vec<Received>| {
                write(tx, Rows::Many(events.len())).await.map_err(failed)
            };
            consumer.run_batches(answered.all(), handler).await?
        }
    };
    if tally.processed != u64::from(events) {
        return Err(Fault::failed(format!(
            "{} of {events} events were processed: {tally:?}",
            tally.processed
        )));
    }
    Ok(rate(u64::from(events), begun))
}

/// A source of events that are in memory, so that no broker is measured.
struct Prepared {
    messages: Arc<Mutex<VecDeque<Message>>>,
    answered: Arc<Answered>,
}

struct Answered {
    left: AtomicU64,
    all: Notify,
}

impl Answered {
    async fn all(&self) {
        self.all.notified().await;
    }
}

impl Prepared {
    fn new(events: u32) -> Self {
        let answered = Arc::new(Answered { left: AtomicU64::new(events.into()), all: Notify::new() });
        let message = |_| {
            let attributes = [
                ("specversion", "1.0".to_owned()),
                ("id", Uuid::now_v7().to_string()),
                ("type", "bench.event".to_owned()),
                ("source", "bench".to_owned()),
            ];
            Message {
                attributes: attributes.map(|(name, value)| (name.to_owned(), value)).into(),
                headers: Headers::new(),
                body: NOTE.into(),
                delivery_count: None,
                position: None,
                receipt: Box::new(Counted(Arc::clone(&answered))),
            }
        };
        Self { messages: Arc::new(Mutex::new((0..events).map(message).collect())), answered }
    }
}

#[async_trait]
impl Source for Prepared {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities::default()
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        Ok(Box::new(Left(Arc::clone(&self.messages))))
    }
}

struct Left(Arc<Mutex<VecDeque<Message>>>);

#[async_trait]
impl Subscription for Left {
    async fn next(&mut self) -> Result<Option<Message>> {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match next {
            Some(message) => Ok(Some(message)),
            None => std::future::pending().await,
        }
    }
}

/// Counts an acknowledgement. Anything else leaves the measurement short of events, which fails it.
struct Counted(Arc<Answered>);

#[async_trait]
impl Receipt for Counted {
    async fn ack(self: Box<Self>) -> Result<()> {
        if self.0.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.all.notify_one();
        }
        Ok(())
    }

    async fn nack(self: Box<Self>) -> Result<()> {
        self.ack().await
    }

    async fn park(self: Box<Self>) -> Result<()> {
        self.ack().await
    }
}

impl fmt::Display for ConsumeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, events, batch, repeat, .. } = self;
        writeln!(
            f,
            "{database}, {events} events from memory, batches of {batch}, median of {repeat} rounds\n"
        )?;
        let mut table =
            Table::new(&[("", Align::Left), ("events a second", Align::Right), ("ratio", Align::Left)]);
        let mut row = |what: &str, rate: f64, ratio: String| {
            table.row([what.to_owned(), format!("{rate:.0}"), ratio]);
        };
        row("one by one", self.single_per_second, String::new());
        let each = format!("{:.1} times one by one", self.each_to_single);
        row("in batches, a handler of one", self.each_per_second, each);
        let batch = format!(
            "{:.1} times one by one, {:.2} of the plain loop",
            self.batch_to_single, self.batch_to_raw
        );
        row("in batches, a batch handler", self.batch_per_second, batch);
        row("a plain loop with the same rows", self.raw_per_second, String::new());
        write!(f, "{table}")
    }
}
