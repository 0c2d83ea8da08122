//! The tables: made once by many, and looked at before they are trusted.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Schema, SchemaState, Store};
use pillarbox_core::{ErrorKind, Ident};
use pillarbox_store_postgres::{Options, Outbox};
use tokio::task::JoinSet;

use crate::harness::{Direct, Pooled, PostgresHarness};
use crate::steps::{ROUTE, claim, claim_request, events, stage};

async fn eight_migrate<const POOLED: bool>(harness: PostgresHarness<POOLED>) {
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Missing);
    let mut migrations = JoinSet::new();
    for _ in 0..8 {
        let store = harness.another().await;
        migrations.spawn(async move { store.migrate().await.unwrap() });
    }
    let migrated = migrations.join_all().await;
    assert_eq!(migrated.iter().filter(|migrated| migrated.from == 0).count(), 1, "one did the work");
    assert!(migrated.iter().all(|migrated| migrated.to == 1));
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_schema").await, 1);
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
}

#[tokio::test]
async fn eight_migrations_at_once_are_one() {
    eight_migrate(Direct::unmigrated(Direct::fresh().causal_order(true)).await).await;
}

#[tokio::test]
async fn eight_migrations_at_once_through_a_pooler_are_one() {
    eight_migrate(Pooled::unmigrated(Pooled::fresh()).await).await;
}

#[tokio::test]
async fn a_dropped_column_is_damage_that_names_it_and_nothing_is_guessed() {
    let harness = Direct::start().await;
    harness
        .execute(
            "alter table {s}.pillarbox_outbox drop column last_error, alter column owner type varchar(10)",
        )
        .await;
    let SchemaState::Damaged { differences } = harness.store().inspect().await.unwrap() else {
        panic!("not damaged")
    };
    assert_eq!(differences.len(), 2, "{differences:?}");
    assert!(differences[0].contains("owner") && differences[1].contains("last_error"), "{differences:?}");
    assert_eq!(harness.store().migrate().await.unwrap_err().kind(), ErrorKind::Schema);
    assert_eq!(harness.store().claim(claim_request(1)).await.unwrap_err().kind(), ErrorKind::Schema);
}

#[tokio::test]
async fn a_dropped_table_is_damage_and_missing_tables_are_a_schema_error() {
    let harness = Direct::start().await;
    harness.execute("drop table {s}.pillarbox_audit").await;
    let state = harness.store().inspect().await.unwrap();
    assert!(
        matches!(&state, SchemaState::Damaged { differences } if differences == &["the table pillarbox_audit is missing"])
    );
    let empty = Direct::unmigrated(Direct::fresh()).await;
    assert_eq!(empty.store().counts(None).await.unwrap_err().kind(), ErrorKind::Schema);
}

#[tokio::test]
async fn a_missing_unique_index_is_damage() {
    let harness = Direct::start().await;
    harness.execute("drop index {s}.pillarbox_outbox_event").await;
    let state = harness.store().inspect().await.unwrap();
    assert!(
        matches!(&state, SchemaState::Damaged { differences } if differences[0].contains("pillarbox_outbox_event")),
        "{state:?}"
    );
}

#[tokio::test]
async fn a_newer_version_is_left_alone() {
    let harness = Direct::start().await;
    harness.execute("insert into {s}.pillarbox_schema (version) values (7)").await;
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Newer { found: 7, wanted: 1 });
    assert_eq!(harness.store().migrate().await.unwrap_err().kind(), ErrorKind::Schema);
}

#[tokio::test]
async fn a_missing_index_or_function_is_a_warning_and_migrate_mends_it() {
    let harness = Direct::start().await;
    harness.execute("drop index {s}.pillarbox_outbox_open, {s}.pillarbox_outbox_causal; drop function {s}.pillarbox_stage").await;
    let SchemaState::Ready { warnings } = harness.store().inspect().await.unwrap() else {
        panic!("not ready")
    };
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for name in ["pillarbox_outbox_open", "pillarbox_outbox_causal", "pillarbox_stage"] {
        assert!(warnings.iter().any(|warning| warning.contains(name)), "{warnings:?}");
    }
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(2)).await;
    assert_eq!(claim(&harness.store(), 10).await.len(), 2, "it works without");
    let migrated = harness.store().migrate().await.unwrap();
    assert_eq!((migrated.from, migrated.to), (1, 1));
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
}

#[tokio::test]
async fn the_causal_index_is_made_when_the_option_is_on() {
    let harness = Direct::with(Direct::fresh()).await;
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
    let mut options = harness.options.clone();
    options.causal_order = true;
    let causal =
        pillarbox_store_postgres::PostgresStore::connect(&crate::harness::server(), options).await.unwrap();
    let SchemaState::Ready { warnings } = causal.inspect().await.unwrap() else { panic!("not ready") };
    assert!(warnings[0].contains("pillarbox_outbox_causal"), "{warnings:?}");
    let _ = causal.migrate().await.unwrap();
    assert_eq!(causal.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
}

#[tokio::test]
async fn the_plan_is_the_sql_that_makes_the_tables() {
    let harness = Direct::unmigrated(Direct::fresh().causal_order(true)).await;
    let plan = harness.store().plan().await.unwrap();
    assert!(plan.contains("create schema"), "{plan}");
    harness.execute(&plan).await;
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
    assert_eq!(harness.store().plan().await.unwrap(), "");
}

#[tokio::test]
async fn two_prefixes_in_one_schema_do_not_see_each_other() {
    let options = Direct::fresh();
    let harness = Direct::with(options.clone()).await;
    let other: Options = harness.options.clone().prefix(Ident::new("billing").unwrap());
    let billing = pillarbox_store_postgres::PostgresStore::connect(&crate::harness::server(), other.clone())
        .await
        .unwrap();
    assert_eq!(billing.inspect().await.unwrap(), SchemaState::Missing);
    let _ = billing.migrate().await.unwrap();
    stage(&Outbox::new(ROUTE).options(other), billing.pool(), events(3)).await;
    assert!(claim(&harness.store(), 10).await.is_empty());
    assert_eq!(claim(&billing, 10).await.len(), 3);
}

#[tokio::test]
async fn a_schema_that_does_not_exist_is_created_only_if_that_was_asked_for() {
    let harness = Direct::unmigrated(Direct::fresh().create_schema(false)).await;
    for error in
        [harness.store().migrate().await.unwrap_err(), harness.store().plan().await.map(drop).unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(
            error.to_string().contains(&format!("the schema {} does not exist", harness.schema)),
            "{error}"
        );
        assert!(error.to_string().contains("--create-schema"), "{error}");
    }
    let schemas = format!("select count(*) from pg_namespace where nspname = '{}'", harness.schema);
    assert_eq!(harness.number(&schemas).await, 0, "nothing was created");
    harness.execute("create schema {s}").await;
    assert_eq!(harness.store().migrate().await.unwrap().to, 1);
}
