//! `--from URL`: a consumer of what was sent, with the inbox and without, its handler writing one row each time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pillarbox_cli::database::Staging;
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{median, rate, ratio};
use pillarbox_core::port::{Source, Transactions};
use pillarbox_core::{Error, Result, redact_url};
use pillarbox_engine::sink::HandlerError;
use pillarbox_engine::{Consumer, ConsumerOptions};
use pillarbox_transport_amqp::AmqpSource;
use pillarbox_transport_kafka::KafkaSource;
use pillarbox_transport_mqtt::MqttSource;
use pillarbox_transport_nats::NatsSource;
use pillarbox_transport_redis::RedisSource;
use serde::Serialize;
use tokio::sync::Notify;

use crate::BenchArgs;
use crate::bed::Bed;

/// How long nothing may arrive before the rest counts as missing.
const IDLE_MAX: Duration = Duration::from_secs(10);
const NOTE: &str = "a business row of a plausible length";

/// What a consumer reaches.
#[derive(Debug, Serialize)]
pub(crate) struct ConsumerFigures {
    /// Messages handled at once.
    pub(crate) concurrency: usize,
    /// One row written and committed per event; duplicates would be written twice.
    pub(crate) without_inbox_per_second: f64,
    /// The same with the mark in the inbox.
    pub(crate) with_inbox_per_second: f64,
    /// The second of the first.
    pub(crate) inbox_ratio: f64,
}

/// A place to consume from, checked before anything is touched.
pub(crate) struct FromSource {
    source: Arc<dyn Source>,
    shown: String,
    with: Vec<f64>,
    without: Vec<f64>,
}

/// Whether events are marked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inbox {
    On,
    Off,
}

impl FromSource {
    /// Reads the URL of a source.
    pub(crate) fn new(url: &str) -> Result<Self, Fault> {
        let source = source(url).map_err(|error| Fault::usage(format!("--from: {error}")))?;
        Ok(Self { source, shown: redact_url(url), with: Vec::new(), without: Vec::new() })
    }

    /// Consumes as many events without the inbox and with it. Who goes first changes from round to round.
    pub(crate) async fn round(&mut self, bed: &Bed, args: &BenchArgs) -> Result<(), Fault> {
        let order = [[Inbox::Off, Inbox::On], [Inbox::On, Inbox::Off]];
        for inbox in order[self.with.len() % 2] {
            let rate = self.consume(bed, args, inbox).await.map_err(|fault| fault.context(&self.shown))?;
            match inbox {
                Inbox::On => self.with.push(rate),
                Inbox::Off => self.without.push(rate),
            }
        }
        Ok(())
    }

    pub(crate) fn figures(&self) -> ConsumerFigures {
        ConsumerFigures {
            concurrency: ConsumerOptions::default().concurrency,
            without_inbox_per_second: median(&self.without).round(),
            with_inbox_per_second: median(&self.with).round(),
            inbox_ratio: ratio(&self.with, &self.without),
        }
    }

    async fn consume(&self, bed: &Bed, args: &BenchArgs, inbox: Inbox) -> Result<f64, Fault> {
        bed.settle_down().await?;
        let sql = bed.sql.business;
        let source = Arc::clone(&self.source);
        match &bed.main.staging {
            Staging::Sqlite(store, _) => {
                let write = async |tx: &mut sqlx::Transaction<'static, sqlx::Sqlite>| {
                    sqlx::query(sql).bind(NOTE).execute(&mut **tx).await.map(drop)
                };
                consume(source, store.inbox(), args, inbox, write).await
            }
            Staging::Postgres(store, _) => {
                let write = async |tx: &mut sqlx::Transaction<'static, sqlx::Postgres>| {
                    sqlx::query(sql).bind(NOTE).execute(&mut **tx).await.map(drop)
                };
                consume(source, store.inbox(), args, inbox, write).await
            }
            Staging::Mongo(..) => Err(Fault::usage("consuming is measured on SQL databases only")),
            Staging::MySql(store, _) => {
                let write = async |tx: &mut sqlx::Transaction<'static, sqlx::MySql>| {
                    sqlx::query(sql).bind(NOTE).execute(&mut **tx).await.map(drop)
                };
                consume(source, store.inbox(), args, inbox, write).await
            }
        }
    }
}

fn source(url: &str) -> Result<Arc<dyn Source>> {
    let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
    Ok(match scheme.as_str() {
        "amqp" | "amqps" => Arc::new(AmqpSource::new(url)?),
        "kafka" | "kafkas" => Arc::new(KafkaSource::new(url)?),
        "mqtt" | "mqtts" => Arc::new(MqttSource::new(url)?),
        "nats" | "tls" => Arc::new(NatsSource::new(url)?),
        "redis" | "rediss" | "valkey" | "valkeys" => Arc::new(RedisSource::new(url)?),
        _ => {
            return Err(Error::invalid(
                "cannot consume from this URL. Use amqp(s)://…?queue=, kafka(s)://…?group=, \
                 mqtt(s)://…?client_id=, nats://…?stream=&durable= or redis(s)://…?stream=&group=",
            ));
        }
    })
}

/// Consumes until enough events were handled, and says how fast from the first to the last.
async fn consume<S: Transactions>(
    source: Arc<dyn Source>,
    transactions: S,
    args: &BenchArgs,
    inbox: Inbox,
    write: impl AsyncFn(&mut S::Tx) -> sqlx::Result<()>,
) -> Result<f64, Fault> {
    let mut options = ConsumerOptions::default();
    options.dedup = inbox == Inbox::On;
    options.idle = Some(IDLE_MAX);
    let consumer =
        Consumer::builder(source, Arc::new(transactions)).name("bench").options(options).build()?;
    let all = u64::from(args.events);
    let (begun, handled) = (OnceLock::new(), AtomicU64::new(0));
    let (reached, enough) = (OnceLock::new(), Notify::new());
    let tally = consumer
        .run(enough.notified(), async |tx, _event| {
            let begun = *begun.get_or_init(Instant::now);
            write(tx).await.map_err(|error| HandlerError::retry("database", error.to_string()))?;
            if handled.fetch_add(1, Ordering::Relaxed) + 1 == all {
                // Only the last one comes here.
                let _ = reached.set(rate(all, begun));
                enough.notify_one();
            }
            Ok(())
        })
        .await?;
    reached.into_inner().ok_or_else(|| {
        let came = tally.processed;
        Fault::failed(format!(
            "only {came} of {all} events arrived; check that --from receives what --to sends",
        ))
    })
}
