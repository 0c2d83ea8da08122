//! `cargo xtask bench --databases`: drains on MariaDB, MySQL and MongoDB, each beside raw loops and peers on the same
//! server.
//!
//! One server after the other, so that none takes the processors from another.

mod beside;

use serde_json::Value;

use super::install::Installed;
use super::machine::Machine;
use super::options::{OURS, Options};
use super::ours::Ours;
use super::peers::{self, Peer, Server};
use super::run::said;
use super::table::{Row, thousands};
use super::weather::Weather;
use super::{Places, page};
use crate::Result;
use crate::exec::Executor;
use crate::services::Servers;

/// Where the rate of the raw loop is in the JSON of a bench.
const RAW: &str = super::ours::CLASSIC;
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
    /// The same for peers.
    server: Server,
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
        server: Server::MariaDb,
        entries: 50_000,
        rows_of_raw: None,
        lanes_of_raw: LANES_OF_RAW,
    },
    Database {
        name: "mysql",
        shown: "MySQL",
        variable: "PILLARBOX_TEST_MYSQL",
        server: Server::MySql,
        entries: 50_000,
        rows_of_raw: None,
        lanes_of_raw: LANES_OF_RAW,
    },
    Database {
        name: "mongodb",
        shown: "MongoDB",
        variable: "PILLARBOX_TEST_MONGODB",
        server: Server::MongoDb,
        // The raw loop does some hundreds a second.
        entries: 5000,
        rows_of_raw: Some(OF_DOCUMENTS),
        lanes_of_raw: OF_DOCUMENTS,
    },
];

/// The words that `--only` knows: databases, peers on them, and ours.
pub(crate) fn names() -> Vec<&'static str> {
    let runs_here = |peer: &Peer| ALL.iter().any(|database| peer.servers.contains(&database.server));
    let peers = peers::ALL.into_iter().filter(runs_here).map(|peer| peer.name);
    ALL.iter().map(|database| database.name).chain(peers).chain([OURS]).collect()
}

fn is_database(name: &str) -> bool {
    ALL.iter().any(|database| database.name == name)
}

/// Whether one that runs on databases, a peer or ours, is to be run on those that are wanted.
fn wants(options: &Options, name: &str) -> bool {
    options.wants_of(|name| !is_database(name), name)
}

fn peers_on(database: &Database, options: &Options) -> Vec<Peer> {
    peers::on(database.server).filter(|peer| wants(options, peer.name)).collect()
}

/// What was measured on one of them.
struct Measured {
    database: &'static Database,
    /// Of ours and the raw loops, if they were wanted.
    figures: Option<Value>,
    peers: Vec<Row>,
}

