//! A database that is killed under load and comes back: nothing that it has acknowledged is lost, and every key keeps its
//! order. Nobody restarts the relays.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use mongodb::Client;
use mongodb::bson::{Document, doc};
use pillarbox_conformance::mariadb::OwnMariaDb;
use serde_json::Value;
use tempfile::TempDir;

use crate::home::{Home, Running, eventually};
use crate::place::wait;
use crate::server::free_port;

const KEYS: u64 = 20;
const KILLS: u64 = 3;
/// Events that are staged in each round, in one transaction.
const EVENTS: u64 = 300;

/// What arrived, by key: the numbers in the order of their first arrival.
fn arrived(home: &Home) -> BTreeMap<String, Vec<u64>> {
    let text = if home.path("out.ndjson").exists() { home.read("out.ndjson") } else { String::new() };
    let mut by_key: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for event in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let numbers = by_key.entry(event["subject"].as_str().unwrap().to_owned()).or_default();
        let number = event["data"].as_u64().unwrap();
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    by_key
}

fn stage(home: &Home, round: u64) {
    let line =
        |n: u64| format!("{{\"route\":\"r\",\"type\":\"t\",\"key\":\"k-{}\",\"payload\":{n}}}\n", n % KEYS);
    let lines: String = (round * EVENTS..(round + 1) * EVENTS).map(line).collect();
    home.write("staged.ndjson", &lines);
    home.ok(["stage", "--ndjson", "staged.ndjson"]);
}

#[test]
fn a_mariadb_killed_under_load_loses_nothing_and_every_key_keeps_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let server = wait(OwnMariaDb::start(directory.path(), &[]));
    killed_under_load(&server.url("app"), || {
        server.kill();
        wait(server.restart());
    });
}

#[test]
fn a_mongodb_killed_under_load_loses_nothing_and_every_key_keeps_its_order() {
    let mut server = OwnMongoDb::start();
    killed_under_load(&server.url(), || {
        server.kill();
        server.launch();
        server.is_primary();
    });
}

/// Two relays deliver, and `kill` kills the server and starts it again.
fn killed_under_load(url: &str, mut kill: impl FnMut()) {
    let home = Home::new();
    let config = format!(
        "[database]\nurl = \"{url}\"\n[routes.r]\nto = \"file:out.ndjson\"\norder = \"key\"\nlease = \"4s\"\nbatch = 20\n"
    );
    home.write("pillarbox.toml", &config);
    home.ok(["migrate"]);
    let mut relays: Vec<Running> =
        ["log-0", "log-1"].map(|log| home.start_logged(log, ["relay"])).into_iter().collect();
    for round in 0..KILLS {
        let before = arrived(&home).values().map(Vec::len).sum::<usize>();
        stage(&home, round);
        eventually("something arrives", || arrived(&home).values().map(Vec::len).sum::<usize>() > before);
        kill();
    }
    stage(&home, KILLS);
    eventually("everything is delivered", || {
        assert!(!relays.iter_mut().any(Running::has_ended), "a relay has ended");
        home.totals()["delivered"] == (KILLS + 1) * EVENTS
    });
    let wanted: BTreeMap<String, Vec<u64>> = (0..KEYS)
        .map(|key| (format!("k-{key}"), (0..(KILLS + 1) * EVENTS).filter(|n| n % KEYS == key).collect()))
        .collect();
    assert_eq!(arrived(&home), wanted);
    for relay in &mut relays {
        relay.signal("TERM");
    }
    for relay in relays {
        assert_eq!(relay.end().code, 0);
    }
}

/// A MongoDB of a test's own: a set of one node, which is open to everybody on this machine.
struct OwnMongoDb {
    port: u16,
    directory: TempDir,
    process: Option<Running>,
}

impl OwnMongoDb {
    fn start() -> Self {
        let mut server = Self { port: free_port(), directory: tempfile::tempdir().unwrap(), process: None };
        server.launch();
        let member = doc! { "_id": 0, "host": format!("127.0.0.1:{}", server.port) };
        let set = doc! { "replSetInitiate": { "_id": "rs0", "members": [member] } };
        eventually("the server answers", || server.run(set.clone()).is_ok());
        server.is_primary();
        server
    }

    fn url(&self) -> String {
        format!("mongodb://127.0.0.1:{}/shop?replicaSet=rs0", self.port)
    }

    fn launch(&mut self) {
        let root = std::env::var("PILLARBOX_TEST_MONGOD").expect(
            "PILLARBOX_TEST_MONGOD is not set: run this through `cargo xtask services mongodb -- cargo test`",
        );
        let mut server = Command::new(format!("{root}/mongod"));
        server.env("LD_LIBRARY_PATH", format!("{root}/usr/lib/x86_64-linux-gnu"));
        server.args(["--replSet", "rs0", "--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "64"]);
        server.args(["--bind_ip", "127.0.0.1", "--port", &self.port.to_string()]);
        server.arg("--dbpath").arg(self.directory.path());
        server.arg("--unixSocketPrefix").arg(self.directory.path());
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(Running::of(server.spawn().unwrap()));
    }

    /// As a power cut would.
    fn kill(&mut self) {
        self.process.take().unwrap().kill();
    }

    /// Waits until it accepts writes.
    fn is_primary(&self) {
        eventually("there is a primary", || {
            self.run(doc! { "hello": 1 }).is_ok_and(|said| said.get_bool("isWritablePrimary") == Ok(true))
        });
    }

    fn run(&self, command: Document) -> mongodb::error::Result<Document> {
        let url =
            format!("mongodb://127.0.0.1:{}/?directConnection=true&serverSelectionTimeoutMS=500", self.port);
        wait(async { Client::with_uri_str(url).await?.database("admin").run_command(command).await })
    }
}
