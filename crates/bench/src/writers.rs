//! `--writers N`: many tasks that stage at once in a SQLite file, beside a relay: in line, and each polling the lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox_cli::database::{Staging, StagingTx};
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{Committed, Milliseconds, Stamping, beside, median, ratio};
use pillarbox_cli::output::Progress;
use pillarbox_core::port::{Keep, Sink};
use pillarbox_core::{Event, EventId, RouteName};
use pillarbox_engine::sink::NullSink;
use serde::Serialize;
use tokio::task::JoinSet;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::by::{By, options};
use super::latency::afresh;
use super::sql::Sql;

/// Each round is in so many turns, so that both ways meet the same weather.
const TURNS: u32 = 5;
/// Transactions of one writer in one turn.
const TRANSACTIONS: u32 = 50;
/// What a writer does between two of them.
const PAUSE: Duration = Duration::from_millis(1);

/// Writers at once.
#[derive(Debug, Serialize)]
pub(crate) struct WritersFigures {
    pub(crate) writers: u32,
    /// Transactions that wait in line with each other and the relay: `store.begin()`.
    pub(crate) in_line: Way,
    /// Transactions of a pool, each of which polls the lock of the file: `pool.begin_with("BEGIN IMMEDIATE")`.
    pub(crate) polling: Way,
    /// The 99th percentile of polling of the one in line, as the median of the turns.
    pub(crate) polling_p99_to_in_line: f64,
    /// The rate in line of the one of polling.
    pub(crate) in_line_to_polling: f64,
}

/// One way to the write lock.
#[derive(Debug, Serialize)]
pub(crate) struct Way {
    /// Transactions of all writers together.
    pub(crate) per_second: f64,
    /// One transaction, from asking for it to its commit.
    pub(crate) transaction: Milliseconds,
    /// From a commit to the destination's confirmation.
    pub(crate) commit_to_confirm: Milliseconds,
}

/// How a transaction is begun.
#[derive(Clone, Copy)]
enum Begin {
    InLine,
    Polling,
}

/// Refuses a database that lets many writers in at once.
pub(crate) fn check(bed: &Bed, args: &BenchArgs) -> Result<(), Fault> {
    if args.writers > 0 && !matches!(bed.main.staging, Staging::Sqlite(..)) {
        return Err(Fault::usage(
            "--writers works on SQLite only, which has one writer at a time; leave it out",
        ));
    }
    Ok(())
}

pub(crate) async fn measure(
    bed: &Bed,
    args: &BenchArgs,
    progress: &Progress,
) -> Result<WritersFigures, Fault> {
    let (mut in_line, mut polling) = (Turns::default(), Turns::default());
    for _ in 0..args.repeat {
        for _ in 0..TURNS {
            in_line.add(bed, args, Begin::InLine).await?;
            polling.add(bed, args, Begin::Polling).await?;
        }
        progress.add(1);
    }
    Ok(WritersFigures {
        writers: args.writers,
        polling_p99_to_in_line: ratio(&polling.p99, &in_line.p99),
        in_line_to_polling: ratio(&in_line.rates, &polling.rates),
        in_line: in_line.way(),
        polling: polling.way(),
    })
}

#[derive(Default)]
struct Turns {
    rates: Vec<f64>,
    p99: Vec<f64>,
    took: Vec<Duration>,
    confirmed: Vec<Duration>,
}

impl Turns {
    /// One more turn, with a relay by rows beside the writers.
    async fn add(&mut self, bed: &Bed, args: &BenchArgs, begin: Begin) -> Result<(), Fault> {
        afresh(bed).await?;
        let sink = Arc::new(Stamping::new(Arc::new(NullSink)));
        let relay = By::Rows.relay(
            &bed.main,
            Arc::clone(&sink) as Arc<dyn Sink>,
            options(args, Keep::UntilPurged),
        )?;
        let mut lasted = Duration::ZERO;
        let committed = beside(&relay, &sink, async {
            let started = Instant::now();
            let committed = write(bed, args.writers, begin).await;
            lasted = started.elapsed();
            committed
        })
        .await?;
        let took: Vec<Duration> = committed.iter().map(|one| one.took).collect();
        self.rates.push(f64::from(args.writers * TRANSACTIONS) / lasted.as_secs_f64());
        self.p99.push(Milliseconds::of(&took).p99);
        self.took.extend(took);
        self.confirmed.extend(sink.waited(&committed));
        Ok(())
    }

    fn way(&self) -> Way {
        Way {
            per_second: median(&self.rates).round(),
            transaction: Milliseconds::of(&self.took),
            commit_to_confirm: Milliseconds::of(&self.confirmed),
        }
    }
}

/// All writers, each a task as the requests of a service are.
async fn write(bed: &Bed, writers: u32, begin: Begin) -> Result<Vec<Committed>, Fault> {
    let mut tasks = JoinSet::new();
    for _ in 0..writers {
        let (staging, sql, payload) = (bed.main.staging.clone(), bed.sql, bed.payload.clone());
        tasks.spawn(async move { transactions(&staging, sql, &payload, begin).await });
    }
    let mut committed = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        committed.extend(ended.map_err(|error| Fault::failed(format!("a writer panicked: {error}")))??);
    }
    Ok(committed)
}

async fn transactions(
    staging: &Staging,
    sql: &Sql,
    payload: &[u8],
    begin: Begin,
) -> Result<Vec<Committed>, Fault> {
    let outbox = staging.outbox(&RouteName::new(ROUTE)?);
    let mut committed = Vec::new();
    for _ in 0..TRANSACTIONS {
        let id = EventId(uuid::Uuid::now_v7());
        let begun = Instant::now();
        let mut tx = match begin {
            Begin::InLine => staging.begin().await?,
            Begin::Polling => polling(staging).await?,
        };
        tx.execute(sql.business, &["a business row of a plausible length"]).await?;
        let _ = tx.stage_all(&outbox, vec![Event::new("bench.event", payload.to_vec()).id(id)]).await?;
        tx.commit().await?;
        committed.push(Committed { id, took: begun.elapsed(), at: Instant::now() });
        tokio::time::sleep(PAUSE).await;
    }
    Ok(committed)
}

async fn polling(staging: &Staging) -> Result<StagingTx, Fault> {
    let Staging::Sqlite(store, _) = staging else { return Err(Fault::failed("only SQLite is polled")) };
    let begun = store.pool().begin_with("BEGIN IMMEDIATE").await;
    begun.map(StagingTx::Sqlite).map_err(|error| Fault::failed(format!("no transaction: {error}")))
}
