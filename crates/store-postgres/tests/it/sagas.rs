//! What the tables of sagas themselves refuse, and what settling them costs.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, SagaAdmin};
use pillarbox_core::{ErrorKind, Reference, Saga, Step};

use crate::harness::Direct;

const RECORD: &str = "insert into {s}.pillarbox_audit (kind, actor, subject_kind, subject_value) \
    values ('completed', 'w', 'person', 'p-1')";

#[tokio::test]
async fn the_audit_trail_is_append_only() {
    let harness = Direct::start().await;
    harness.execute(RECORD).await;
    for statement in [
        "update {s}.pillarbox_audit set actor = 'x'",
        "delete from {s}.pillarbox_audit",
        "truncate {s}.pillarbox_audit",
        "begin; set local pillarbox.audit_purge = 'on'; update {s}.pillarbox_audit set actor = 'x'; commit",
    ] {
        let error = harness.try_execute(statement).await.unwrap_err();
        assert!(error.to_string().contains("append-only"), "{statement}: {error}");
    }
    assert_eq!(harness.store().audit(10).await.unwrap().len(), 1);
    // By policy, and only in that transaction.
    harness
        .execute("begin; set local pillarbox.audit_purge = 'on'; delete from {s}.pillarbox_audit; commit")
        .await;
    assert!(harness.store().audit(10).await.unwrap().is_empty());
    harness.execute(RECORD).await;
    assert!(harness.try_execute("delete from {s}.pillarbox_audit").await.is_err());
}

#[tokio::test]
async fn an_unknown_kind_in_the_trail_of_a_subject_is_an_explicit_error() {
    let harness = Direct::start().await;
    harness.execute(&RECORD.replace("completed", "vanished")).await;
    let error = harness.store().audit_of(&Reference::new("person", "p-1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("vanished"), "{error}");
}

#[tokio::test]
async fn a_saga_that_cannot_be_read_is_an_explicit_error() {
    let harness = Direct::start().await;
    let saga = Saga::group("erase", Reference::new("person", "p-1")).step(Step::new("crm", "crm.erase"));
    let mut tx = harness.begin().await;
    let id = harness.outbox("orders").stage_saga(&mut tx, saga.build().unwrap()).await.unwrap().id();
    harness.commit(tx).await;
    harness.execute("update {s}.pillarbox_saga set body = '{'").await;
    assert_eq!(harness.store().show_saga(id).await.unwrap_err().kind(), ErrorKind::Corrupt);
}
