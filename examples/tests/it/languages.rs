//! The examples for Node and Python, on each database: what they stage is delivered byte for byte, and what they consume is applied
//! once.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use pillarbox::Relay;
use pillarbox::mongodb::MongoStore;
use pillarbox::mysql::MySqlStore;
use pillarbox::port::Store;
use pillarbox::postgres::PostgresStore;
use pillarbox::sink::FileSink;
use pillarbox::sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::services::{fresh, variable, wait};
use crate::{MySql, mongodb, psql};

/// A language, and the letter that its orders begin with.
#[derive(Clone, Copy, PartialEq)]
enum Language {
    Node,
    Python,
}

impl Language {
    fn letter(self) -> char {
        if self == Self::Node { 'n' } else { 'p' }
    }

    /// Runs an example and gives back what it says.
    fn run(self, database: &str, action: &str, url: &str, input: Option<&Path>) -> Vec<String> {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = match self {
            Self::Node => {
                let mut command = Command::new("node");
                command.arg(examples.join(format!("node/{database}.js")));
                command.env("NODE_PATH", variable("PILLARBOX_TEST_NODE_MODULES"));
                command
            }
            Self::Python => {
                let mut command = Command::new(variable("PILLARBOX_TEST_PYTHON"));
                command.arg(examples.join(format!("python/{database}.py")));
                command
            }
        };
        command.args([action, url]);
        command.stdin(input.map_or_else(Stdio::null, |path| File::open(path).unwrap().into()));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Stages, relays to a file, consumes it, and consumes it again.
async fn there_and_back(language: Language, database: &str, url: &str, store: Arc<dyn Store>) {
    let folder = tempfile::tempdir().unwrap();
    let orders = folder.path().join("orders.ndjson");
    let id = |n: u32| format!("{}-{n}", language.letter());
    let staged = language.run(database, "stage", url, None);
    let refused = format!("{}: an order needs a total: rolled back, its event with it", id(2));
    assert_eq!(staged, [format!("{}: placed", id(1)), refused, format!("{}: placed", id(3))]);
    let sink = Arc::new(FileSink::open(&orders).unwrap());
    let relay = Relay::builder(store, sink).route("orders").build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 2);
    let text = std::fs::read_to_string(&orders).unwrap();
    let data: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["data"].clone()).collect();
    let order = |n: u32, total: u32| json!({"id": id(n), "total": total, "note": "C:\\temp \"quoted\""});
    assert_eq!(data, [order(1, 10), order(3, 30)]);

    let consume = || language.run(database, "consume", url, Some(&orders));
    assert_eq!(consume(), [1, 3].map(|n| format!("invoice for {} over {n}0", id(n))));
    assert_eq!(consume(), [1, 3].map(|n| format!("{} came again", id(n))));
}

fn on_sqlite(language: Language) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db").display().to_string();
    wait(async {
        let options = pillarbox::sqlite::Options::default();
        let store = SqliteStore::connect(&format!("sqlite://{file}"), options).await.unwrap();
        store.migrate().await.unwrap();
        there_and_back(language, "sqlite", &file, Arc::new(store.clone())).await;
        store.close().await;
    });
}

fn on_postgres(language: Language) {
    let server = variable("PILLARBOX_TEST_POSTGRES");
    // The examples use the default names, so each gets a database of its own.
    let name = fresh("example").replace('-', "_");
    psql(&server, &format!("create database {name}"));
    let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
    wait(async {
        let options = pillarbox::postgres::Options::default();
        let store = PostgresStore::connect(&url, options).await.unwrap();
        store.migrate().await.unwrap();
        there_and_back(language, "postgres", &url, Arc::new(store.clone())).await;
        store.close().await;
    });
    psql(&server, &format!("drop database {name} with (force)"));
}

fn on_mariadb(language: Language) {
    let database = MySql::create();
    wait(async {
        let options = pillarbox::mysql::Options::default();
        let store = MySqlStore::connect(&database.url, options).await.unwrap();
        store.migrate().await.unwrap();
        there_and_back(language, "mysql", &database.url, Arc::new(store.clone())).await;
        store.close().await;
    });
}

fn on_mongodb(language: Language) {
    let url = mongodb();
    wait(async {
        let store = MongoStore::connect(&url, pillarbox::mongodb::Options::default()).await.unwrap();
        store.migrate().await.unwrap();
        there_and_back(language, "mongodb", &url, Arc::new(store.clone())).await;
        store.close().await;
    });
}

#[test]
fn the_node_example_on_mongodb_stages_with_the_order_and_applies_each_event_once() {
    on_mongodb(Language::Node);
}

#[test]
fn the_python_example_on_mongodb_stages_with_the_order_and_applies_each_event_once() {
    on_mongodb(Language::Python);
}

#[test]
fn the_node_example_on_mariadb_stages_with_the_order_and_applies_each_event_once() {
    on_mariadb(Language::Node);
}

#[test]
fn the_python_example_on_mariadb_stages_with_the_order_and_applies_each_event_once() {
    on_mariadb(Language::Python);
}

#[test]
fn the_node_example_on_sqlite_stages_with_the_order_and_applies_each_event_once() {
    on_sqlite(Language::Node);
}

#[test]
fn the_node_example_on_postgresql_stages_with_the_order_and_applies_each_event_once() {
    on_postgres(Language::Node);
}

#[test]
fn the_python_example_on_sqlite_stages_with_the_order_and_applies_each_event_once() {
    on_sqlite(Language::Python);
}

#[test]
fn the_python_example_on_postgresql_stages_with_the_order_and_applies_each_event_once() {
    on_postgres(Language::Python);
}
