//! The figures of a run, as JSON and for people.

use std::fmt;

use pillarbox_cli::measure::Milliseconds;
use pillarbox_cli::output::{Align, Table};
use serde::Serialize;

use super::BenchArgs;
use super::bed::Bed;
use super::cost::Cost;
use super::drain::{Both, DrainFigures};
use super::growth::{Growth, GrowthFigures};
use super::held::HeldFigures;
use super::latency::LatencyFigures;
use super::memory::MemoryFigures;
use super::stage::StageFigures;
use super::writers::WritersFigures;

/// Everything that was measured, and on what.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) database: &'static str,
    pub(crate) mode: String,
    pub(crate) events: u32,
    pub(crate) batch: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) repeat: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stage: Option<StageFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drain: Option<DrainFigures>,
    pub(crate) growth: GrowthFigures,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held: Option<HeldFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<LatencyFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) writers: Option<WritersFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<MemoryFigures>,
}

impl Report {
    /// Nothing measured yet.
    pub(crate) fn new(bed: &Bed, args: &BenchArgs) -> Self {
        Self {
            database: bed.main.staging.name(),
            mode: bed.main.staging.mode(),
            events: args.events,
            batch: args.batch,
            payload_bytes: args.payload,
            repeat: args.repeat,
            stage: None,
            drain: None,
            growth: GrowthFigures::default(),
            held: None,
            latency: None,
            writers: None,
            memory: None,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, mode, events, batch, payload_bytes, repeat, .. } = self;
        let rounds = if *repeat == 1 { "round" } else { "rounds" };
        write!(
            f,
            "{database} ({mode}), {events} entries of {payload_bytes} bytes, batches of {batch}, median of {repeat} \
             {rounds}"
        )?;
        let mut rates = Rates::new();
        self.stage.iter().for_each(|stage| rates.stage(stage));
        self.drain.iter().for_each(|drain| rates.drain(drain));
        rates.grown(self.events, "settled", self.growth.settled.as_ref());
        rates.grown(self.events, "pending", self.growth.pending.as_ref());
        if rates.any {
            write!(f, "\n\n{}", rates.table)?;
        }
        if let Some(held) = &self.held {
            write!(f, "\n\n{}", quarters(held))?;
        }
        if let Some(latency) = &self.latency {
            write!(f, "\n\n{}", Latency(latency))?;
        }
        if let Some(writers) = &self.writers {
            write!(f, "\n\n{} writers at once\n{}", writers.writers, at_once(writers))?;
        }
        if let Some(MemoryFigures { backlog, rows_peak_bytes, lanes_peak_bytes }) = &self.memory {
            for (by, peak) in [("rows", rows_peak_bytes), ("lanes", lanes_peak_bytes)] {
                if let Some(peak) = peak {
                    let mebibytes = peak.div_ceil(1024 * 1024);
                    write!(f, "\n\nmemory of a relay by {by} at most {mebibytes} MiB, backlog {backlog}")?;
                }
            }
        }
        Ok(())
    }
}

/// The table of rates.
struct Rates {
    table: Table,
    any: bool,
}

impl Rates {
    fn new() -> Self {
        let columns =
            [("", Align::Left), ("a second", Align::Right), ("ratio", Align::Left), ("server", Align::Left)];
        Self { table: Table::new(&columns), any: false }
    }

    fn row(&mut self, what: &str, rate: f64, ratio: String, cost: Option<Cost>) {
        self.any = true;
        self.table.row([what.to_owned(), format!("{rate:.0}"), ratio, cost.map(shown).unwrap_or_default()]);
    }

    fn stage(&mut self, stage: &StageFigures) {
        for (what, bare, with, ratio, row_ratio) in [
            (
                "transaction of one insert",
                stage.business_per_second,
                stage.business_with_event_per_second,
                stage.ratio,
                stage.row_ratio,
            ),
            (
                "transaction of an order",
                stage.orders_per_second,
                stage.orders_with_event_per_second,
                stage.orders_ratio,
                stage.orders_row_ratio,
            ),
        ] {
            self.row(what, bare, String::new(), None);
            let ratios = format!("{ratio:.2} of it; one more plain row instead: {row_ratio:.2}");
            self.row("  with one staged event", with, ratios, None);
        }
        self.row("staging, 1000 a call", stage.bulk_per_second, String::new(), None);
    }

