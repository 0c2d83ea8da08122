//! The figures to reach, and whether they are reached: published either way.

use serde_json::Value;

use super::machine::Machine;
use super::options::Options;
use super::ours::Ours;
use super::run::Runner;
use super::table::{Row, thousands};
use super::weather::Weather;
use crate::Result;

/// Everything that a whole run measures beside the drains.
pub(crate) struct Measured {
    postgres: Value,
    sqlite: Value,
}

/// What a figure has to be.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// One figure to reach: what it is, which database's, where it is in the JSON of a bench, and its bound.
struct Goal(&'static str, Database, &'static str, Bound);

#[derive(Clone, Copy)]
enum Database {
    Postgres,
    Sqlite,
}

use Bound::{AtLeast, AtMost};
use Database::{Postgres, Sqlite};

const GOALS: [Goal; 29] = [
    Goal("rows, kept, of the bare store", Postgres, "/drain/rows/kept/relay_to_bare", AtLeast(0.9)),
    Goal("rows, deleted, of the bare store", Postgres, "/drain/rows/deleted/relay_to_bare", AtLeast(0.9)),
    Goal(
        "lanes, deleted, of the raw classic loop",
        Postgres,
        "/drain/lanes/deleted/relay_to_classic",
        AtLeast(3.0),
    ),
    Goal("lanes, deleted, of the bare store", Postgres, "/drain/lanes/deleted/relay_to_bare", AtLeast(0.6)),
    Goal(
        "lanes, deleted, of the raw lane loop",
        Postgres,
        "/drain/lanes/deleted/relay_to_lane",
        AtLeast(0.6),
    ),
    Goal(
        "lanes, kept, of the raw classic loop",
        Postgres,
        "/drain/lanes/kept/relay_to_classic",
        AtLeast(1.8),
    ),
    Goal(
        "server CPU of an entry, lanes, deleted, µs",
        Postgres,
        "/drain/lanes/deleted/cost/server_cpu_micros",
        AtMost(12.0),
    ),
    Goal(
        "server CPU of an entry, lanes, kept, µs",
        Postgres,
        "/drain/lanes/kept/cost/server_cpu_micros",
        AtMost(12.0),
    ),
    Goal(
        "WAL of an entry, lanes, deleted, bytes",
        Postgres,
        "/drain/lanes/deleted/cost/wal_bytes",
        AtMost(200.0),
    ),
    Goal("WAL of an entry, lanes, kept, bytes", Postgres, "/drain/lanes/kept/cost/wal_bytes", AtMost(200.0)),
    Goal(
        "lanes beside 1,000,000 settled entries, of the same without",
        Postgres,
        "/growth/settled/lanes/ratio",
        AtLeast(0.8),
    ),
    Goal(
        "lanes with 1,000,000 pending entries, of the same with 50,000",
        Postgres,
        "/growth/pending/lanes/ratio",
        AtLeast(0.8),
    ),
    Goal(
        "rows beside 1,000,000 settled entries, of the same without",
        Postgres,
        "/growth/settled/rows/ratio",
        AtLeast(0.8),
    ),
    Goal(
        "rows with 1,000,000 pending entries, of the same with 50,000",
        Postgres,
        "/growth/pending/rows/ratio",
        AtLeast(0.8),
    ),
    Goal(
        "lanes, deleted, beside a held transaction, last quarter of the first",
        Postgres,
        "/held/lanes_deleted/last_to_first",
        AtLeast(0.9),
    ),
    Goal(
        "lanes, kept, beside a held transaction, last quarter of the first",
        Postgres,
        "/held/lanes_kept/last_to_first",
        AtLeast(0.9),
    ),
    Goal(
        "lanes, deleted, the held transaction has staged, last quarter of the first",
        Postgres,
        "/held/lanes_deleted_beside_staging/last_to_first",
        AtLeast(0.9),
    ),
    Goal(
        "rows, kept, beside a held transaction, last quarter of the first",
        Postgres,
        "/held/rows_kept/last_to_first",
        AtLeast(0.9),
    ),
    Goal(
        "transaction of one insert with one staged event, of the same without",
        Postgres,
        "/stage/ratio",
        AtLeast(0.75),
    ),
    Goal(
        "transaction of an order with one staged event, of the same without",
        Postgres,
        "/stage/orders_ratio",
        AtLeast(0.75),
    ),
    Goal(
        "the writer's p99 beside a relay by lanes, of the same without a relay",
        Postgres,
        "/latency/lanes/writer_p99_to_alone",
        AtMost(1.25),
    ),
    Goal(
        "the writer's p99 beside a relay by rows, of the same without a relay",
        Postgres,
        "/latency/rows/writer_p99_to_alone",
        AtMost(1.25),
    ),
    Goal(
        "commit to confirmation at 200 events/s, lanes, p50, ms",
        Postgres,
        "/latency/lanes/commit_to_confirm/p50",
        AtMost(10.0),
    ),
    Goal(
        "commit to confirmation at 200 events/s, lanes, p99, ms",
        Postgres,
        "/latency/lanes/commit_to_confirm/p99",
        AtMost(50.0),
    ),
    Goal(
        "memory of a relay by lanes, backlog of 1,000,000, bytes",
        Postgres,
        "/memory/lanes_peak_bytes",
        AtMost(67_108_864.0),
    ),
    Goal(
        "memory of a relay by rows, backlog of 1,000,000, bytes",
        Postgres,
        "/memory/rows_peak_bytes",
        AtMost(67_108_864.0),
    ),
    Goal("SQLite: staged in batches, a second", Sqlite, "/stage/bulk_per_second", AtLeast(20_000.0)),
    Goal("SQLite: rows, kept, a second", Sqlite, "/drain/rows/kept/relay_per_second", AtLeast(20_000.0)),
    Goal("SQLite: lanes, kept, a second", Sqlite, "/drain/lanes/kept/relay_per_second", AtLeast(20_000.0)),
];

