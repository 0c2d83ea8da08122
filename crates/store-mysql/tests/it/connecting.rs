//! Getting to the server, and what is in the way of it.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Schema, SchemaState, Store, Verdict};
use pillarbox_core::{Entry, ErrorKind};
use pillarbox_store_mysql::{MySqlStore, Options};
use pillarbox_testkit::eventually;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, MySqlConnection};
use tokio::task::JoinSet;

use crate::harness::{Database, MEETING, MySqlHarness, unique, url};
use crate::steps::{claim, settling, stage};

#[tokio::test]
async fn a_store_on_a_given_pool_works_whatever_its_sessions_are_set_to() {
    let harness = MySqlHarness::start().await;
    let settings = "set session transaction isolation level serializable, session autocommit = 1, \
        session sql_mode = 'ANSI_QUOTES,ONLY_FULL_GROUP_BY,NO_BACKSLASH_ESCAPES'";
    let settings = settings.replace("serializable, ", "serializable; set ");
    let pool = MySqlPoolOptions::new().max_connections(2).after_connect(move |connection, _| {
        let set = sqlx::raw_sql(sqlx::AssertSqlSafe(settings.clone()));
        Box::pin(async move { set.execute(connection).await.map(drop) })
    });
    let pool = pool.connect(&harness.database.url()).await.unwrap();
    let store = MySqlStore::new(pool, Options::default()).unwrap();
    stage(&harness, 3).await;
    assert_eq!(claim(&store, 2).await.len(), 2);
    assert_eq!(store.counts(None).await.unwrap()[0].counts.values().sum::<u64>(), 3);
    assert_eq!(store.migrate().await.unwrap().from, 1);
}

#[tokio::test]
async fn connections_that_the_server_ends_are_replaced_without_a_word() {
    let harness = MySqlHarness::start().await;
    let (store, database) = (harness.store(), &harness.database);
    stage(&harness, 3).await;
    // Several connections of one kind, so that more than one of them is broken.
    let (first, second) = tokio::join!(claim(&store, 1), claim(&store, 1));
    let claimed = first.len() + second.len();
    let ours = format!(
        "select cast(id as signed) from information_schema.processlist where db = '{}' and id <> connection_id()",
        database.0
    );
    let ended = database.rows(&ours).await;
    assert!(ended.len() > 2, "there were only {}", ended.len());
    for row in ended {
        let id: i64 = sqlx::Row::get_unchecked(&row, 0);
        // One of them may have gone by itself.
        let _ = database.try_execute(&format!("kill {id}")).await;
    }
    eventually(Duration::from_secs(60), async || database.rows(&ours).await.is_empty()).await;
    assert_eq!(claim(&store, 10).await.len(), 3 - claimed);
    assert_eq!(store.counts(None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_or_database_that_is_not_there_is_told_at_once() {
    let error = MySqlStore::connect("mysql://root@127.0.0.1:1/x", Options::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = MySqlStore::connect(&url(&unique("no")), Options::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_denied_and_printed_nowhere() {
    let database = Database::new().await;
    let url = database.url_as("nobody_here:canary");
    let error = MySqlStore::connect(&url, Options::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
}

#[tokio::test]
async fn a_closed_store_says_so_and_prints_no_password() {
    let harness = MySqlHarness::start().await;
    let store = harness.another().await;
    store.close().await;
    let error = store.counts(None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!format!("{store:?}").contains("127.0.0.1"), "{store:?}");
}

#[tokio::test]
async fn a_lock_that_is_not_let_go_of_is_contention_and_no_hang() {
    let harness = MySqlHarness::with(Options::default().lock_timeout(Duration::from_secs(1))).await;
    stage(&harness, 1).await;
    let store = harness.store();
    let claimed = claim(&store, 1).await;
    let mut other = harness.database.connect().await;
    let lock = "start transaction; select 1 from pillarbox_outbox for update";
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    let request = pillarbox_core::port::ExtendRequest {
        held: vec![claimed[0].held()],
        lease: Duration::from_secs(60),
        now: None,
    };
    let error = pillarbox_core::port::Store::extend(&*store, request).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Contention, Some("1205")), "{error}");
}

#[tokio::test]
async fn a_url_with_another_character_set_is_refused_with_the_one_to_write() {
    let database = Database::new().await;
    let url = format!("{}?charset=latin1", database.url());
    let error = MySqlStore::connect(&url, Options::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("charset=utf8mb4") && !error.to_string().contains('\n'), "{error}");
    // The pool of an application may have it. There a migration says so.
    let pool = MySqlPoolOptions::new().connect(&url).await.unwrap();
    let store = MySqlStore::new(pool, Options::default()).unwrap();
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("charset=utf8mb4") && !error.to_string().contains('\n'), "{error}");
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Missing, "something was made");
}

async fn run(connection: &mut MySqlConnection, text: &str) {
    sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(connection).await.unwrap();
}

#[tokio::test]
async fn a_settle_that_the_server_ends_in_a_deadlock_is_tried_again_and_counts() {
    let harness = MySqlHarness::start().await;
    let store = harness.store();
    stage(&harness, 2).await;
    let claimed = claim(&store, 2).await;
    let lock =
        |entry: &Entry| format!("select seq from pillarbox_outbox where seq = {} for update", entry.seq);
    // This one has written more, so it is the other one that the server ends.
    let mut other = harness.database.connect().await;
    run(&mut other, MEETING).await;
    run(&mut other, "start transaction; update ruin set n = n + 1").await;
    run(&mut other, &lock(&claimed[1])).await;
    let mut settles = JoinSet::new();
    settles.spawn({
        let (store, request) = (store.clone(), settling(&claimed, &Verdict::Delivered));
        async move { store.settle(request).await.unwrap().accepted }
    });
    // It has the first entry, and waits for the second.
    let first = format!("{} skip locked", lock(&claimed[0]));
    eventually(Duration::from_secs(60), async || harness.database.rows(&first).await.is_empty()).await;
    // Only the end of its transaction gives the first entry away, and it cannot commit.
    run(&mut other, &lock(&claimed[0])).await;
    run(&mut other, "rollback").await;
    assert_eq!(settles.join_all().await, [2]);
    assert!(claim(&store, 2).await.is_empty());
}