    fn drain(&mut self, drain: &DrainFigures) {
        for (what, raw) in [
            ("classic", &drain.classic),
            ("lane, kept", &drain.lane_kept),
            ("lane, deleted", &drain.lane_deleted),
        ] {
            self.row(&format!("drain, raw loop, {what}"), raw.per_second, String::new(), raw.cost);
        }
        for (by, Both { kept, deleted }) in [("rows", &drain.rows), ("lanes", &drain.lanes)] {
            for (keep, drained) in [("kept", kept), ("deleted", deleted)] {
                let bare = format!("drain, bare store, {by}, {keep}");
                self.row(&bare, drained.bare_per_second, String::new(), None);
                let lane = drained.relay_to_lane.map(|ratio| format!(", {ratio:.2} of the raw lane"));
                let ratio = format!(
                    "{:.2} of bare, {:.2} of classic{}",
                    drained.relay_to_bare,
                    drained.relay_to_classic,
                    lane.unwrap_or_default()
                );
                self.row(&format!("drain, {by}, {keep}"), drained.relay_per_second, ratio, drained.cost);
            }
        }
    }

    fn grown(&mut self, events: u32, what: &str, growth: Option<&Growth>) {
        let Some(Growth { entries, rows, lanes }) = growth else { return };
        for (by, grown) in [("rows", rows), ("lanes", lanes)] {
            self.row(&format!("drain, {by}, {events} {what}"), grown.small_per_second, String::new(), None);
            let ratio = format!("{:.2} of it", grown.ratio);
            self.row(&format!("  with {entries} {what}"), grown.grown_per_second, ratio, None);
        }
    }
}

fn shown(cost: Cost) -> String {
    let cpu = cost.server_cpu_micros.map(|micros| format!("{micros:.1} µs, ")).unwrap_or_default();
    format!("{cpu}{:.0} B of WAL", cost.wal_bytes)
}

fn quarters(held: &HeldFigures) -> Table {
    let mut table = Table::new(&[
        ("beside an open transaction", Align::Left),
        ("1st quarter", Align::Right),
        ("2nd", Align::Right),
        ("3rd", Align::Right),
        ("4th", Align::Right),
        ("last of first", Align::Right),
    ]);
    let staging = held.lanes_deleted_beside_staging.as_ref();
    for (what, quarters) in [
        ("raw classic loop", Some(&held.classic)),
        ("rows, kept", Some(&held.rows_kept)),
        ("rows, deleted", Some(&held.rows_deleted)),
        ("lanes, kept", Some(&held.lanes_kept)),
        ("lanes, deleted", Some(&held.lanes_deleted)),
        ("lanes, deleted, it has staged", staging),
    ] {
        let Some(quarters) = quarters else { continue };
        let [first, second, third, fourth] = quarters.per_second.map(|rate| format!("{rate:.0}"));
        let ratio = format!("{:.2}", quarters.last_to_first);
        table.row([what.to_owned(), first, second, third, fourth, ratio]);
    }
    table
}

fn at_once(figures: &WritersFigures) -> Table {
    let mut table = Table::new(&[
        ("transactions", Align::Left),
        ("a second", Align::Right),
        ("p50 ms", Align::Right),
        ("p99 ms", Align::Right),
        ("commit to confirmation, p50", Align::Right),
        ("p99 ms", Align::Right),
        ("", Align::Left),
    ]);
    let (rate, p99) = (figures.in_line_to_polling, figures.polling_p99_to_in_line);
    for (what, way, ratio) in [
        ("in line", &figures.in_line, format!("{rate:.2} of the rate of polling")),
        ("polling", &figures.polling, format!("p99 of a transaction {p99:.2} of in line")),
    ] {
        let [transaction, confirmed] = [way.transaction, way.commit_to_confirm];
        let times = [transaction.p50, transaction.p99, confirmed.p50, confirmed.p99];
        let [p50, p99, confirmed_p50, confirmed_p99] = times.map(|time| format!("{time:.2}"));
        let rate = format!("{:.0}", way.per_second);
        table.row([what.to_owned(), rate, p50, p99, confirmed_p50, confirmed_p99, ratio]);
    }
    table
}

/// The lines about latency, also below the table of a destination.
pub(crate) struct Latency<'a>(pub(crate) &'a LatencyFigures);

impl fmt::Display for Latency<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LatencyFigures { events, per_second, writer_alone, rows, lanes } = self.0;
        let columns =
            [("milliseconds", Align::Left), ("p50", Align::Right), ("p99", Align::Right), ("", Align::Left)];
        let mut table = Table::new(&columns);
        let mut row = |what: &str, times: &Milliseconds, ratio: String| {
            table.row([what.to_owned(), format!("{:.2}", times.p50), format!("{:.2}", times.p99), ratio]);
        };
        row("writer, no relay", writer_alone, String::new());
        for (by, delivery) in [("rows", rows), ("lanes", lanes)] {
            let ratio = format!("p99 {:.2} of alone, median of the turns", delivery.writer_p99_to_alone);
            row(&format!("writer beside a relay by {by}"), &delivery.writer, ratio);
            row(&format!("commit to confirmation, {by}"), &delivery.commit_to_confirm, String::new());
        }
        write!(f, "{events} events, {per_second} a second\n{table}")
    }
}