/// Entries of a drain.
const ENTRIES: &str = "50000";
/// Those of the drains that are compared with raw loops, of which the fastest would be over in a tenth of a second.
const ENTRIES_COMPARED: &str = "200000";

/// What is measured by a call of its own, so that what others disturb is not everything.
const PARTS: [(&str, &[&str]); 7] = [
    (ENTRIES_COMPARED, &["--only", "drain"]),
    (ENTRIES, &["--only", "stage"]),
    (ENTRIES, &["--only", "held", "--held"]),
    (ENTRIES, &["--only", "latency", "--latency", "3000"]),
    (ENTRIES, &["--only", "memory"]),
    (ENTRIES, &["--only", "growth", "--settled", "1000000"]),
    (ENTRIES, &["--only", "growth", "--pending", "1000000"]),
];

/// Measures what the rounds did not.
pub(crate) fn measure(
    ours: &Ours,
    runner: &Runner<'_>,
    options: &Options,
    weather: &mut Weather,
) -> Result<Measured> {
    let repeat = options.repeat.to_string();
    let mut postgres = Value::Null;
    for (entries, part) in PARTS {
        eprintln!("bench: {}, which takes minutes", part[1]);
        let arguments = [&["--repeat", &repeat, "--events", entries], part].concat();
        merge(&mut postgres, weather.calm(|| ours.bench(runner, &arguments))?);
    }
    let sqlite = weather.calm(|| ours.bench_embedded(runner, &["--repeat", &repeat, "--events", ENTRIES]))?;
    Ok(Measured { postgres, sqlite })
}

