//! Plain SQL is a public way to stage: from Python's standard library, in its own transaction.

use std::process::Command;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Store, Verdict};
use pillarbox_core::{EventId, lane_of};

use crate::harness::SqliteHarness;
use crate::steps::*;

/// Runs a script on the file; `db` is its connection.
fn python(harness: &SqliteHarness, script: &str) {
    let file = harness.directory.path().join("pillarbox.db");
    let program =
        format!("import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n{script}");
    let output = Command::new("python3")
        .args(["-c", &program])
        .arg(file)
        .output()
        .expect("python3 is needed for this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_plain_insert_from_python_stages_at_its_commit_and_not_on_rollback() {
    let harness = SqliteHarness::start().await;
    python(
        &harness,
        r#"
db.execute("begin")
db.execute("""insert into pillarbox_outbox(route,type,payload) values('orders','order.placed','{"id":1}')""")
db.execute("commit")
db.execute("begin")
db.execute("""insert into pillarbox_outbox(route,type,payload) values('orders','order.placed','{"id":2}')""")
db.execute("rollback")
"#,
    );
    let entries = claim(&harness.store(), 10).await;
    assert_eq!(entries.len(), 1, "what was rolled back is not there");
    let entry = &entries[0];
    assert_eq!(entry.payload, br#"{"id":1}"#);
    assert_eq!(
        (entry.event_type.as_str(), entry.content_type.as_str()),
        ("order.placed", "application/json")
    );
    assert_eq!((entry.priority, entry.hlc, entry.attempts), (100, None, 1));
    assert_eq!(entry.event_id.0.get_version_num(), 4);
    let age = harness.now().await.since(entry.created_at);
    assert!(age < std::time::Duration::from_secs(600), "{age:?}");
    assert_eq!(settle(&harness.store(), &entries, Verdict::Delivered).await.accepted, 1);
}

#[tokio::test]
async fn texts_and_blobs_from_python_keep_their_exact_bytes() {
    let harness = SqliteHarness::start().await;
    python(
        &harness,
        r#"
insert = "insert into pillarbox_outbox(route,type,payload) values('orders',?,?)"
bytewise = "insert into pillarbox_outbox(route,type,payload_bytes) values('orders',?,?)"
db.execute(insert, ("text", '{ "name": "Zoë ☃" }\n'))
db.execute(bytewise, ("blob", bytes(range(256))))
db.execute(insert, ("empty text", ""))
db.execute(bytewise, ("empty blob", b""))
db.execute(insert, ("nul", "a\0b"))
"#,
    );
    let payloads: Vec<_> = claim(&harness.store(), 10)
        .await
        .into_iter()
        .map(|entry| (entry.event_type, entry.payload))
        .collect();
    let wanted: [(&str, Vec<u8>); 5] = [
        ("text", "{ \"name\": \"Zoë ☃\" }\n".into()),
        ("blob", (0..=255).collect()),
        ("empty text", vec![]),
        ("empty blob", vec![]),
        ("nul", b"a\0b".to_vec()),
    ];
    assert_eq!(payloads, wanted.map(|(name, bytes)| (name.to_owned(), bytes)));
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_in_plain_sql_too() {
    let harness = SqliteHarness::start().await;
    python(
        &harness,
        r#"
good = dict(route="orders", type="t", payload="x")
bad = [dict(route=""), dict(route="x" * 256), dict(type=""), dict(payload=None), dict(payload=b"x"), dict(payload_bytes=b"x"), dict(key=""),
       dict(headers="[]"), dict(headers="{"), dict(headers=None), dict(event_id="X"), dict(attempts=-1),
       dict(event_id="0193A5B0-0000-7000-8000-000000000000"), dict(status="done"), dict(max_attempts=0),
       dict(priority=70000), dict(priority="high"), dict(hlc=-1), dict(status="delivered", due_at=1)]
for change in bad:
    row = {**good, **change}
    try:
        db.execute(f"insert into pillarbox_outbox({','.join(row)}) values({','.join('?' * len(row))})",
                   list(row.values()))
    except sqlite3.IntegrityError:
        continue
    raise SystemExit(f"accepted {change}")
"#,
    );
    assert!(claim(&harness.store(), 10).await.is_empty());
}

#[tokio::test]
async fn the_same_event_id_in_plain_sql_is_refused_or_ignored_as_its_writer_says() {
    let harness = SqliteHarness::start().await;
    python(
        &harness,
        r#"
row = ("0193a5b0-0000-7000-8000-000000000000", "orders", "t", "x")
insert = "insert into pillarbox_outbox(event_id,route,type,payload) values(?,?,?,?)"
db.execute(insert, row)
assert db.execute(insert + " on conflict do nothing", row).rowcount == 0
try:
    db.execute(insert, row)
    raise SystemExit("accepted twice")
except sqlite3.IntegrityError:
    pass
"#,
    );
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
}

#[tokio::test]
async fn headers_that_are_no_map_of_texts_make_their_entry_undecodable_and_no_other() {
    let harness = SqliteHarness::start().await;
    python(
        &harness,
        r#"
insert = "insert into pillarbox_outbox(route,type,payload,headers) values('orders','t','0',?)"
db.execute(insert, ('{"n":1}',))
db.execute(insert, ('{"n":"1"}',))
"#,
    );
    let claim = harness.store().claim(wish(10)).await.unwrap();
    assert_eq!((claim.entries.len(), claim.undecodable.len()), (1, 1));
    let failure = &claim.undecodable[0].failure;
    assert_eq!(failure.code(), "headers");
    assert!(claim.undecodable[0].event_id.is_some());
}

#[tokio::test]
async fn plain_sql_and_the_library_agree_on_the_lane_of_every_key() {
    let harness = SqliteHarness::start().await;
    let pool = harness.store().pool().clone();
    let keys = ["a", "o-1", "0", " ", "Zoë ☃ 日本", &"x".repeat(255), &"ü".repeat(255), &"🦊".repeat(255)];
    let insert = "insert into pillarbox_outbox (route, type, payload, key) values ('orders', 't', '1', ?)";
    for key in keys {
        sqlx::query(insert).bind(key).execute(&pool).await.unwrap();
    }
    // Without a key it goes by the id, however that is written.
    sqlx::raw_sql(
        "insert into pillarbox_outbox (route, type, payload) select 'orders', 't', '1' from json_each('[1,2,3,4,5]'); \
         insert into pillarbox_outbox (route, type, payload, event_id) \
         values ('orders', 't', '1', '018f3c2e-abcd-7000-8000-00000000abcd')",
    )
    .execute(&pool)
    .await
    .unwrap();
    let rows: Vec<(Option<String>, String, u8)> =
        sqlx::query_as("select key, event_id, lane from pillarbox_outbox").fetch_all(&pool).await.unwrap();
    assert_eq!(rows.len(), keys.len() + 6);
    for (key, id, lane) in rows {
        let event_id = EventId(id.parse().unwrap());
        assert_eq!(lane, lane_of(key.as_deref(), event_id), "{key:?} {id}");
    }
}
