//! What the demo tells at its end.

use std::fmt;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::check::Found;
use super::state::{Demo, Figures};

const GOOD: Style = AnsiColor::Green.on_default().bold();

/// The figures of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    ok: bool,
    events: u64,
    transactions: u64,
    committed: u64,
    rolled_back: u64,
    staged_twice: u64,
    deliveries: u64,
    failures: u64,
    confirmations_lost: u64,
    refused_by_outage: u64,
    killed_in_flight: u64,
    effects: u64,
    duplicates_absorbed: u64,
    lost: usize,
    invented: usize,
    doubled: usize,
    dead: u64,
    seconds: f64,
    seed: u64,
}

impl Report {
    /// The figures of a run that has ended.
    pub(crate) fn new(demo: &Demo, found: &Found, elapsed: Duration) -> Self {
        let figures = &demo.figures;
        Self {
            ok: found.is_nothing(),
            events: demo.events,
            transactions: Figures::of(&figures.transactions),
            committed: Figures::of(&figures.committed),
            rolled_back: Figures::of(&figures.rolled_back),
            staged_twice: Figures::of(&figures.staged_twice),
            deliveries: Figures::of(&figures.deliveries),
            failures: Figures::of(&figures.failures),
            confirmations_lost: Figures::of(&figures.confirmations_lost),
            refused_by_outage: Figures::of(&figures.refused_by_outage),
            killed_in_flight: Figures::of(&figures.killed_in_flight),
            effects: Figures::of(&figures.effects),
            duplicates_absorbed: Figures::of(&figures.absorbed),
            lost: found.lost.len(),
            invented: found.invented.len(),
            doubled: found.doubled.len(),
            dead: found.dead,
            seconds: (elapsed.as_secs_f64() * 1000.0).round() / 1000.0,
            seed: demo.seed,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "staged     {} events in {} transactions: {} committed, {} rolled back on purpose,\n           \
             {} staged again with the same id and seen as duplicates",
            self.events, self.transactions, self.committed, self.rolled_back, self.staged_twice
        )?;
        writeln!(
            f,
            "delivered  {} times by two relays, through {} failures, {} lost confirmations,\n           \
             an outage ({} refused, no attempt spent) and a relay killed with {} in flight",
            self.deliveries,
            self.failures,
            self.confirmations_lost,
            self.refused_by_outage,
            self.killed_in_flight
        )?;
        writeln!(
            f,
            "consumed   {} effects; the inbox absorbed {} duplicate deliveries",
            self.effects, self.duplicates_absorbed
        )?;
        if self.ok {
            write!(f, "{GOOD}checked{GOOD:#}    ")?;
            write!(
                f,
                "nothing lost, nothing invented, nothing applied twice, in {:.1} s (seed {})",
                self.seconds, self.seed
            )
        } else {
            write!(
                f,
                "checked    {} lost, {} invented, {} doubled, {} dead, in {:.1} s (seed {})",
                self.lost, self.invented, self.doubled, self.dead, self.seconds, self.seed
            )
        }
    }
}
