//! The figures of a destination, as JSON and for people.

use std::fmt;

use pillarbox_cli::output::{Align, Table};
use serde::Serialize;

use super::from::ConsumerFigures;
use super::{HotKey, RelayFigures};
use crate::latency::LatencyFigures;
use crate::report::Latency;

/// What was measured, and on what.
#[derive(Debug, Serialize)]
pub(crate) struct ToReport {
    pub(crate) database: &'static str,
    pub(crate) mode: String,
    pub(crate) to: String,
    pub(crate) events: u32,
    pub(crate) batch: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) repeat: u32,
    pub(crate) relay: RelayFigures,
    /// Only with a place to consume from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) consumer: Option<ConsumerFigures>,
    /// Only if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<LatencyFigures>,
}

impl fmt::Display for ToReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, mode, to, events, batch, payload_bytes, repeat, relay, consumer, latency } =
            self;
        let rounds = if *repeat == 1 { "round" } else { "rounds" };
        writeln!(f, "{database} ({mode}) to {to}")?;
        writeln!(
            f,
            "{events} entries of {payload_bytes} bytes, batches of {batch}, median of {repeat} {rounds}\n"
        )?;
        let mut table = Table::new(&[("", Align::Left), ("a second", Align::Right), ("ratio", Align::Left)]);
        let mut row =
            |what: &str, rate: f64, ratio: String| table.row([what.to_owned(), format!("{rate:.0}"), ratio]);
        let busy = |share: Option<f64>| share.map(|share| format!("processors {share:.2} busy"));
        for (by, relayed) in
            [("rows", &relay.rows), ("lanes", &relay.lanes), ("lanes, deleted", &relay.lanes_deleted)]
        {
            let client_busy = busy(relayed.client_busy).unwrap_or_default();
            row(&format!("client alone, from memory, {by}"), relayed.client_per_second, client_busy);
            row(&format!("drain alone, {by}"), relayed.drain_per_second, String::new());
            row(&format!("client and drain at once, {by}"), relayed.both_per_second, String::new());
            let busy = busy(relayed.relay_busy).map_or_else(String::new, |busy| format!("; {busy}"));
            let cost = relayed.relay_cpu_micros.zip(relayed.relay_cpu_to_parts);
            let cost = cost.map_or_else(String::new, |(micros, parts)| {
                format!("; {micros:.1} µs of this process an entry, {parts:.2} of client and drain alone")
            });
            row(
                &format!("relay to the destination, {by}"),
                relayed.relay_per_second,
                format!(
                    "{:.2} of the lower one ({:.2} of the client, {:.2} of the drain), {:.2} of both at once{busy}{cost}",
                    relayed.relay_to_limit,
                    relayed.relay_to_client,
                    relayed.relay_to_drain,
                    relayed.relay_to_both
                ),
            );
        }
        if let Some(HotKey { per_second, to_all_keys }) = &relay.hot_key {
            let ratio = format!("{to_all_keys:.2} of the relay by lanes with all keys");
            row("relay to the destination, lanes, one key", *per_second, ratio);
        }
        if let Some(consumer) = consumer {
            row("consumer without inbox", consumer.without_inbox_per_second, String::new());
            row(
                "consumer with inbox",
                consumer.with_inbox_per_second,
                format!("{:.2} of it", consumer.inbox_ratio),
            );
        }
        write!(f, "{table}")?;
        match latency {
            Some(latency) => write!(f, "\n\n{}", Latency(latency)),
            None => Ok(()),
        }
    }
}
