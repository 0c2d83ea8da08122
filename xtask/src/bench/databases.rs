//! `cargo xtask bench --databases`: drains on MariaDB, MySQL and MongoDB, each beside raw loops on the same server.
//!
//! One server after the other, so that none takes the processors from another.

use std::process::Command;

use serde_json::Value;

use super::machine::Machine;
use super::options::Options;
use super::ours::Ours;
use super::run::said;
use super::table::thousands;
use super::weather::Weather;
use super::{Places, page};
use crate::Result;
use crate::exec::Executor;
use crate::services::Servers;

/// The part of the page that is written.
const SECTION: &str = "databases";
/// What relays are to reach of the bare store, by rows.
const OF_BARE: f64 = 0.9;
/// What they are to reach of the raw loop on MariaDB and MySQL, by lanes.
const LANES_OF_RAW: f64 = 1.5;
/// What they are to reach of a loop of `findOneAndUpdate`, in each way.
const OF_DOCUMENTS: f64 = 2.0;

/// A server that has no table of its own elsewhere on the page.
pub(crate) struct Database {
    /// The word on the command line, and the server's.
    pub(crate) name: &'static str,
    /// How people call it.
    shown: &'static str,
    variable: &'static str,
    /// Entries of each drain.
    entries: u32,
    /// What each way is to reach of the raw loop.
    rows_of_raw: Option<f64>,
    lanes_of_raw: f64,
}

pub(crate) const ALL: [Database; 3] = [
    Database {
        name: "mariadb",
        shown: "MariaDB",
        variable: "PILLARBOX_TEST_MYSQL",
        entries: 50_000,
        rows_of_raw: None,
        lanes_of_raw: LANES_OF_RAW,
    },
    Database {
        name: "mysql",
        shown: "MySQL",
        variable: "PILLARBOX_TEST_MYSQL",
        entries: 50_000,
        rows_of_raw: None,
        lanes_of_raw: LANES_OF_RAW,
    },
    Database {
        name: "mongodb",
        shown: "MongoDB",
        variable: "PILLARBOX_TEST_MONGODB",
        // The raw loop does some hundreds a second.
        entries: 5000,
        rows_of_raw: Some(OF_DOCUMENTS),
        lanes_of_raw: OF_DOCUMENTS,
    },
];

/// What was measured on one of them.
struct Measured {
    database: &'static Database,
    figures: Value,
}

/// Measures all of them, prints the table, and writes it into the page if the run was whole.
pub(crate) fn run(options: &Options) -> Result<u8> {
    let executor = Executor::new()?;
    let places = Places::new()?;
    let ours = Ours::build(&executor, &places)?;
    let mut machine = Machine::of(String::new())?;
    let (mut weather, mut measured, mut versions) = (Weather::of_medians(), Vec::new(), Vec::new());
    for database in ALL.iter().filter(|database| options.wants(database.name)) {
        let servers = Servers::start_named(&executor, &["python", database.name])?;
        let url = url(servers.variable(database.variable)?);
        let version = version(&places, servers.variable("PILLARBOX_TEST_PYTHON")?, &url)?;
        versions.push(format!("{} {version}", database.shown));
        machine.note_load();
        let figures = weather.calm(|| {
            let (repeat, events) = (options.repeat.to_string(), options.jobs(database.entries).to_string());
            let part = ["--only", "drain", "--repeat", &repeat, "--events", &events, "--database", &url];
            said(&executor, &places, ours.command().args(part))
        })?;
        let one = Measured { database, figures };
        // Whoever ends it early has what was measured so far.
        eprintln!("{}", markdown(&[&one]));
        measured.push(one);
    }
    machine.note_load();
    machine.servers = versions.join(", ");
    let table = markdown(&measured.iter().collect::<Vec<_>>());
    let text = format!("{}\n{table}", conditions(&machine, &weather, options));
    println!("{text}");
    if options.is_whole() {
        page::write(&places.root, &[(SECTION, &text)])?;
        eprintln!("bench: written to {}", page::PAGE);
    } else {
        eprintln!("bench: not a whole run, so {} stays as it is", page::PAGE);
    }
    Ok(0)
}

/// The URL of a server with a database to work in.
fn url(server: &str) -> String {
    server.replace("/?", "/bench?")
}

