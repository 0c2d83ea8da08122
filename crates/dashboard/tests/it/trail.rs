//! The audit trail, page by page and filtered, and the counts of dead letters.

use serde_json::{Value, json};

use crate::counting::Counting;
use crate::served::{ROUTE, Served, bury};

fn kinds(answer: &Value) -> Vec<&str> {
    answer["records"].as_array().unwrap().iter().map(|record| record["kind"].as_str().unwrap()).collect()
}

/// Three deaths, a requeue and a discard by ana, and a pause by bob.
async fn busy() -> Served {
    let page = Served::acting();
    let dead = bury(&page.store, (0..3).map(|n| format!("type.{n}"))).await;
    for (actor, path, body) in [
        ("ana", "/api/v1/entries/requeue".to_owned(), json!({ "ids": [dead[0]] })),
        ("ana", "/api/v1/entries/discard".to_owned(), json!({ "ids": [dead[1]] })),
        ("bob", format!("/api/v1/routes/{ROUTE}/pause"), json!({ "reason": "the broker is being moved" })),
    ] {
        page.act(actor, &path, &body).await.json();
    }
    page
}

#[tokio::test]
async fn the_audit_trail_is_read_by_pages_from_the_newest_record() {
    let page = busy().await;
    let all = page.get("/api/v1/audit").await.json();
    assert_eq!(kinds(&all), ["route_paused", "discarded", "requeued", "dead", "dead", "dead"]);
    assert_eq!(all["next"], Value::Null);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = page.get(&format!("/api/v1/audit?limit=2&cursor={cursor}")).await.json();
        seen.extend(answer["records"].as_array().unwrap().clone());
        match answer["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(json!(seen), all["records"]);
}

#[tokio::test]
async fn the_audit_trail_is_filtered_by_kind_actor_and_time() {
    let page = busy().await;
    let told = async |query: &str| page.get(&format!("/api/v1/audit?{query}")).await;
    assert_eq!(kinds(&told("kind=requeued,discarded").await.json()), ["discarded", "requeued"]);
    assert_eq!(kinds(&told("actor=bob").await.json()), ["route_paused"]);
    assert_eq!(kinds(&told("actor=ana&kind=discarded").await.json()), ["discarded"]);
    assert_eq!(kinds(&told("since=2026-01-01T00:00:00Z").await.json()).len(), 6);
    assert_eq!(kinds(&told("since=2126-01-01T00:00:00Z").await.json()), <[&str; 0]>::default());
    for (query, why) in [
        ("kind=vanished", "the kinds are dead, requeued"),
        ("since=soon", "how long ago"),
        ("cursor=x", "the cursor"),
        ("limit=1001", "1 to 1000"),
        ("limit=0", "1 to 1000"),
    ] {
        let refused = told(query).await;
        assert_eq!(refused.status, 400, "{query}: {refused:?}");
        refused.says(&[why]);
    }
}

#[tokio::test]
async fn the_page_of_the_audit_trail_leads_to_older_records_and_to_kinds() {
    let page = busy().await;
    let first = page.get("/audit?limit=2").await;
    first.says(&["2 records, newest first.", "route paused", "changes by hand", "given up", "purges"]);
    assert!(!first.body.contains("requeued</span>"), "{first:?}");
    let (_, link) = first.body.split_once("rel=\"next\" href=\"").unwrap();
    let older = page.get(&link.split_once('"').unwrap().0.replace("&amp;", "&")).await;
    older.says(&["requeued</span>", "newest"]);
    let by_hand = page.get("/audit?kind=requeued,discarded,route_paused&actor=ana").await;
    by_hand.says(&["2 records, newest first.", "Only records of", "that is all"]);
    page.get("/audit?kind=purged").await.says(&["No records match.", "Show all records"]);
}

#[tokio::test]
async fn dead_letters_are_all_counted_although_only_the_largest_groups_are_listed() {
    let counting = Counting::in_real_time();
    let twice = ["common".to_owned(), "common".to_owned()];
    bury(&counting.store, (0..54).map(|n| format!("rare.{n}")).chain(twice)).await;
    let page = Served::over(counting);
    let shown = page.get("/dead").await;
    shown.says(&["56 events given up", "common", "Not listed: 5 events in smaller groups."]);
    assert_eq!(shown.body.matches("data-verb=\"requeue\"").count(), 50);
}
