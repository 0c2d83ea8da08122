//! What a relay reaches to each broker, as Markdown.

use std::fmt;

use serde_json::Value;

use super::{Database, ENTRIES, Pair};
use crate::bench::machine::Machine;
use crate::bench::options::Options;
use crate::bench::table::thousands;
use crate::bench::weather::Weather;

/// What a relay is to reach of the lower one of its limits.
const GOAL: f64 = 0.8;

/// The ways in which a relay is measured: what they are called, and where they are in the JSON.
const WAYS: [(&str, &str); 3] = [
    ("By rows", "rows"),
    ("By lanes", "lanes"),
    ("By lanes, `retention.delivered = \"0s\"`", "lanes_deleted"),
];

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = match self.database {
            Database::Sqlite => "SQLite",
            Database::Postgres => "PostgreSQL",
        };
        write!(f, "{database} to {}", self.broker)
    }
}

impl Pair {
    fn figure(&self, pointer: &str) -> Option<f64> {
        self.figures.pointer(pointer).and_then(Value::as_f64)
    }

    fn rate(&self, pointer: &str) -> String {
        self.figure(pointer).map(thousands).unwrap_or_default()
    }

    fn ratio(&self, pointer: &str) -> String {
        self.figure(pointer).map(|ratio| format!("{ratio:.2}")).unwrap_or_default()
    }

    /// The same, in bold where it is not what is to be reached.
    fn goal(&self, pointer: &str) -> String {
        let ratio = self.ratio(pointer);
        if self.figure(pointer).is_some_and(|ratio| ratio < GOAL) { format!("**{ratio}**") } else { ratio }
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
                "| {pair} | {} | {} | {} | {} | {} | {} | {} |\n",
                pair.rate("/relay/client_per_second"),
                pair.rate(&at("drain_per_second")),
                pair.rate(&at("both_per_second")),
                pair.rate(&at("relay_per_second")),
                pair.goal(&at("relay_to_limit")),
                pair.goal(&at("relay_to_both")),
                pair.ratio(&at("relay_busy")),
            )
        };
        format!(
            "{title}:\n\n| | client | drain | both at once | relay | of the lower | of both | busy |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|\n{}",
            pairs.iter().map(row).collect::<String>()
        )
    };
    WAYS.map(table).join("\n")
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
        let reached = json!({"drain_per_second": 40_000.0, "both_per_second": 36_000.0, "relay_per_second": 34_000.0,
            "relay_to_limit": 0.85, "relay_to_both": 0.94, "relay_busy": 0.9});
        let missed = json!({"drain_per_second": 150_000.0, "both_per_second": 50_000.0, "relay_per_second": 35_000.0,
            "relay_to_limit": 0.35, "relay_to_both": 0.7});
        let figures = json!({
            "relay": {"client_per_second": 100_000.0, "rows": reached, "lanes": missed, "lanes_deleted": missed},
            "latency": {"lanes": {"commit_to_confirm": {"p50": 4.25, "p99": 9.0}}},
        });
        let pairs = [Pair { database: Database::Postgres, broker: "Redis", figures }];
        let machine = Machine { date: "2026-01-02".into(), cores: 2, postgres: "15.9".into(), loads: vec![] };
        let options = crate::bench::parse(&["--brokers".into()]).unwrap();
        let said = conditions("brokers", &machine, &Weather::default(), &options);
        assert!(said.starts_with("`cargo xtask bench --brokers`, 2026-01-02, 2 cores"), "{said}");
        assert!(said.contains("20,000 entries of 200 bytes, batches of 500, medians of 3 rounds;"), "{said}");
        let text = rates(&pairs) + &consumers(&pairs);
        for line in [
            "| PostgreSQL to Redis | 100,000 | 40,000 | 36,000 | 34,000 | 0.85 | 0.94 | 0.90 |",
            "| PostgreSQL to Redis | 100,000 | 150,000 | 50,000 | 35,000 | **0.35** | **0.70** |  |",
            "| PostgreSQL to Redis | 4.25 | 9.00 |  |  |  |",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in {text}");
        }
    }
}
