//! Plain SQL is a public way to stage.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::Store;

use crate::harness::MySqlHarness;
use crate::steps::{claim, wish};

#[tokio::test]
async fn a_plain_insert_gets_every_default() {
    let harness = MySqlHarness::start().await;
    let insert = "insert into pillarbox_outbox (route, type, payload) values ('orders', 'order.placed', '{\"id\": 1}')";
    harness.database.execute(insert).await;
    let entries = claim(&harness.store(), 10).await;
    let entry = &entries[0];
    assert_eq!(
        (entry.payload.as_slice(), entry.content_type.as_str()),
        (&b"{\"id\": 1}"[..], "application/json")
    );
    assert_eq!((entry.priority, entry.hlc, entry.attempts), (100, None, 1));
    assert!(!entry.event_id.0.is_nil());
    let age = harness.now().await.since(entry.created_at);
    assert!(age < std::time::Duration::from_secs(600), "{age:?}");
}

#[tokio::test]
async fn an_id_of_ones_own_is_one_entry() {
    let harness = MySqlHarness::start().await;
    let insert = "insert into pillarbox_outbox (event_id, route, type, payload) values \
        (unhex(replace('018f3c2e-abcd-7000-8000-00000000abcd', '-', '')), 'orders', 't', '1')";
    harness.database.execute(insert).await;
    assert!(harness.database.try_execute(insert).await.is_err());
    harness.database.execute(&insert.replace("insert into", "insert ignore into")).await;
    let entries = claim(&harness.store(), 10).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].event_id.to_string(), "018f3c2e-abcd-7000-8000-00000000abcd");
}

/// Where the mode is not strict, the server would cut values to fit.
#[tokio::test]
async fn what_breaks_a_rule_is_refused_in_every_mode() {
    let harness = MySqlHarness::start().await;
    for mode in ["", "STRICT_ALL_TABLES"] {
        for (column, value) in [
            ("route", "''"),
            ("route", "repeat('x', 1021)"),
            ("type", "repeat('☃', 2000)"),
            ("`key`", "''"),
            ("`key`", "repeat('x', 5000)"),
            ("payload_bytes", "'x'"),
            ("headers", "'[]'"),
            ("headers", "'{'"),
            ("event_id", "'018f3c2e-abcd-7000-8000-00000000abcd'"),
            ("status", "'done'"),
            ("status", "'delivered', due_at = 1"),
            ("attempts", "-1"),
            ("max_attempts", "0"),
            ("hlc", "-1"),
        ] {
            let insert = format!(
                "set session sql_mode = '{mode}'; \
                 insert into pillarbox_outbox set route = 'orders', type = 't', payload = 'x', {column} = {value}"
            );
            // A column that is named twice has its last value.
            let insert =
                insert.replacen(&format!("{column} = 'orders', "), "", usize::from(column == "route"));
            let insert = insert.replacen("type = 't', ", "", usize::from(column == "type"));
            assert!(
                harness.database.try_execute(&insert).await.is_err(),
                "accepted in {mode:?}: {column} = {value}"
            );
        }
    }
    assert!(claim(&harness.store(), 10).await.is_empty());
}

#[tokio::test]
async fn a_name_that_is_too_long_or_in_another_encoding_makes_its_own_entry_undecodable() {
    let harness = MySqlHarness::start().await;
    for key in ["x'e4'", "repeat('x', 256)", "repeat('☃', 256)", "repeat('☃', 255)"] {
        let insert =
            "insert into pillarbox_outbox (route, type, payload, `key`) values ('orders', 't', '1', {key})";
        harness.database.execute(&insert.replace("{key}", key)).await;
    }
    let claim = harness.store().claim(wish(10)).await.unwrap();
    assert_eq!((claim.entries.len(), claim.undecodable.len()), (1, 3));
    assert!(claim.undecodable.iter().all(|row| row.failure.code() == "key"));
}