fn version(places: &Places, python: &str, url: &str) -> Result<String> {
    let script = places.root.join("xtask/databases/version.py");
    let output = Command::new(python).arg(script).arg(url).output()?;
    if !output.status.success() {
        return Err(format!("no version: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What was run, when and on what.
fn conditions(machine: &Machine, weather: &Weather, options: &Options) -> String {
    format!(
        "`cargo xtask bench --databases`, {} {} entries of 200 bytes (MongoDB: {}), batches of 500, medians of {}. {}\n\n\
         Goals: by rows at least {OF_BARE} of the bare store; by lanes at least {LANES_OF_RAW} times the raw loop on \
         MariaDB and MySQL; both ways at least {OF_DOCUMENTS} times the raw loop on MongoDB. What misses its goal is bold.\n",
        machine.describe(),
        thousands(options.jobs(ALL[0].entries).into()),
        thousands(options.jobs(ALL[2].entries).into()),
        options.rounds(),
        weather.describe(),
    )
}

fn markdown(measured: &[&Measured]) -> String {
    let rows: String = measured.iter().map(|one| one.rows()).collect();
    format!("| | a second | bare store | of it | of the raw loop |\n|---|--:|--:|--:|--:|\n{rows}")
}

impl Measured {
    fn rows(&self) -> String {
        let Database { shown, rows_of_raw, lanes_of_raw, .. } = self.database;
        let mut text =
            format!("| {shown}, raw classic loop | {} | | | 1 |\n", self.rate("/drain/classic/per_second"));
        for (way, of_bare, of_raw) in
            [("rows", Some(OF_BARE), *rows_of_raw), ("lanes", None, Some(*lanes_of_raw))]
        {
            for keep in ["kept", "deleted"] {
                let at = |name: &str| format!("/drain/{way}/{keep}/{name}");
                text.push_str(&format!(
                    "| {shown}, {way}, {keep} | {} | {} | {} | {} |\n",
                    self.rate(&at("relay_per_second")),
                    self.rate(&at("bare_per_second")),
                    self.ratio(&at("relay_to_bare"), of_bare),
                    self.ratio(&at("relay_to_classic"), of_raw),
                ));
            }
        }
        text
    }

    fn figure(&self, pointer: &str) -> Option<f64> {
        self.figures.pointer(pointer).and_then(Value::as_f64)
    }

    fn rate(&self, pointer: &str) -> String {
        self.figure(pointer).map(thousands).unwrap_or_default()
    }

    /// A ratio, in bold where it is less than is to be reached.
    fn ratio(&self, pointer: &str, goal: Option<f64>) -> String {
        let Some(ratio) = self.figure(pointer) else { return String::new() };
        let misses = goal.is_some_and(|goal| ratio < goal);
        if misses { format!("**{ratio:.2}**") } else { format!("{ratio:.2}") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn way(bare: f64, raw: f64) -> Value {
        json!({"relay_per_second": 12_000.0, "bare_per_second": 11_000.0, "relay_to_bare": bare, "relay_to_classic": raw})
    }

    #[test]
    fn what_misses_the_goal_of_its_database_is_bold() {
        let figures = json!({"drain": {
            "classic": {"per_second": 8000.0},
            "rows": {"kept": way(0.95, 1.9), "deleted": way(0.8, 2.5)},
            "lanes": {"kept": way(0.4, 1.6), "deleted": way(0.4, 1.4)},
        }});
        let on = |database| Measured { database, figures: figures.clone() };
        let text = markdown(&[&on(&ALL[0]), &on(&ALL[2])]);
        for line in [
            "| MariaDB, raw classic loop | 8,000 | | | 1 |",
            "| MariaDB, rows, kept | 12,000 | 11,000 | 0.95 | 1.90 |",
            "| MariaDB, rows, deleted | 12,000 | 11,000 | **0.80** | 2.50 |",
            "| MariaDB, lanes, kept | 12,000 | 11,000 | 0.40 | 1.60 |",
            "| MariaDB, lanes, deleted | 12,000 | 11,000 | 0.40 | **1.40** |",
            "| MongoDB, rows, kept | 12,000 | 11,000 | 0.95 | **1.90** |",
            "| MongoDB, lanes, kept | 12,000 | 11,000 | 0.40 | **1.60** |",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn what_was_not_measured_is_empty_and_not_bold() {
        let text = markdown(&[&Measured { database: &ALL[1], figures: Value::Null }]);
        assert!(text.contains("| MySQL, lanes, kept |  |  |  |  |\n"), "{text}");
    }

    #[test]
    fn a_server_without_a_database_in_its_url_gets_one() {
        assert_eq!(url("mongodb://h/?replicaSet=rs0"), "mongodb://h/bench?replicaSet=rs0");
        assert_eq!(url("mysql://root@h:1/pillarbox"), "mysql://root@h:1/pillarbox");
    }
}
