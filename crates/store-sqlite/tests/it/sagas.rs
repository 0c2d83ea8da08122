//! Sagas in a file: the suite, and what the tables themselves refuse.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, SagaAdmin};
use pillarbox_core::{ErrorKind, Reference, Saga, Step};

use crate::harness::SqliteHarness;

mod suite {
    pillarbox_conformance::saga_conformance!(crate::harness::SqliteHarness);
}

const RECORD: &str = "insert into pillarbox_audit (at, kind, actor, subject_kind, subject_value) \
    values (1, 'completed', 'w', 'person', 'p-1')";

#[tokio::test]
async fn the_audit_trail_is_append_only() {
    let harness = SqliteHarness::start().await;
    harness.execute(RECORD).await;
    for statement in ["update pillarbox_audit set actor = 'x'", "delete from pillarbox_audit"] {
        let error = sqlx::raw_sql(statement).execute(harness.store().pool()).await.unwrap_err();
        assert!(error.to_string().contains("append-only"), "{error}");
    }
    assert_eq!(harness.store().audit(10).await.unwrap().len(), 1);
    // By policy, and only so.
    let purge = "begin immediate; drop trigger pillarbox_audit_kept; delete from pillarbox_audit; \
        create trigger pillarbox_audit_kept before delete on pillarbox_audit \
        begin select raise(abort, 'the audit trail is append-only'); end; commit";
    harness.execute(purge).await;
    assert!(harness.store().audit(10).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_unknown_kind_in_the_trail_of_a_subject_is_an_explicit_error() {
    let harness = SqliteHarness::start().await;
    harness.execute(RECORD).await;
    harness
        .execute("drop trigger pillarbox_audit_unchanged; update pillarbox_audit set kind = 'vanished'")
        .await;
    let error = harness.store().audit_of(&Reference::new("person", "p-1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("vanished"), "{error}");
}

#[tokio::test]
async fn a_saga_that_cannot_be_read_is_an_explicit_error() {
    let harness = SqliteHarness::start().await;
    let saga = Saga::group("erase", Reference::new("person", "p-1")).step(Step::new("crm", "crm.erase"));
    let mut tx = harness.begin().await;
    let id = harness.outbox("orders").stage_saga(&mut tx, saga.build().unwrap()).await.unwrap().id();
    harness.commit(tx).await;
    harness.execute("update pillarbox_saga set body = '{'").await;
    assert_eq!(harness.store().show_saga(id).await.unwrap_err().kind(), ErrorKind::Corrupt);
}
