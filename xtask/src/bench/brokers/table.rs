//! What a relay reaches to each broker, as Markdown.

use std::fmt;

use serde_json::Value;

use super::{Database, ENTRIES, Pair};
use crate::bench::machine::Machine;
use crate::bench::options::Options;
use crate::bench::table::thousands;
use crate::bench::weather::Weather;

/// What a relay is to reach of client and drain at once.
const RATE: f64 = 0.85;
/// What an entry may cost the relay, of what it costs the client and the drain alone.
const COST: f64 = 1.25;
/// What one key is to reach of all keys.
const HOT_KEY: f64 = 0.4;
/// What a consumer in batches is to reach of one by one, and of a plain loop.
const BATCHES: (f64, f64) = (5.0, 0.5);

/// The ways in which a relay is measured: what they are called, and where they are in the JSON.
const WAYS: [(&str, &str); 3] = [
    ("By rows", "rows"),
    ("By lanes", "lanes"),
    ("By lanes, `retention.delivered = \"0s\"`", "lanes_deleted"),
];

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.database, self.broker)
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        })
    }
}

impl Pair {
    fn figure(&self, pointer: &str) -> Option<f64> {
        self.figures.pointer(pointer).and_then(Value::as_f64)
    }

    fn rate(&self, pointer: &str) -> String {
        self.figure(pointer).map(thousands).unwrap_or_default()
    }

    fn tenth(&self, pointer: &str) -> String {
        self.figure(pointer).map(|micros| format!("{micros:.1}")).unwrap_or_default()
    }

    fn ratio(&self, pointer: &str) -> String {
        self.figure(pointer).map(|ratio| format!("{ratio:.2}")).unwrap_or_default()
    }

    /// The same, in bold where it is less than is to be reached.
    fn at_least(&self, pointer: &str, goal: f64) -> String {
        self.bold(pointer, |ratio| ratio < goal)
    }

    /// The same, in bold where it is more than is allowed.
    fn at_most(&self, pointer: &str, goal: f64) -> String {
        self.bold(pointer, |ratio| ratio > goal)
    }

    fn bold(&self, pointer: &str, misses: impl Fn(f64) -> bool) -> String {
        let ratio = self.ratio(pointer);
        if self.figure(pointer).is_some_and(misses) { format!("**{ratio}**") } else { ratio }
    }
}

/// What was run, when and on what.
pub(super) fn conditions(what: &str, machine: &Machine, weather: &Weather, options: &Options) -> String {
    format!(
        "`cargo xtask bench --{what}`, {} {} entries of 200 bytes, batches of 500, medians of {}; all servers on the same \
         machine. {}\n",
        machine.describe(),
        thousands(options.jobs(ENTRIES).into()),
        options.rounds(),
        weather.describe(),
    )
}

/// A table for each way of the relay.
pub(super) fn rates(pairs: &[Pair]) -> String {
    let table = |(title, way): (&str, &str)| {
        let row = |pair: &Pair| {
            let at = |name: &str| format!("/relay/{way}/{name}");
            format!(
                "| {pair} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                pair.rate(&at("client_per_second")),
                pair.rate(&at("drain_per_second")),
                pair.rate(&at("both_per_second")),
                pair.rate(&at("relay_per_second")),
                pair.at_least(&at("relay_to_both"), RATE),
                pair.tenth(&at("relay_cpu_micros")),
                pair.at_most(&at("relay_cpu_to_parts"), COST),
                pair.ratio(&at("relay_busy")),
            )
        };
        format!(
            "{title}:\n\n| | client | drain | both at once | relay | of both | µs an entry | of parts | busy |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|--:|\n{}",
            pairs.iter().map(row).collect::<String>()
        )
    };
    format!("{}\n{}", WAYS.map(table).join("\n"), hot_keys(pairs))
}

/// One key for all entries, by lanes, to brokers that take many entries of a key together.
fn hot_keys(pairs: &[Pair]) -> String {
    let together = pairs.iter().filter(|pair| pair.figure("/relay/hot_key/per_second").is_some());
    let row = |pair: &Pair| {
        format!(
            "| {pair} | {} | {} | {} |\n",
            pair.rate("/relay/hot_key/per_second"),
            pair.rate("/relay/lanes/relay_per_second"),
            pair.at_least("/relay/hot_key/to_all_keys", HOT_KEY),
        )
    };
    format!(
        "One key, by lanes:\n\n| | one key | a thousand keys | ratio |\n|---|--:|--:|--:|\n{}",
        together.map(row).collect::<String>()
    )
}

