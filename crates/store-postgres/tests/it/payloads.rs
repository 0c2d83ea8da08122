//! What a payload is to plain SQL: a text in one column, or bytes in the other.

use std::process::Command;
use std::sync::Arc;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Filter};
use pillarbox_engine::Relay;
use pillarbox_engine::sink::NullSink;

use crate::harness::{Direct, connect, server};
use crate::steps::{ROUTE, claim};

#[tokio::test]
async fn bytes_bound_to_the_column_of_texts_are_refused_and_told_where_they_belong() {
    let harness = Direct::start().await;
    let mut connection = connect().await;
    let text = "insert into {s}.pillarbox_outbox (route, type, payload) values ('orders', 't', $1)";
    // Without the domain PostgreSQL would write them down as the text \x7b7d.
    let bytes = sqlx::query(harness.sql(&text.replace("$1", "$1::bytea"))).bind(b"{}".to_vec());
    let refused = bytes.execute(&mut connection).await.unwrap_err();
    let constraint = refused.as_database_error().unwrap().constraint().map(str::to_owned);
    assert_eq!(constraint.as_deref(), Some("bytes_belong_in_payload_bytes"), "{refused}");
    for value in ["'{\"id\": 1}'::jsonb", "'{\"id\": 1}'::json", "'{\"id\": 1}'::varchar"] {
        sqlx::query(harness.sql(&text.replace("$1", value))).execute(&mut connection).await.unwrap();
    }
    let entries = claim(&harness.store(), 10).await;
    assert!(entries.iter().all(|entry| entry.payload == b"{\"id\": 1}"), "{entries:?}");
    assert_eq!(entries.len(), 3);
}

#[tokio::test]
async fn a_row_with_two_payloads_or_none_is_dead_with_that_reason_by_rows_and_by_lanes() {
    for ordered in [false, true] {
        let harness = Direct::start().await;
        let wrong = "insert into {s}.pillarbox_outbox (route, type, payload, payload_bytes) \
            values ('orders', 't', '{}', '{}'), ('orders', 't', null, null), ('orders', 't', '1', null)";
        harness.execute(wrong).await;
        let (store, sink) = (harness.store(), Arc::new(NullSink));
        let builder = if ordered { Relay::ordered(store, sink) } else { Relay::builder(store, sink) };
        let tally = builder.route(ROUTE).build().unwrap().drain().await.unwrap();
        assert_eq!((tally.delivered, tally.dead), (1, 2), "ordered: {ordered}");
        let dead = harness.store().list(Filter::dead()).await.unwrap();
        let reasons: Vec<_> = dead.iter().map(|entry| entry.last_error.as_ref().unwrap().code()).collect();
        assert_eq!(reasons, ["payload", "payload"]);
    }
}

/// What psycopg makes of each kind of value; `db` is its connection, `insert(column, value)` stages.
const PYTHON: &str = r#"
import json, sys
import psycopg

value = {"path": "C:\\temp", "said": 'it\'s "no"', "name": "Zo\u00eb \u2603"}
text = json.dumps(value)
with psycopg.connect(sys.argv[1]) as db:
    def insert(column, value):
        db.execute(f"insert into {sys.argv[2]}.pillarbox_outbox (route, type, {column}) values (%s, %s, %s)",
                   ("orders", "order.placed", value))
    insert("payload", text)
    insert("payload_bytes", text.encode())
    insert("payload", psycopg.types.json.Json(value))
    insert("payload_bytes", bytes(range(256)))
    db.commit()
    for column, wrong in [("payload", text.encode()), ("payload", bytes(range(256)))]:
        try:
            insert(column, wrong)
        except psycopg.errors.CheckViolation as error:
            assert error.diag.constraint_name == "bytes_belong_in_payload_bytes", error
        else:
            raise SystemExit(f"{column} took {wrong!r}")
        db.rollback()
print(text)
"#;

#[tokio::test]
async fn texts_and_bytes_from_psycopg_arrive_as_they_are_or_are_refused() {
    let harness = Direct::start().await;
    let python = std::env::var("PILLARBOX_TEST_PYTHON").expect("`cargo xtask services python postgres -- …`");
    let run = Command::new(python).args(["-c", PYTHON, &server(), &harness.schema]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8(run.stdout).unwrap().trim().as_bytes().to_vec();
    let payloads: Vec<_> = claim(&harness.store(), 10).await.into_iter().map(|entry| entry.payload).collect();
    assert_eq!(payloads, [text.clone(), text.clone(), text, (0..=255).collect()]);
}
