//! Changes over the API: dry run, confirmation, and an answer that says what happened.

use serde_json::json;

use super::{Page, bury, ids, kill};
use crate::home::Home;

fn acting(home: &Home) -> Page {
    Page::serve(home, &["--allow-actions"])
}

#[test]
fn a_requeue_tells_what_it_did_and_what_it_skipped_and_who_did_that() {
    let home = Home::migrated();
    let dead = bury(&home, "mail", 3);
    let page = acting(&home);
    let dry = page.act("/api/v1/entries/requeue", &json!({ "ids": dead, "dry_run": true })).json();
    assert_eq!((&dry["changed"], &dry["dry_run"]), (&json!(3), &json!(true)));
    assert_eq!(home.totals()["dead"], 3, "a dry run changes nothing");
    let done = page.act("/api/v1/entries/requeue", &ids(&dead[..1])).json();
    assert_eq!(done["message"], "1 entry requeued");
    assert_eq!((&done["audit"][0]["kind"], &done["audit"][0]["actor"]), (&json!("requeued"), &json!("ana")));
    let unknown = uuid::Uuid::now_v7().to_string();
    let again = page.act("/api/v1/entries/requeue", &json!({ "ids": [&dead[0], &dead[1], &unknown] })).json();
    assert_eq!((&again["changed"], &again["skipped"]), (&json!(1), &json!(1)));
    assert_eq!(again["missing"], json!([unknown]));
    let why = again["skips"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("it is pending; it was requeued by ana "), "{why}");
    assert_eq!(home.totals()["dead"], 1);
}

#[test]
fn what_cannot_be_undone_needs_the_count_that_was_seen() {
    let home = Home::migrated();
    bury(&home, "mail", 2);
    let page = acting(&home);
    let discard = |extra: serde_json::Value| {
        let mut body = json!({ "filter": { "route": "mail", "status": "dead" } });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        page.act("/api/v1/entries/discard", &body)
    };
    discard(json!({})).says(409, &["cannot be undone", "\\\"confirm\\\": 2"]);
    discard(json!({ "confirm": 1 })).says(409, &["2 entries match now and you confirmed 1"]);
    assert_eq!(home.totals()["discarded"], 0);
    discard(json!({ "confirm": 2 })).says(200, &["2 entries discarded"]);
    assert_eq!(home.totals()["discarded"], 2);
    let purge = |extra: serde_json::Value| {
        let mut body = json!({ "what": "entries", "older_than": "0s" });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        page.act("/api/v1/purge", &body)
    };
    purge(json!({})).says(409, &["It deletes 2"]);
    purge(json!({ "dry_run": true })).says(200, &["2 entries would be deleted"]);
    purge(json!({ "confirm": 2 })).says(200, &["2 entries deleted", "\"kind\":\"purged\""]);
    assert_eq!(home.totals()["discarded"], 0);
}

#[test]
fn a_group_is_requeued_by_type_and_error_and_nothing_beside_it() {
    let home = Home::migrated();
    bury(&home, "mail", 2);
    home.ok(["stage", "--route", "mail", "--type", "other", "--payload", "1"]);
    kill(&home, "mail");
    home.sql("update pillarbox_outbox set last_error = 'failed/other: x' where type = 'other'");
    let page = acting(&home);
    let groups = page.get("/api/v1/groups?status=dead").json();
    assert_eq!(
        groups["groups"],
        json!([
            { "type": "t", "error": "failed/timeout", "entries": 2 },
            { "type": "other", "error": "failed/other", "entries": 1 },
        ])
    );
    let filter = json!({ "filter": { "status": "dead", "error": "failed/timeout" } });
    page.act("/api/v1/entries/requeue", &filter).says(200, &["2 entries requeued"]);
    assert_eq!(home.totals()["dead"], 1);
    page.get("/dead").says(200, &["failed/other", "1 event given up"]);
}

