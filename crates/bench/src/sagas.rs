//! `--sagas N`: what it costs that steps belong to a saga, beside plain entries with the same handler.

use std::fmt;
use std::sync::Arc;

use pillarbox_cli::context::Context;
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{median, ratio};
use pillarbox_cli::output::{Align, Progress, Table};
use pillarbox_core::port::SagaCounts;
use pillarbox_core::{Reference, RouteName, Saga, SagaBuilder, SagaStatus, Step};
use pillarbox_engine::sink::Handlers;
use pillarbox_engine::{Relay, RelayBuilder, RelayOptions, Tally};
use serde::Serialize;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::by::{fill, per_second};

/// Steps of each saga.
const STEPS: u32 = 3;
/// Sagas that are staged in one transaction.
const STAGE_SAGAS: u32 = 500;
/// Handlers at work at once: none of them waits for anything.
const HANDLERS: usize = 1000;

/// What sagas reach, in steps a second.
#[derive(Debug, Serialize)]
pub(crate) struct SagaReport {
    database: &'static str,
    mode: String,
    sagas: u32,
    steps: u32,
    batch: u32,
    repeat: u32,
    /// Plain entries, as many as there are steps.
    entries_per_second: f64,
    /// Steps of sagas that run them at once.
    group_per_second: f64,
    /// Of the plain entries.
    group_to_entries: f64,
    /// Steps of sagas that run them one after the other.
    ordered_per_second: f64,
    /// Of the plain entries.
    ordered_to_entries: f64,
}

pub(crate) async fn measure(
    bed: &Bed,
    args: &BenchArgs,
    sagas: u32,
    context: &Context,
) -> Result<SagaReport, Fault> {
    let progress = Progress::new(context.out, "measuring", Some(u64::from(args.repeat) * 3));
    let mut plain = args.clone();
    plain.events = sagas.saturating_mul(STEPS);
    let (mut entries, mut group, mut ordered) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.repeat {
        fill(bed, &plain).await?;
        let relay = Relay::builder(Arc::clone(&bed.main.store), handlers()?);
        entries.push(drained(relay, args, plain.events).await?);
        progress.add(1);
        for (of, rates) in [(Saga::group as Of, &mut group), (Saga::ordered, &mut ordered)] {
            stage(bed, sagas, of).await?;
            let store = Arc::clone(&bed.main.store);
            let relay = Relay::sagas(store, bed.main.staging.sagas(), handlers()?);
            rates.push(drained(relay, args, plain.events).await?);
            all_completed(&bed.main.sagas.saga_counts(None).await?, sagas)?;
            progress.add(1);
        }
    }
    Ok(SagaReport {
        database: bed.main.staging.name(),
        mode: bed.main.staging.mode(),
        sagas,
        steps: STEPS,
        batch: args.batch,
        repeat: args.repeat,
        entries_per_second: median(&entries).round(),
        group_per_second: median(&group).round(),
        group_to_entries: ratio(&group, &entries),
        ordered_per_second: median(&ordered).round(),
        ordered_to_entries: ratio(&ordered, &entries),
    })
}

type Of = fn(&'static str, Reference) -> SagaBuilder;

fn handlers() -> Result<Handlers, Fault> {
    Ok(Handlers::new().concurrency(HANDLERS).on("bench.event", async |_| Ok(()))?)
}

async fn drained(relay: RelayBuilder, args: &BenchArgs, all: u32) -> Result<f64, Fault> {
    let mut options = RelayOptions::handlers();
    options.batch = args.batch;
    options.in_flight_max = options.in_flight_max.max(args.batch);
    let tally: Tally = relay.route(ROUTE).options(options).build()?.drain().await?;
    if tally.delivered != u64::from(all) {
        return Err(Fault::failed(format!("{} of {all} entries were delivered", tally.delivered)));
    }
    Ok(per_second(&tally))
}

/// Empties the tables and stages the sagas anew.
async fn stage(bed: &Bed, sagas: u32, of: Of) -> Result<(), Fault> {
    let staging = &bed.main.staging;
    staging.execute(bed.sql.clear_outbox).await?;
    staging.execute(bed.sql.clear_sagas).await?;
    let outbox = staging.outbox(&RouteName::new(ROUTE)?);
    let mut number = 0;
    while number < sagas {
        let mut tx = staging.begin().await?;
        let until = sagas.min(number + STAGE_SAGAS);
        for number in number..until {
            let saga = of("bench", Reference::new("bench", number.to_string()));
            let saga =
                (0..STEPS).fold(saga, |saga, step| saga.step(Step::new(step.to_string(), "bench.event")));
            tx.stage_saga(&outbox, saga.build()?).await?;
        }
        tx.commit().await?;
        number = until;
    }
    bed.settle_down().await
}

/// A rate of sagas that did not end would say nothing.
fn all_completed(counts: &SagaCounts, sagas: u32) -> Result<(), Fault> {
    let completed = counts.of(SagaStatus::Completed);
    if completed == u64::from(sagas) {
        return Ok(());
    }
    Err(Fault::failed(format!("{completed} of {sagas} sagas were completed")))
}

impl fmt::Display for SagaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, mode, sagas, steps, batch, repeat, .. } = self;
        let rounds = if *repeat == 1 { "round" } else { "rounds" };
        writeln!(
            f,
            "{database} ({mode}), {sagas} sagas of {steps} steps, batches of {batch}, median of {repeat} {rounds}\n"
        )?;
        let mut table =
            Table::new(&[("", Align::Left), ("steps a second", Align::Right), ("ratio", Align::Left)]);
        let mut row = |what: &str, rate: f64, of: Option<f64>| {
            let ratio = of.map(|ratio| format!("{ratio:.2} of it")).unwrap_or_default();
            table.row([what.to_owned(), format!("{rate:.0}"), ratio]);
        };
        row("plain entries, same handler", self.entries_per_second, None);
        row("sagas, steps at once", self.group_per_second, Some(self.group_to_entries));
        row("sagas, steps in order", self.ordered_per_second, Some(self.ordered_to_entries));
        write!(f, "{table}")
    }
}
