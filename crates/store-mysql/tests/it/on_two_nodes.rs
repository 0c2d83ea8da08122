//! What only a Galera cluster shows, whose nodes do not know the locks of each other: `cargo xtask services galera`.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Lanes, Schema, SchemaState, SessionId, Store, Verdict};
use pillarbox_core::{ErrorKind, Ident, Retry};
use pillarbox_store_mysql::{MySqlStore, Options};
use pillarbox_testkit::eventually;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};
use tokio::task::JoinSet;

use crate::clusters::{arrived, delivering, reading};
use crate::harness::{Database, MySqlHarness, url_of};
use crate::steps::{ROUTE, claim, event, route, settling, stage};

const PATIENCE: Duration = Duration::from_secs(60);

/// The URL of a database on the second node.
fn second(database: &Database) -> String {
    let node = std::env::var("PILLARBOX_TEST_MYSQL_SECOND").expect(
        "PILLARBOX_TEST_MYSQL_SECOND is not set: run this test with `cargo xtask services galera -- …`",
    );
    url_of(&node, &database.0)
}

async fn run(connection: &mut MySqlConnection, text: &str) {
    sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(connection).await.unwrap();
}

/// A store on the second node, which knows the database soon.
async fn beside(database: &Database, options: &Options) -> MySqlStore {
    eventually(PATIENCE, async || MySqlConnection::connect(&second(database)).await.is_ok()).await;
    MySqlStore::connect(&second(database), options.clone()).await.unwrap()
}

#[tokio::test]
async fn migrations_on_both_nodes_at_once_end_well() {
    let database = Database::new().await;
    for prefix in ["a", "b", "c", "d"] {
        let options = Options::default().prefix(Ident::new(prefix).unwrap());
        let first = MySqlStore::connect(&database.url(), options.clone()).await.unwrap();
        let other = beside(&database, &options).await;
        let (one, two) = tokio::join!(first.migrate(), other.migrate());
        assert_eq!((one.unwrap().to, two.unwrap().to), (1, 1));
        for store in [first, other] {
            eventually(PATIENCE, async || {
                store.inspect().await.unwrap() == SchemaState::Ready { warnings: vec![] }
            })
            .await;
            store.close().await;
        }
    }
}

#[tokio::test]
async fn a_commit_that_the_other_node_forestalled_is_contention_and_stages_nothing() {
    let harness = MySqlHarness::start().await;
    let other = beside(&harness.database, &harness.options).await;
    let made = "create table own (id int primary key, n int) engine = InnoDB; insert into own values (1, 0)";
    harness.database.execute(made).await;
    arrived(&other, "select count(*) from own", 1).await;
    let (outbox, mut tx) = (harness.outbox(ROUTE), harness.begin().await);
    run(&mut tx, "update own set n = 1 where id = 1").await;
    let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
    run(&mut other.pool().acquire().await.unwrap(), "update own set n = 2 where id = 1").await;
    let error = outbox.commit(tx).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Contention, Retry::Later), "{error}");
    assert_eq!(error.code(), Some("1213"), "{error}");
    assert_eq!(harness.database.number("select count(*) from pillarbox_outbox").await, 0);
    // Run again from its beginning, as the error says.
    let mut tx = harness.begin().await;
    run(&mut tx, "update own set n = 3 where id = 1").await;
    let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
    outbox.commit(tx).await.unwrap();
    arrived(&other, "select count(*) from pillarbox_outbox", 1).await;
}

#[tokio::test]
async fn a_settle_that_the_other_node_ends_half_way_is_tried_again_and_counts() {
    let harness = MySqlHarness::start().await;
    let (store, other) = (harness.store(), beside(&harness.database, &harness.options).await);
    stage(&harness, 2).await;
    let claimed = claim(&store, 2).await;
    arrived(&other, "select count(*) from pillarbox_outbox where status = 'in_flight'", 2).await;
    let mut blocker = harness.database.connect().await;
    let lock = format!("select seq from pillarbox_outbox where seq = {} for update", claimed[1].seq);
    run(&mut blocker, &format!("start transaction; {lock}")).await;
    let mut settles = JoinSet::new();
    settles.spawn({
        let (store, request) = (store.clone(), settling(&claimed, &Verdict::Delivered));
        async move { Store::settle(&*store, request).await.unwrap().accepted }
    });
    // It has the first entry, and waits for the second.
    let first = claimed[0].seq;
    let free = format!("select seq from pillarbox_outbox where seq = {first} for update skip locked");
    eventually(PATIENCE, async || harness.database.rows(&free).await.is_empty()).await;
    // A write of the other node goes before what is not committed here: the settle is rolled back.
    let change = format!("update pillarbox_outbox set priority = 7 where seq = {first}");
    run(&mut other.pool().acquire().await.unwrap(), &change).await;
    arrived(&store, &format!("select cast(priority as signed) from pillarbox_outbox where seq = {first}"), 7)
        .await;
    run(&mut blocker, "rollback").await;
    assert_eq!(settles.join_all().await, [2]);
    arrived(&other, "select count(*) from pillarbox_outbox where status = 'delivered'", 2).await;
}

/// Shared locks are not compared when a node commits, so a settle and the burial of its session must write one row.
#[tokio::test]
async fn a_settle_by_lanes_writes_the_row_that_a_burial_deletes() {
    let harness = MySqlHarness::start().await;
    let store = harness.store();
    stage(&harness, 2).await;
    let session = SessionId::of_random(1, 1);
    let (held, entries) = reading(&store, &route(), session, harness.now().await).await;
    let written = "select leased_at from pillarbox_lane_session";
    let before = harness.database.number(written).await;
    let mut halves = entries.chunks(1);
    for wanted in [before ^ 1, before] {
        let entries = halves.next().unwrap();
        let settle = Lanes::settle(&*store, delivering(&route(), session, &held, entries));
        let settled = settle.await.unwrap();
        assert_eq!(settled.accepted, 1);
        assert_eq!(harness.database.number(written).await, wanted);
    }
}
