//! The examples for Node, on both databases: what they stage is delivered byte for byte, and what they consume is applied
//! once.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use pillarbox::port::Store;
use pillarbox::postgres::PostgresStore;
use pillarbox::sink::FileSink;
use pillarbox::sqlite::SqliteStore;
use pillarbox::{Relay, Schema};
use serde_json::{Value, json};

use crate::psql;
use crate::services::{fresh, variable, wait};

/// Runs an example and gives back what it says.
fn node(script: &str, action: &str, database: &str, input: Option<&Path>) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("node").join(script);
    let mut command = Command::new("node");
    command.arg(script).args([action, database]);
    command.env("NODE_PATH", variable("PILLARBOX_TEST_NODE_MODULES"));
    command.stdin(input.map_or_else(Stdio::null, |path| File::open(path).unwrap().into()));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Stages, relays to a file, consumes it, and consumes it again.
async fn there_and_back(script: &str, database: &str, store: Arc<dyn Store>) {
    let folder = tempfile::tempdir().unwrap();
    let orders = folder.path().join("orders.ndjson");
    let staged = node(script, "stage", database, None);
    assert_eq!(
        staged,
        ["n-1: placed", "n-2: an order needs a total: rolled back, its event with it", "n-3: placed"]
    );
    let sink = Arc::new(FileSink::open(&orders).unwrap());
    let relay = Relay::builder(store, sink).route("orders").build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 2);
    let text = std::fs::read_to_string(&orders).unwrap();
    let data: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["data"].clone()).collect();
    let order = |id: &str, total: u32| json!({"id": id, "total": total, "note": "C:\\temp \"quoted\""});
    assert_eq!(data, [order("n-1", 10), order("n-3", 30)]);

    let consumed = node(script, "consume", database, Some(&orders));
    assert_eq!(consumed, ["invoice for n-1 over 10", "invoice for n-3 over 30"]);
    let again = node(script, "consume", database, Some(&orders));
    assert_eq!(again, ["n-1 came again", "n-3 came again"]);
}

#[test]
fn the_node_example_on_sqlite_stages_with_the_order_and_applies_each_event_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db").display().to_string();
    wait(async {
        let options = pillarbox::sqlite::Options::default();
        let store = SqliteStore::connect(&format!("sqlite://{file}"), options).await.unwrap();
        store.migrate().await.unwrap();
        there_and_back("sqlite.js", &file, Arc::new(store.clone())).await;
        store.close().await;
    });
}

#[test]
fn the_node_example_on_postgresql_stages_with_the_order_and_applies_each_event_once() {
    let server = variable("PILLARBOX_TEST_POSTGRES");
    // The example uses the default names, so it gets a database of its own.
    let name = fresh("node").replace('-', "_");
    psql(&server, &format!("create database {name}"));
    let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
    wait(async {
        let options = pillarbox::postgres::Options::default();
        let store = PostgresStore::connect(&url, options).await.unwrap();
        store.migrate().await.unwrap();
        there_and_back("postgres.js", &url, Arc::new(store.clone())).await;
        store.close().await;
    });
    psql(&server, &format!("drop database {name} with (force)"));
}