/// Measures all of them, prints the table, and writes it into the page if the run was whole.
pub(crate) fn run(options: &Options) -> Result<u8> {
    let executor = Executor::new()?;
    let places = Places::new()?;
    let wanted = |database: &&Database| {
        options.wants_of(is_database, database.name)
            && (wants(options, OURS) || !peers_on(database, options).is_empty())
    };
    let databases: Vec<_> = ALL.iter().filter(wanted).collect();
    let all: Vec<_> = databases.iter().flat_map(|database| peers_on(database, options)).collect();
    let installed = Installed::new(&executor, &places, &all)?;
    let ours = wants(options, OURS).then(|| Ours::build(&executor, &places)).transpose()?;
    let peers = beside::Peers { executor: &executor, places: &places, installed: &installed, options };
    let mut machine = Machine::of(String::new())?;
    let (mut weather, mut measured, mut versions) = (Weather::of_medians(), Vec::new(), Vec::new());
    for database in databases {
        let servers = Servers::start_named(&executor, &["python", database.name])?;
        let url = url(servers.variable(database.variable)?);
        let server = beside::Server { url: &url, python: servers.variable("PILLARBOX_TEST_PYTHON")? };
        versions.push(format!("{} {}", database.shown, server.version(&places)?));
        machine.note_load();
        let drain = |ours: &Ours| {
            let (repeat, events) = (options.repeat.to_string(), options.jobs(database.entries).to_string());
            let part = ["--only", "drain", "--repeat", &repeat, "--events", &events, "--database", &url];
            said(&executor, &places, ours.command().args(part))
        };
        let figures = ours.as_ref().map(|ours| weather.calm(|| drain(ours))).transpose()?;
        let peers = peers.measure(&server, &peers_on(database, options), &mut weather);
        let one = Measured { database, figures, peers };
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

/// What was run, when and on what.
fn conditions(machine: &Machine, weather: &Weather, options: &Options) -> String {
    format!(
        "`cargo xtask bench --databases`, {} {} entries of 200 bytes (MongoDB: {}), batches of 500, medians of {}. {}\n\n\
         Goals: by rows at least {OF_BARE} of the bare store; by lanes at least {LANES_OF_RAW} times the raw loop on \
         MariaDB and MySQL; both ways at least {OF_DOCUMENTS} times the raw loop on MongoDB. What misses its goal is bold. \
         Peers run after them, in rounds, each with an empty database and payloads of about 200 bytes.\n",
        machine.describe(),
        thousands(options.jobs(ALL[0].entries).into()),
        thousands(options.jobs(ALL[2].entries).into()),
        options.rounds(),
        weather.describe(),
    )
}

fn markdown(measured: &[&Measured]) -> String {
    let rows: String = measured.iter().map(|one| one.rows()).collect();
    format!(
        "| | a second | bare store | of it | of the raw loop | set up |\n|---|--:|--:|--:|--:|---|\n{rows}"
    )
}

impl Measured {
    fn rows(&self) -> String {
        let raw = self.figure(RAW);
        let ours = if self.figures.is_some() { self.rows_of_ours() } else { String::new() };
        let peers = self.peers.iter().map(|row| beside::markdown(self.database.shown, row, raw));
        ours + &peers.collect::<String>()
    }

    fn rows_of_ours(&self) -> String {
        let Database { shown, rows_of_raw, lanes_of_raw, .. } = self.database;
        let mut text = format!("| {shown}, raw classic loop | {} | | | 1 | |\n", self.rate(RAW));
        for (way, of_bare, of_raw) in
            [("rows", Some(OF_BARE), *rows_of_raw), ("lanes", None, Some(*lanes_of_raw))]
        {
            for keep in ["kept", "deleted"] {
                let at = |name: &str| format!("/drain/{way}/{keep}/{name}");
                text.push_str(&format!(
                    "| {shown}, {way}, {keep} | {} | {} | {} | {} | |\n",
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
        self.figures.as_ref()?.pointer(pointer).and_then(Value::as_f64)
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
        let on = |database| Measured { database, figures: Some(figures.clone()), peers: vec![] };
        let text = markdown(&[&on(&ALL[0]), &on(&ALL[2])]);
        for line in [
            "| MariaDB, raw classic loop | 8,000 | | | 1 | |",
            "| MariaDB, rows, kept | 12,000 | 11,000 | 0.95 | 1.90 | |",
            "| MariaDB, rows, deleted | 12,000 | 11,000 | **0.80** | 2.50 | |",
            "| MariaDB, lanes, kept | 12,000 | 11,000 | 0.40 | 1.60 | |",
            "| MariaDB, lanes, deleted | 12,000 | 11,000 | 0.40 | **1.40** | |",
            "| MongoDB, rows, kept | 12,000 | 11,000 | 0.95 | **1.90** | |",
            "| MongoDB, lanes, kept | 12,000 | 11,000 | 0.40 | **1.60** | |",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn what_was_not_measured_is_empty_and_not_bold() {
        let text = markdown(&[&Measured { database: &ALL[1], figures: Some(Value::Null), peers: vec![] }]);
        assert!(text.contains("| MySQL, lanes, kept |  |  |  |  | |\n"), "{text}");
    }

    #[test]
    fn peers_stand_below_ours_with_their_ratio_to_the_raw_loop() {
        let options = crate::bench::parse(&["--databases".into()]).unwrap();
        let rows = || peers::on(Server::MySql).map(|peer| Row::of_peer(&peer, &options)).take(1);
        let row = rows().map(|mut row| {
            row.rates = vec![4000.0];
            row
        });
        let figures = Some(json!({"drain": {"classic": {"per_second": 8000.0}}}));
        let text = markdown(&[&Measured { database: &ALL[1], figures, peers: row.collect() }]);
        assert!(text.lines().last().unwrap().contains("| 4,000 | | | 0.50 |"), "{text}");
        let alone = markdown(&[&Measured { database: &ALL[1], figures: None, peers: rows().collect() }]);
        assert_eq!(alone.lines().count(), 3, "{alone}");
    }

    #[test]
    fn every_database_has_peers_whose_names_are_no_databases() {
        let options = crate::bench::parse(&["--databases".into()]).unwrap();
        assert!(ALL.iter().all(|database| !peers_on(database, &options).is_empty()));
        assert!(!peers::ALL.iter().any(|peer| is_database(peer.name) || peer.name == OURS));
    }

    #[test]
    fn a_server_without_a_database_in_its_url_gets_one() {
        assert_eq!(url("mongodb://h/?replicaSet=rs0"), "mongodb://h/bench?replicaSet=rs0");
        assert_eq!(url("mysql://root@h:1/pillarbox"), "mysql://root@h:1/pillarbox");
    }
}
