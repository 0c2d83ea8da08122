//! What only a server of a test's own can show: settings that do not fit, and a version that is too old.

use std::time::Duration;

use pillarbox_conformance::mariadb::OwnMariaDb;
use pillarbox_core::port::{Admin, Filter, Schema, SchemaState, Store};
use pillarbox_core::{ErrorKind, Retry};
use pillarbox_store_mysql::{MySqlStore, Options, Outbox};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use crate::steps::{ROUTE, event, wish};

/// A directory under the one for temporary files, which the server's account can enter.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

async fn set(server: &OwnMariaDb, statement: &str) {
    let mut connection = MySqlConnection::connect(&server.url("admin")).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.unwrap();
}

async fn app(server: &OwnMariaDb) -> MySqlStore {
    let options = Options::default().acquire_timeout(Duration::from_secs(2));
    MySqlStore::connect(&server.url("app"), options).await.unwrap()
}

/// `migrate` is refused in words that name the setting, and nothing is half made.
async fn refused(server: &OwnMariaDb, kind: ErrorKind, says: &str) {
    let store = app(server).await;
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Missing, "something was made");
    store.close().await;
}

#[tokio::test]
async fn settings_that_do_not_fit_are_named_and_nothing_is_made() {
    let directory = directory();
    let server = OwnMariaDb::start(directory.path(), &["--log-bin"]).await;
    set(&server, "set global binlog_format = 'STATEMENT'").await;
    refused(&server, ErrorKind::Unsupported, "binlog_format is STATEMENT").await;
    set(&server, "set global binlog_format = 'MIXED'").await;
    // An ordinary account may not make triggers while the binary log is on.
    refused(&server, ErrorKind::Denied, "log_bin_trust_function_creators").await;
    set(&server, "set global log_bin_trust_function_creators = 1").await;
    set(&server, "set global max_allowed_packet = 65536").await;
    refused(&server, ErrorKind::Unsupported, "max_allowed_packet of this server is 65536").await;
    set(&server, "set global max_allowed_packet = 16777216").await;
    set(&server, "set global read_only = 1").await;
    refused(&server, ErrorKind::ReadOnly, "read_only is set on this server").await;
    set(&server, "set global read_only = 0").await;
    let _ = app(&server).await.migrate().await.unwrap();
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_read_only_and_worth_waiting_for() {
    let directory = directory();
    let server = OwnMariaDb::start(directory.path(), &[]).await;
    let store = app(&server).await;
    let _ = store.migrate().await.unwrap();
    let (outbox, mut tx) = (Outbox::new(ROUTE), store.begin().await.unwrap());
    let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
    outbox.commit(tx).await.unwrap();
    set(&server, "set global read_only = 1").await;
    let error = store.claim(wish(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::ReadOnly, Retry::Later), "{error}");
    let mut tx = store.begin().await.unwrap();
    let error = outbox.stage(&mut tx, event(2)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::ReadOnly, Retry::Later), "{error}");
    drop(tx);
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 1, "reading goes on");
    set(&server, "set global read_only = 0").await;
    assert_eq!(store.claim(wish(1)).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused_with_both_versions() {
    let directory = directory();
    // What a server says of itself is a setting.
    let server = OwnMariaDb::start(directory.path(), &["--version=10.5.29-MariaDB"]).await;
    let error = MySqlStore::connect(&server.url("app"), Options::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let text = error.to_string();
    assert!(text.contains("10.5.29") && text.contains("needs MariaDB 10.6"), "{text}");
}

/// What was committed before the power went is there, and the store goes on with the server that comes back.
#[tokio::test]
async fn a_server_that_was_killed_keeps_what_was_committed_and_is_used_again() {
    let directory = directory();
    let server = OwnMariaDb::start(directory.path(), &[]).await;
    let store = app(&server).await;
    let _ = store.migrate().await.unwrap();
    let outbox = Outbox::new(ROUTE);
    let mut tx = store.begin().await.unwrap();
    let _ = outbox.stage_all(&mut tx, (1..=3).map(event)).await.unwrap();
    outbox.commit(tx).await.unwrap();
    let first = store.claim(wish(1)).await.unwrap().entries;
    server.kill();
    let error = store.claim(wish(1)).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Later, "{error}");
    assert!(error.to_string().contains("the server cannot be reached"), "{error}");
    server.restart().await;
    let rest = store.claim(wish(10)).await.unwrap().entries;
    assert_eq!((first.len(), rest.len()), (1, 2), "a claim that was told is kept");
    assert!(rest.iter().all(|entry| entry.event_id != first[0].event_id));
}
