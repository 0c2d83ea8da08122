//! The figures of a run, as JSON and for people.

use std::fmt;

use serde::Serialize;

use super::drain::DrainFigures;
use super::growth::{Grown, GrowthFigures};
use super::memory::MemoryFigures;
use super::stage::StageFigures;
use crate::output::{Align, Table};

/// Everything that was measured, and on what.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) database: &'static str,
    pub(crate) mode: String,
    pub(crate) events: u32,
    pub(crate) batch: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) repeat: u32,
    pub(crate) stage: StageFigures,
    pub(crate) drain: DrainFigures,
    pub(crate) growth: GrowthFigures,
    pub(crate) memory: MemoryFigures,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} ({}), {} entries of {} bytes, batches of {}, median of {} {}\n",
            self.database,
            self.mode,
            self.events,
            self.payload_bytes,
            self.batch,
            self.repeat,
            if self.repeat == 1 { "round" } else { "rounds" }
        )?;
        let mut table = Table::new(&[("", Align::Left), ("a second", Align::Right), ("ratio", Align::Left)]);
        let mut row =
            |what: &str, rate: f64, ratio: String| table.row([what.to_owned(), format!("{rate:.0}"), ratio]);
        let stage = &self.stage;
        for (what, bare, with, ratio) in [
            (
                "transaction of one insert",
                stage.business_per_second,
                stage.business_with_event_per_second,
                stage.ratio,
            ),
            (
                "transaction of an order",
                stage.orders_per_second,
                stage.orders_with_event_per_second,
                stage.orders_ratio,
            ),
        ] {
            row(what, bare, String::new());
            row("  with one staged event", with, format!("{ratio:.2} of it"));
        }
        row("staging, 1000 a call", stage.bulk_per_second, String::new());
        row("drain, raw classic loop", self.drain.classic_per_second, String::new());
        for (name, drained) in [("kept", &self.drain.kept), ("deleted", &self.drain.deleted)] {
            row(&format!("drain, bare store, {name}"), drained.bare_per_second, String::new());
            row(
                &format!("drain, relay, {name}"),
                drained.relay_per_second,
                format!("{:.2} of bare, {:.2} of classic", drained.relay_to_bare, drained.relay_to_classic),
            );
        }
        let mut grown = |what: &str, grown: &Option<Grown>| {
            if let Some(grown) = grown {
                row(&format!("drain, relay, {} {what}", self.events), grown.small_per_second, String::new());
                row(
                    &format!("  with {} {what}", grown.rows),
                    grown.grown_per_second,
                    format!("{:.2} of it", grown.ratio),
                );
            }
        };
        grown("settled", &self.growth.settled);
        grown("pending", &self.growth.pending);
        write!(f, "{table}")?;
        if let Some(peak) = self.memory.peak_bytes {
            let mebibytes = peak.div_ceil(1024 * 1024);
            write!(f, "\n\nrelay memory at most {mebibytes} MiB, backlog {}", self.memory.backlog)?;
        }
        Ok(())
    }
}
