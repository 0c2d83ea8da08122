//! Sagas: the suite, and what their tables themselves refuse.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::Admin;

use crate::harness::MySqlHarness;

pillarbox_conformance::saga_conformance!(MySqlHarness);

#[tokio::test]
async fn the_audit_trail_is_append_only() {
    let harness = MySqlHarness::start().await;
    let database = &harness.database;
    database.execute("insert into pillarbox_audit (kind, actor) values ('purged', 'w')").await;
    for statement in ["update pillarbox_audit set actor = 'x'", "delete from pillarbox_audit"] {
        let error = database.try_execute(statement).await.unwrap_err();
        assert!(error.to_string().contains("append-only"), "{statement}: {error}");
    }
    // By policy, and until the next migration.
    database.execute("drop trigger pillarbox_audit_kept; delete from pillarbox_audit").await;
    assert!(harness.store().audit(10).await.unwrap().is_empty());
    let _ = harness.store().migrate().await.unwrap();
    database.execute("insert into pillarbox_audit (kind, actor) values ('purged', 'w')").await;
    assert!(database.try_execute("delete from pillarbox_audit").await.is_err());
}
