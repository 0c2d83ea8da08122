//! The order service with each driver: the same orders, the same events, the same invoices.

use crate::{delivered_keys, mongodb, on_postgresql, run};

/// What a service says of its orders and invoices, before it names the file.
const SAID: &str = "o-4: an order needs a total: rolled back, its event with it\ninvoices 3, duplicates 3\n";

fn check(said: &str) {
    assert!(said.starts_with(SAID), "{said}");
    assert!(said.contains("delivered 3 events"), "{said}");
}

/// Runs an order service on a file of its own.
fn on_sqlite(program: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events.ndjson");
    let output = run(program, |command| {
        command.arg(&events).env("DATABASE_URL", folder.path().join("orders.db"));
    });
    assert_eq!(delivered_keys(&events), ["o-1", "o-2", "o-3"]);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_order_service_with_tokio_postgres_stages_and_accepts() {
    check(&on_postgresql(env!("CARGO_BIN_EXE_order-service-tokio-postgres")));
}

#[test]
fn the_order_service_with_rusqlite_stages_and_accepts() {
    check(&on_sqlite(env!("CARGO_BIN_EXE_order-service-rusqlite")));
}

#[test]
fn the_order_service_with_diesel_async_stages_and_accepts() {
    check(&on_postgresql(env!("CARGO_BIN_EXE_order-service-diesel-async")));
}

#[test]
fn the_order_service_with_diesel_stages_and_accepts() {
    check(&on_sqlite(env!("CARGO_BIN_EXE_order-service-diesel")));
}

#[test]
fn the_order_service_with_sea_orm_stages_and_accepts() {
    check(&on_postgresql(env!("CARGO_BIN_EXE_order-service-sea-orm")));
}

#[test]
fn the_order_service_on_mongodb_stages_and_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events.ndjson");
    let output = run(env!("CARGO_BIN_EXE_order-service-mongodb"), |command| {
        command.arg(&events).env("DATABASE_URL", mongodb());
    });
    assert_eq!(delivered_keys(&events), ["o-1", "o-2", "o-3"]);
    check(&String::from_utf8(output.stdout).unwrap());
}
