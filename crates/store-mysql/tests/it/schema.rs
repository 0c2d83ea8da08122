//! The tables: made once by many, looked at before they are trusted, and never half made.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Schema, SchemaState};
use pillarbox_core::{ErrorKind, Ident};
use pillarbox_store_mysql::{MySqlStore, Options};
use sqlx::Row;
use tokio::task::JoinSet;

use crate::harness::{Database, MySqlHarness, unique};
use crate::steps::{claim, stage};

const READY: SchemaState = SchemaState::Ready { warnings: vec![] };

#[tokio::test]
async fn eight_migrations_at_once_are_one() {
    let harness = MySqlHarness::unmigrated(Options::default()).await;
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Missing);
    let mut migrations = JoinSet::new();
    for _ in 0..8 {
        let store = harness.another().await;
        migrations.spawn(async move { store.migrate().await.unwrap().from });
    }
    let from = migrations.join_all().await;
    assert_eq!(from.iter().filter(|from| **from == 0).count(), 1, "one did the work: {from:?}");
    assert_eq!(harness.store().inspect().await.unwrap(), READY);
}

/// DDL commits by itself: every statement of a migration may be the last one of a program that dies.
#[tokio::test]
async fn a_migration_that_broke_off_anywhere_is_finished_by_the_next() {
    let harness = MySqlHarness::unmigrated(Options::default()).await;
    let plan = harness.store().plan().await.unwrap();
    let code: Vec<&str> = plan.lines().map(|line| line.split("-- ").next().unwrap()).collect();
    let code = code.join("\n");
    let statements: Vec<&str> = code.split(';').filter(|text| !text.trim().is_empty()).collect();
    assert!(statements.len() > 20, "{}", statements.len());
    for broken in (0..statements.len()).step_by(3) {
        let database = Database::new().await;
        for statement in &statements[..broken] {
            database.execute(statement).await;
        }
        let store = MySqlStore::connect(&database.url(), Options::default()).await.unwrap();
        let _ = store.migrate().await.unwrap();
        assert_eq!(store.inspect().await.unwrap(), READY, "after {broken} statements");
        assert!(store.plan().await.unwrap().is_empty(), "after {broken} statements");
        store.close().await;
    }
}

#[tokio::test]
async fn the_plan_is_the_sql_that_makes_the_tables() {
    let harness = MySqlHarness::unmigrated(Options::default().causal_order(true)).await;
    let plan = harness.store().plan().await.unwrap();
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Missing, "a plan changes nothing");
    harness.database.execute(&plan).await;
    assert_eq!(harness.store().inspect().await.unwrap(), READY);
    assert_eq!(harness.store().plan().await.unwrap(), "");
}

#[tokio::test]
async fn damage_is_named_and_nothing_is_guessed() {
    for (damage, says) in [
        ("alter table pillarbox_outbox drop column owner", "the column owner of pillarbox_outbox is missing"),
        ("drop table pillarbox_audit", "the table pillarbox_audit is missing"),
        ("drop table pillarbox_schema", "the table pillarbox_schema is missing"),
        ("drop index pillarbox_outbox_event on pillarbox_outbox", "the unique index pillarbox_outbox_event"),
    ] {
        let harness = MySqlHarness::start().await;
        harness.database.execute(damage).await;
        let SchemaState::Damaged { differences } = harness.store().inspect().await.unwrap() else {
            panic!("{damage}: not damaged")
        };
        assert!(differences.len() == 1 && differences[0].contains(says), "{damage}: {differences:?}");
        assert_eq!(harness.store().migrate().await.unwrap_err().kind(), ErrorKind::Schema);
    }
    let empty = MySqlHarness::unmigrated(Options::default()).await;
    assert_eq!(empty.store().counts(None).await.unwrap_err().kind(), ErrorKind::Schema);
}

#[tokio::test]
async fn a_missing_index_is_a_warning_and_migrate_mends_it() {
    let harness = MySqlHarness::start().await;
    harness.database.execute("drop index pillarbox_outbox_lane on pillarbox_outbox").await;
    let SchemaState::Ready { warnings } = harness.store().inspect().await.unwrap() else {
        panic!("not ready")
    };
    assert!(warnings.len() == 1 && warnings[0].contains("pillarbox_outbox_lane"), "{warnings:?}");
    assert!(harness.store().plan().await.unwrap().starts_with("create index `pillarbox_outbox_lane`"));
    let _ = harness.store().migrate().await.unwrap();
    assert_eq!(harness.store().inspect().await.unwrap(), READY);
}

#[tokio::test]
async fn a_newer_version_is_left_alone() {
    let harness = MySqlHarness::start().await;
    harness.database.execute("insert into pillarbox_schema (version) values (7)").await;
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Newer { found: 7, wanted: 1 });
    assert_eq!(harness.store().migrate().await.unwrap_err().kind(), ErrorKind::Schema);
}

#[tokio::test]
async fn two_prefixes_in_one_database_do_not_see_each_other() {
    let harness = MySqlHarness::start().await;
    let options = Options::default().prefix(Ident::new("other").unwrap());
    let other = MySqlStore::connect(&harness.database.url(), options).await.unwrap();
    assert_eq!(other.inspect().await.unwrap(), SchemaState::Missing);
    let _ = other.migrate().await.unwrap();
    stage(&harness, 1).await;
    assert!(claim(&other, 1).await.is_empty());
    assert_eq!(claim(&harness.store(), 1).await.len(), 1);
}

/// A user that may do this on the database, and nothing else; gone at the end.
struct User(String);

impl User {
    async fn new(database: &Database, grants: &str) -> (Self, String) {
        let name = unique("u")[..18].to_owned();
        database
            .execute(&format!(
                "create user {name}@'%' identified by ''; grant {grants} on {}.* to {name}@'%'",
                database.0
            ))
            .await;
        let url = database.url_as(&name);
        (Self(name), url)
    }

    async fn gone(self, database: &Database) {
        database.execute(&format!("drop user {}@'%'", self.0)).await;
    }
}

#[tokio::test]
async fn a_user_without_a_privilege_changes_nothing_and_is_told_which() {
    let database = Database::new().await;
    for (grants, says) in [
        ("select, insert, update, delete", "CREATE"),
        ("create, select, insert, update, delete, index, alter, drop", "TRIGGER"),
    ] {
        let (user, url) = User::new(&database, grants).await;
        let store = MySqlStore::connect(&url, Options::default()).await.unwrap();
        let error = store.migrate().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        let tables = "select table_name from information_schema.tables where table_schema = database()";
        let tables = database.rows(tables).await;
        let names: Vec<String> = tables.iter().map(|row| row.get_unchecked(0)).collect();
        assert!(names.is_empty(), "something is half made: {names:?}");
        store.close().await;
        user.gone(&database).await;
    }
}

#[tokio::test]
async fn a_user_with_the_privileges_of_the_guide_migrates_and_works() {
    let harness = MySqlHarness::unmigrated(Options::default()).await;
    let grants = "create, alter, index, drop, trigger, select, insert, update, delete";
    let (user, url) = User::new(&harness.database, grants).await;
    let store = MySqlStore::connect(&url, Options::default()).await.unwrap();
    let _ = store.migrate().await.unwrap();
    stage(&harness, 2).await;
    assert_eq!(claim(&store, 2).await.len(), 2);
    store.close().await;
    user.gone(&harness.database).await;
}
