//! Tables that are not as this version made them.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::ErrorKind;
use pillarbox_core::port::{Admin, Filter, Schema, SchemaState, Store};
use pillarbox_store_sqlite::{Options, SqliteStore};
use tempfile::TempDir;

use crate::harness::{SqliteHarness, url};
use crate::steps::*;

async fn check(harm: &'static str, expect: impl FnOnce(SchemaState)) -> SqliteHarness {
    let harness = SqliteHarness::start().await;
    harness.execute(harm).await;
    expect(harness.store().inspect().await.unwrap());
    harness
}

#[tokio::test]
async fn an_empty_file_has_no_tables_and_says_so() {
    let directory = TempDir::new().unwrap();
    let store = SqliteStore::connect(&url(&directory), Options::default()).await.unwrap();
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Missing);
    let error = store.inspect().await.unwrap().check().unwrap_err();
    assert!(error.to_string().contains("pillarbox migrate"), "{error}");
    for error in [store.claim(wish(1)).await.unwrap_err(), store.list(Filter::default()).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
    }
    let mut tx = store.pool().begin().await.unwrap();
    assert_eq!(outbox().stage(&mut tx, event(1)).await.unwrap_err().kind(), ErrorKind::Schema);
}

#[tokio::test]
async fn a_dropped_column_is_named_and_not_mended_by_guessing() {
    let harness = check("alter table pillarbox_outbox drop column owner", |state| {
        let SchemaState::Damaged { differences } = state else { panic!("{state:?}") };
        assert_eq!(differences, ["the column owner of pillarbox_outbox is missing"]);
    })
    .await;
    assert_eq!(harness.store().migrate().await.unwrap_err().kind(), ErrorKind::Schema);
}

#[tokio::test]
async fn a_dropped_table_is_named() {
    check("drop table pillarbox_audit", |state| {
        let SchemaState::Damaged { differences } = state else { panic!("{state:?}") };
        assert_eq!(differences, ["the table pillarbox_audit is missing"]);
    })
    .await;
    check("drop table pillarbox_schema", |state| {
        let SchemaState::Damaged { differences } = state else { panic!("{state:?}") };
        assert_eq!(differences, ["the table pillarbox_schema is missing"]);
    })
    .await;
}

#[tokio::test]
async fn a_newer_version_is_left_alone() {
    let harness = check("insert into pillarbox_schema (version) values (7)", |state| {
        assert_eq!(state, SchemaState::Newer { found: 7, wanted: 1 });
    })
    .await;
    let error = harness.store().migrate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(error.to_string().contains("upgrade this program"), "{error}");
}

#[tokio::test]
async fn a_missing_index_is_a_warning_and_migrate_makes_it_again() {
    let harness = check("drop index pillarbox_outbox_due; drop index pillarbox_outbox_causal", |state| {
        let SchemaState::Ready { warnings } = state else { panic!("{state:?}") };
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("pillarbox_outbox_due"), "{warnings:?}");
        assert!(warnings[1].contains("pillarbox_outbox_causal"), "{warnings:?}");
    })
    .await;
    let store = harness.store();
    stage(&harness, 2).await;
    assert_eq!(claim(&store, 10).await.len(), 2, "it is slower, not broken");
    let plan = store.plan().await.unwrap();
    assert!(plan.contains("pillarbox_outbox_due") && !plan.contains("create table"), "{plan}");
    let migrated = store.migrate().await.unwrap();
    assert_eq!((migrated.from, migrated.to), (1, 1));
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
}

#[tokio::test]
async fn the_causal_index_is_wanted_only_where_causal_order_is_on() {
    let harness = SqliteHarness::with(Options::default()).await;
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
    let causal =
        SqliteStore::connect(&url(&harness.directory), Options::default().causal_order(true)).await.unwrap();
    let state = causal.inspect().await.unwrap();
    assert!(matches!(&state, SchemaState::Ready { warnings } if warnings.len() == 1), "{state:?}");
    assert_eq!(causal.migrate().await.unwrap().to, 1);
    assert_eq!(causal.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
}

#[tokio::test]
async fn the_plan_run_by_hand_is_the_migration() {
    let directory = TempDir::new().unwrap();
    let store = SqliteStore::connect(&url(&directory), Options::default()).await.unwrap();
    let plan = store.plan().await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(plan)).execute(store.pool()).await.unwrap();
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
    assert_eq!(store.plan().await.unwrap(), "", "nothing is left to do");
    let migrated = store.migrate().await.unwrap();
    assert_eq!((migrated.from, migrated.to), (1, 1));
}
