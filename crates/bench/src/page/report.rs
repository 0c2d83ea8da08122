//! The figures of the page, as JSON and for people.

use std::fmt;

use pillarbox_cli::measure::median;
use pillarbox_cli::output::{Align, Table};
use serde::Serialize;

/// What was measured, and on what.
#[derive(Debug, Serialize)]
pub(crate) struct PageReport {
    pub(crate) database: &'static str,
    pub(crate) entries: u32,
    pub(crate) repeat: u32,
    pub(crate) views: Vec<View>,
    pub(crate) beside: Beside,
    pub(crate) idle: Idle,
}

/// How long one view takes.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    path: String,
    /// To the first byte, the median.
    first_byte_ms: f64,
    /// The same, the longest.
    longest_ms: f64,
}

impl View {
    pub(super) fn new(path: String, times: &[f64]) -> Self {
        let tenth = |time: f64| (time * 10.0).round() / 10.0;
        let longest = times.iter().copied().fold(0.0, f64::max);
        Self { path, first_byte_ms: tenth(median(times)), longest_ms: tenth(longest) }
    }
}

/// What open pages cost the relay beside them, and the process that serves them.
#[derive(Debug, Serialize)]
pub(crate) struct Beside {
    /// The relay by lanes to `null:`, with nobody watching.
    pub(super) alone_per_second: f64,
    /// The same with ten pages open.
    pub(super) watched_per_second: f64,
    pub(super) watched_to_alone: f64,
    /// What the serving process spends of one processor, with one page open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) one_page: Option<f64>,
    /// The same with ten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ten_pages: Option<f64>,
    /// What it spends with ten, of what it spends with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ten_to_one: Option<f64>,
}

/// A relay with nothing to do, and its page.
#[derive(Debug, Serialize)]
pub(crate) struct Idle {
    /// What it spends of one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) share_of_a_core: Option<f64>,
    /// Resident memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_bytes: Option<u64>,
}

impl fmt::Display for PageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, entries, repeat, views, beside, idle } = self;
        let rounds = if *repeat == 1 { "round" } else { "rounds" };
        writeln!(f, "{database}, {entries} entries, {repeat} {rounds}\n")?;
        let columns =
            [("first byte", Align::Left), ("median, ms", Align::Right), ("longest, ms", Align::Right)];
        let mut table = Table::new(&columns);
        for View { path, first_byte_ms, longest_ms } in views {
            table.row([path.clone(), format!("{first_byte_ms:.1}"), format!("{longest_ms:.1}")]);
        }
        writeln!(f, "{table}\n")?;
        let Beside {
            alone_per_second,
            watched_per_second,
            watched_to_alone,
            one_page,
            ten_pages,
            ten_to_one,
        } = beside;
        writeln!(
            f,
            "relay by lanes: {alone_per_second:.0} a second alone, {watched_per_second:.0} with ten pages open \
             ({watched_to_alone:.2})"
        )?;
        let percent =
            |share: &Option<f64>| share.map_or("?".to_owned(), |share| format!("{:.1}", share * 100.0));
        writeln!(
            f,
            "the page's process: {} % of a core with one page open, {} % with ten ({} of it)",
            percent(one_page),
            percent(ten_pages),
            ten_to_one.map_or("?".to_owned(), |ratio| format!("{ratio:.2}"))
        )?;
        let memory = idle.memory_bytes.map_or("?".to_owned(), |bytes| (bytes / 1024 / 1024).to_string());
        write!(f, "an idle relay with its page: {} % of a core, {memory} MiB", percent(&idle.share_of_a_core))
    }
}