#[test]
fn entries_are_read_by_pages_and_large_numbers_stay_whole() {
    let home = Home::migrated();
    let staged = home.stage_many("orders", 7);
    let page = acting(&home);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = page.get(&format!("/api/v1/entries?limit=3&cursor={cursor}")).json();
        for entry in answer["entries"].as_array().unwrap() {
            assert!(entry.get("payload").is_none(), "payloads are hidden until asked for");
            seen.push(entry["event_id"].as_str().unwrap().to_owned());
        }
        match answer["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, staged);
    let large = "{\"n\":12345678901234567890123,\"f\":1.10}";
    let id = uuid::Uuid::now_v7().to_string();
    home.ok(["stage", "--route", "orders", "--type", "t", "--event-id", &id, "--payload", large]);
    assert_eq!(page.get(&format!("/api/v1/entries/{id}/payload")).body, large);
    page.get(&format!("/api/v1/entries/{id}?payload=true")).says(200, &[large]);
    page.get(&format!("/api/v1/entries/{}", uuid::Uuid::now_v7())).says(404, &["no route carries"]);
}

#[test]
fn a_route_is_paused_and_resumed_with_who_and_why() {
    let home = Home::migrated();
    home.stage_many("orders", 1);
    let page = acting(&home);
    let pause = json!({ "reason": "moving the broker" });
    page.act("/api/v1/routes/orders/pause", &json!({ "dry_run": true })).says(200, &["would be paused"]);
    page.act("/api/v1/routes/orders/pause", &pause).says(200, &["orders was paused by ana", "route_paused"]);
    page.act("/api/v1/routes/orders/pause", &pause).says(200, &["orders is paused already"]);
    page.until("the pause is seen", |status| status["routes"][0]["paused"]["reason"] == "moving the broker");
    page.get("/routes/orders").says(200, &["paused by ana", "moving the broker", "Resume"]);
    page.act("/api/v1/routes/orders/resume", &json!({})).says(200, &["orders was resumed by ana"]);
}

#[test]
fn a_wish_that_cannot_be_read_is_refused_with_what_can() {
    let home = Home::migrated();
    let page = acting(&home);
    page.act("/api/v1/entries/requeue", &json!({})).says(400, &["either `ids` or a `filter`"]);
    page.act("/api/v1/entries/requeue", &json!({ "ids": ["x"] })).says(400, &[]);
    page.act("/api/v1/entries/explode", &json!({ "ids": [] }))
        .says(404, &["requeue, discard, retry and cancel"]);
    page.act("/api/v1/entries/requeue", &json!({ "filter": { "status": "gone" } })).says(400, &[]);
    page.act("/api/v1/purge", &json!({ "what": "all", "older_than": "1d" }))
        .says(400, &["entries, inbox or sagas"]);
    assert_eq!(page.act("/api/v1/entries/requeue", &json!({ "idz": [] })).status, 422);
    let broken =
        page.ask("POST", "/api/v1/purge").header("pillarbox-actor", "a").body("{", "application/json");
    assert_eq!(broken.send().status, 400);
}

#[test]
fn the_document_of_the_api_names_every_path() {
    let home = Home::migrated();
    let page = acting(&home);
    let document = page.get("/api/v1/openapi.json").json();
    assert_eq!(document["info"]["title"], "Pillarbox");
    let paths = document["paths"].as_object().unwrap();
    for path in ["/api/v1/status", "/api/v1/entries", "/api/v1/entries/{verb}", "/api/v1/sagas/{id}/{verb}"] {
        assert!(paths.contains_key(path), "{path}: {paths:?}");
    }
}

#[test]
fn a_stream_sends_what_was_seen_without_being_asked_again() {
    use std::io::{BufRead as _, BufReader};
    let home = Home::migrated();
    let page = acting(&home);
    let mut lines = BufReader::new(page.ask("GET", "/live?view=overview").open()).lines();
    let mut next = |wanted: &str| loop {
        let line = lines.next().unwrap().unwrap();
        if line.starts_with("data:") && line.contains(wanted) {
            return line;
        }
    };
    next("No events yet");
    home.stage_many("orders", 2);
    assert!(next("orders").contains("data-live=\"main\""));
}
