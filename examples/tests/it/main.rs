//! The examples do what they say: each is run as a program, and what it delivered is read back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod drivers;
mod languages;
mod operator_page;
mod sagas;
mod services;

use std::path::Path;
use std::process::{Command, Output};

use sqlx::Connection;

use crate::services::{fresh, variable, wait};

fn run(program: &str, configure: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(program);
    configure(&mut command);
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {} {stderr}", output.status);
    output
}

fn delivered_keys(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["specversion"], "1.0");
            assert_eq!(event["type"], "order.placed");
            assert_eq!(event["data"]["id"], event["subject"]);
            event["subject"].as_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn the_order_service_on_sqlite_delivers_what_it_committed() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events.ndjson");
    run(env!("CARGO_BIN_EXE_order-service-sqlite"), |command| {
        command.arg(folder.path().join("orders.db")).arg(&events);
    });
    assert_eq!(delivered_keys(&events), ["o-1", "o-2", "o-3"]);
}

#[test]
fn the_example_of_traces_shows_a_mail_in_two_traces_with_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(env!("CARGO_BIN_EXE_traces"), |command| {
        command.arg(folder.path().join("work.db"));
    });
    let text = String::from_utf8(output.stdout).unwrap();
    let span = |name: &str| -> Vec<&str> {
        let found = text.lines().find(|line| line.contains(name));
        found.unwrap_or_else(|| panic!("{name}: {text}")).split(' ').collect()
    };
    let (request, stage) = (span("POST /orders"), span("stage mail"));
    let (process, call) = (span("process mail"), span("call the mail provider"));
    assert_eq!(stage[0], request[0], "the request and what it staged are one trace");
    assert_eq!(call[0], process[0], "the work and what it calls are one trace");
    assert_ne!(process[0], stage[0]);
    for linked in [process, span("settle mail")] {
        assert_eq!(linked[4..], ["->", stage[1]], "{text}");
    }
}

#[test]
fn the_order_service_on_postgresql_delivers_what_it_committed() {
    on_postgresql(env!("CARGO_BIN_EXE_order-service-postgres"));
}

#[test]
fn the_order_service_on_mariadb_delivers_what_it_committed() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events.ndjson");
    let database = MySql::create();
    run(env!("CARGO_BIN_EXE_order-service-mysql"), |command| {
        command.arg(&events).env("DATABASE_URL", &database.url);
    });
    assert_eq!(delivered_keys(&events), ["o-1", "o-2", "o-3"]);
}

/// A database of MariaDB or MySQL that is dropped at the end.
struct MySql {
    url: String,
    name: String,
}

impl MySql {
    fn create() -> Self {
        let name = fresh("example").replace('-', "_");
        Self::execute(&format!("create database {name}"));
        let server = variable("PILLARBOX_TEST_MYSQL");
        Self { url: format!("{}/{name}", server.rsplit_once('/').unwrap().0), name }
    }

    fn execute(text: &str) {
        let text = sqlx::AssertSqlSafe(text.to_owned());
        wait(async {
            let mut server = sqlx::MySqlConnection::connect(&variable("PILLARBOX_TEST_MYSQL")).await.unwrap();
            sqlx::raw_sql(text).execute(&mut server).await.unwrap();
        });
    }
}

impl Drop for MySql {
    fn drop(&mut self) {
        Self::execute(&format!("drop database {}", self.name));
    }
}

/// The URL of a database of MongoDB that no other test has. It ends with the server.
pub(crate) fn mongodb() -> String {
    variable("PILLARBOX_TEST_MONGODB").replacen("/?", &format!("/{}?", fresh("example")), 1)
}

/// Runs an order service in a database of its own, because it uses the default names. Returns what it said.
fn on_postgresql(program: &str) -> String {
    let server = std::env::var("PILLARBOX_TEST_POSTGRES")
        .expect("PILLARBOX_TEST_POSTGRES is not set: run this through `cargo xtask services -- cargo test`");
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let database = format!("example_{}_{nanos}", std::process::id());
    psql(&server, &format!("create database {database}"));
    let (base, _) = server.rsplit_once('/').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events.ndjson");
    let output = run(program, |command| {
        command.arg(&events).env("DATABASE_URL", format!("{base}/{database}"));
    });
    psql(&server, &format!("drop database {database} with (force)"));
    assert_eq!(delivered_keys(&events), ["o-1", "o-2", "o-3"]);
    String::from_utf8(output.stdout).unwrap()
}

fn psql(server: &str, sql: &str) {
    run("psql", |command| {
        command.args([server, "--no-psqlrc", "--quiet", "--command", sql]);
    });
}

#[cfg(unix)]
#[test]
fn the_handler_worker_works_until_it_is_interrupted() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    let folder = tempfile::tempdir().unwrap();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_handler-worker"))
        .arg(folder.path().join("work.db"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(worker.stdout.take().unwrap());
    let mut seen = String::new();
    // Two are sent (one at the second attempt), one is rejected, one has no handler.
    while seen.matches("sent to").count() < 2 || seen.matches("gave up on").count() < 2 {
        assert_ne!(lines.read_line(&mut seen).unwrap(), 0, "the worker ended early: {seen}");
    }
    run("kill", |command| {
        command.args(["-INT", &worker.id().to_string()]);
    });
    lines.read_to_string(&mut seen).unwrap();
    assert!(worker.wait().unwrap().success());
    assert!(seen.contains("slow@example.org (attempt 2"), "{seen}");
    assert!(seen.contains("delivered 2, retried 1, dead 2"), "{seen}");
}