/// Consumers in batches of 100, fed from memory.
pub(super) fn batches(pairs: &[Pair]) -> String {
    let row = |pair: &Pair| {
        format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            pair.database,
            pair.rate("/single_per_second"),
            pair.at_least("/each_to_single", BATCHES.0),
            pair.at_least("/batch_to_single", BATCHES.0),
            pair.rate("/raw_per_second"),
            pair.at_least("/batch_to_raw", BATCHES.1),
        )
    };
    format!(
        "Consumers in batches of 100, fed from memory:\n\n\
         | | one by one | a handler of one, of that | a batch handler, of that | plain loop | a batch handler, of that |\n\
         |---|--:|--:|--:|--:|--:|\n{}",
        pairs.iter().map(row).collect::<String>()
    )
}

/// From commit to confirmation, and what is consumed.
pub(super) fn consumers(pairs: &[Pair]) -> String {
    let row = |pair: &Pair| {
        format!(
            "| {pair} | {} | {} | {} | {} | {} |\n",
            pair.ratio("/latency/lanes/commit_to_confirm/p50"),
            pair.ratio("/latency/lanes/commit_to_confirm/p99"),
            pair.rate("/consumer/without_inbox_per_second"),
            pair.rate("/consumer/with_inbox_per_second"),
            pair.ratio("/consumer/inbox_ratio"),
        )
    };
    format!(
        "At 200 events a second by lanes: the time from commit to the broker's confirmation, and the rate of\n\
         a consumer whose handler writes one row for each event:\n\n| | p50, ms | p99, ms | consumed a second | with the inbox | ratio |\n\
         |---|--:|--:|--:|--:|--:|\n{}",
        pairs.iter().map(row).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_below_the_goal_is_bold_and_what_was_not_measured_is_empty() {
        let reached = json!({"client_per_second": 100_000.0, "drain_per_second": 40_000.0, "both_per_second": 36_000.0, "relay_per_second": 34_000.0,
            "relay_to_both": 0.94, "relay_cpu_micros": 14.0, "relay_cpu_to_parts": 1.2, "relay_busy": 0.9});
        let missed = json!({"client_per_second": 100_000.0, "drain_per_second": 150_000.0, "both_per_second": 50_000.0, "relay_per_second": 35_000.0,
            "relay_to_both": 0.7, "relay_cpu_micros": 21.25, "relay_cpu_to_parts": 1.4});
        let figures = json!({
            "relay": {"rows": reached, "lanes": missed, "lanes_deleted": missed,
                "hot_key": {"per_second": 14_000.0, "to_all_keys": 0.4}},
            "latency": {"lanes": {"commit_to_confirm": {"p50": 4.25, "p99": 9.0}}},
        });
        let pairs = [Pair { database: Database::Postgres, broker: "Redis", figures }];
        let machine =
            Machine { date: "2026-01-02".into(), cores: 2, servers: "PostgreSQL 15.9".into(), loads: vec![] };
        let options = crate::bench::parse(&["--brokers".into()]).unwrap();
        let said = conditions("brokers", &machine, &Weather::default(), &options);
        assert!(said.starts_with("`cargo xtask bench --brokers`, 2026-01-02, 2 cores"), "{said}");
        assert!(said.contains("10,000 entries of 200 bytes, batches of 500, medians of 5 rounds;"), "{said}");
        let consumed = json!({"single_per_second": 4_000.0, "each_to_single": 4.9, "batch_to_single": 12.0,
            "raw_per_second": 50_000.0, "batch_to_raw": 0.96});
        let in_batches = [Pair { database: Database::Sqlite, broker: "", figures: consumed }];
        let text = rates(&pairs) + &consumers(&pairs) + &batches(&in_batches);
        for line in [
            "| PostgreSQL to Redis | 100,000 | 40,000 | 36,000 | 34,000 | 0.94 | 14.0 | 1.20 | 0.90 |",
            "| PostgreSQL to Redis | 100,000 | 150,000 | 50,000 | 35,000 | **0.70** | 21.2 | **1.40** |  |",
            "| PostgreSQL to Redis | 14,000 | 35,000 | 0.40 |",
            "| PostgreSQL to Redis | 4.25 | 9.00 |  |  |  |",
            "| SQLite | 4,000 | **4.90** | 12.00 | 50,000 | 0.96 |",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in {text}");
        }
    }
}