/// Puts what is in another object beside what is in this one.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// The table.
pub(crate) fn markdown(
    measured: &Measured,
    rows: &[Row],
    machine: &mut Machine,
    weather: &Weather,
    options: &Options,
) -> String {
    let load = machine.note_load();
    let mut text = format!(
        "`pillarbox-bench --repeat {} --events 50000`, each part by a call of its own (`--only drain --events 200000`, `--held`, \
         `--latency 3000`, `--settled 1000000`, `--pending 1000000`), as the last part of the same run: medians of {}; load at its end {load:.1}. \
         {}\n\n| | goal | measured | |\n|---|--:|--:|---|\n",
        options.repeat,
        options.rounds(),
        weather.describe(),
    );
    let mut line = |what: &str, bound: Bound, value: Option<f64>| {
        let (goal, met) = match bound {
            AtLeast(least) => (format!("≥ {}", number(least)), value.map(|value| value >= least)),
            AtMost(most) => (format!("≤ {}", number(most)), value.map(|value| value <= most)),
        };
        let value = value.map_or_else(|| "–".to_owned(), number);
        let verdict = match met {
            Some(true) => "reached",
            Some(false) => "**missed**",
            None => "not measured here",
        };
        text.push_str(&format!("| {what} | {goal} | {value} | {verdict} |\n"));
    };
    line("lanes, deleted, of the fastest peer", AtLeast(2.0), of_the_fastest_peer(rows));
    for Goal(what, database, pointer, bound) in GOALS {
        let figures = match database {
            Postgres => &measured.postgres,
            Sqlite => &measured.sqlite,
        };
        line(what, bound, figures.pointer(pointer).and_then(Value::as_f64));
    }
    text
}

fn of_the_fastest_peer(rows: &[Row]) -> Option<f64> {
    let peers = rows.iter().filter(|row| row.pointer.is_none());
    let fastest = peers.filter_map(Row::rate).reduce(f64::max)?;
    let lanes =
        rows.iter().find(|row| row.pointer.is_some_and(|pointer| pointer.contains("lanes/deleted")))?;
    Some(lanes.rate()? / fastest)
}

fn number(value: f64) -> String {
    if value >= 1000.0 {
        thousands(value)
    } else {
        format!("{:.2}", value).trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::table::tests::rows;

    #[test]
    fn a_missed_goal_and_one_that_was_not_measured_are_told() {
        let postgres = json!({
            "drain": {"rows": {"kept": {"relay_to_bare": 1.2}, "deleted": {"relay_to_bare": 0.5}}},
            "latency": {"lanes": {"writer_p99_to_alone": 1.1}},
        });
        let sqlite = json!({"stage": {"bulk_per_second": 54_321.0}});
        let mut machine = Machine { date: String::new(), cores: 2, servers: String::new(), loads: vec![] };
        let options = crate::bench::parse(&[]).unwrap();
        let text =
            markdown(&Measured { postgres, sqlite }, &rows(), &mut machine, &Weather::default(), &options);
        assert!(text.starts_with("`pillarbox-bench --repeat 3 --events 50000`, each part"), "{text}");
        assert!(text.contains("medians of 3 rounds; load at its end"), "{text}");
        for line in [
            "| lanes, deleted, of the fastest peer | ≥ 2 | – | not measured here |",
            "| rows, kept, of the bare store | ≥ 0.9 | 1.2 | reached |",
            "| rows, deleted, of the bare store | ≥ 0.9 | 0.5 | **missed** |",
            "| SQLite: staged in batches, a second | ≥ 20,000 | 54,321 | reached |",
            "| the writer's p99 beside a relay by lanes, of the same without a relay | ≤ 1.25 | 1.1 | reached |",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn parts_that_were_measured_apart_stand_beside_each_other() {
        let mut all = Value::Null;
        merge(&mut all, json!({"events": 5, "growth": {"settled": {"ratio": 0.9}}}));
        merge(&mut all, json!({"events": 5, "growth": {"pending": {"ratio": 0.8}}, "held": [1]}));
        let growth = json!({"settled": {"ratio": 0.9}, "pending": {"ratio": 0.8}});
        assert_eq!(all, json!({"events": 5, "growth": growth, "held": [1]}));
    }
}
