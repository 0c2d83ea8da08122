//! Changes over the API: dry run, confirmation, and an answer that says what happened.

use serde_json::json;

use super::{Page, bury, ids, kill};
use crate::doctor::Pg;
use crate::home::{Home, eventually};
use crate::pair::Pair;
use crate::saga::{Answers, Application, erasure};

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
fn a_retry_makes_an_event_due_at_once_and_a_cancel_ends_it() {
    let home = Home::migrated();
    let waiting = home.stage_many("orders", 3);
    home.sql(
        "update pillarbox_outbox set status = 'retrying', attempts = 1, last_attempt_at = created_at, \
         last_error = 'failed/refused: x', due_at = (unixepoch() + 3600) * 1000000 where seq < 3",
    );
    let page = acting(&home);
    let due = || {
        home.numbers(
            "select count(*) from pillarbox_outbox where ifnull(due_at, 0) <= unixepoch() * 1000000 + 999999",
        )
    };
    assert_eq!(due(), [1]);
    page.act("/api/v1/entries/retry", &json!({ "ids": [&waiting[0]], "dry_run": true }))
        .says(200, &["1 entry would be made due at once"]);
    assert_eq!(due(), [1], "a dry run changes nothing");
    let done = page.act("/api/v1/entries/retry", &ids(&waiting[..1])).json();
    assert_eq!(done["message"], "1 entry made due at once");
    assert_eq!((&done["audit"][0]["kind"], &done["audit"][0]["actor"]), (&json!("hastened"), &json!("ana")));
    assert_eq!(due(), [2]);
    let entry = page.get(&format!("/api/v1/entries/{}", waiting[0])).json();
    assert_eq!(entry["stories"][0]["entry"]["attempts"], 1, "attempts that were spent stay spent: {entry}");

    let done = page.act("/api/v1/entries/cancel", &ids(&waiting[1..])).json();
    assert_eq!(done["message"], "2 entries cancelled");
    assert_eq!(
        (&done["audit"][0]["kind"], &done["audit"][1]["kind"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    let again = page.act("/api/v1/entries/cancel", &ids(&waiting[1..2])).json();
    assert_eq!((&again["changed"], &again["skipped"]), (&json!(0), &json!(1)));
    let totals = home.totals();
    assert_eq!((&totals["retrying"], &totals["discarded"]), (&json!(1), &json!(2)));
    let filter = json!({ "filter": { "status": "retrying" } });
    page.act("/api/v1/entries/cancel", &filter).says(409, &["cannot be undone", "\\\"confirm\\\": 1"]);
}

#[test]
fn a_saga_is_retried_skipped_and_abandoned_and_each_answer_says_what_came_of_it() {
    let application = Application::on_sqlite();
    let sagas = [1, 2, 3].map(|person| application.stage(erasure(person)));
    let rejects = Answers { rejects: &["card.redact"], unknown: &[] };
    application.work(rejects);
    let page = acting(&application.home);
    let act = |saga: &str, verb: &str, body: &serde_json::Value| {
        page.act(&format!("/api/v1/sagas/{saga}/{verb}"), body)
    };
    let dry = act(&sagas[0], "retry", &json!({ "dry_run": true })).json();
    assert_eq!((&dry["status"], &dry["requeued"], &dry["audit"]), (&json!("running"), &json!(1), &json!([])));
    assert_eq!(application.show(&sagas[0])["status"], "blocked", "a dry run changes nothing");
    let done = act(&sagas[0], "retry", &json!({})).json();
    assert_eq!((&done["status"], &done["requeued"]), (&json!("running"), &json!(1)));
    assert_eq!((&done["audit"][0]["kind"], &done["audit"][0]["actor"]), (&json!("resumed"), &json!("ana")));
    application.work(Answers::default());
    assert_eq!(application.show(&sagas[0])["status"], "completed");
    act(&sagas[0], "retry", &json!({})).says(400, &["completed"]);

    act(&sagas[1], "skip", &json!({ "step": "card" })).says(400, &["a `reason` is needed"]);
    let skip = json!({ "step": "card", "reason": "the card is gone" });
    let done = act(&sagas[1], "skip", &skip).says(200, &["the card is gone"]).json();
    assert_eq!((&done["requeued"], &done["discarded"]), (&json!(0), &json!(1)));
    assert_eq!(application.show(&sagas[1])["steps"][2]["state"], "skipped");
    // What ends a saga is its relay.
    application.work(rejects);
    assert_eq!(application.show(&sagas[1])["status"], "completed");

    let done = act(&sagas[2], "abandon", &json!({ "reason": "done by hand" })).json();
    assert_eq!(done["status"], "abandoned");
    assert_eq!(application.show(&sagas[2])["status"], "abandoned");
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

#[test]
fn a_role_that_may_only_read_is_noticed_before_anybody_acts() {
    let pg = Pg::new();
    pg.home.stage_many("r", 1);
    let reader = pg.reader();
    let page = Page::serve(&reader.home, &["--allow-actions"]);
    let notice = format!("Read only: the role {} lacks", reader.role);
    let mut shown = String::new();
    eventually("the page says that it is read-only", || {
        shown = page.get("/").body;
        shown.contains(&notice)
    });
    assert!(shown.contains("data-may-act=\"false\""), "{shown}");
    // Rights that are granted later are found without a restart.
    pg.execute(&format!("grant insert, update, delete on all tables in schema {{s}} to {}", reader.role));
    eventually("the page is no longer read-only", || !page.get("/").body.contains("Read only"));
    assert!(page.get("/").body.contains("data-may-act=\"true\""));
}

#[test]
fn a_standby_of_postgresql_is_noticed_before_anybody_acts_and_so_is_its_promotion() {
    let (pair, home) = Pair::start("postgres-pair");
    home.ok(["migrate"]);
    home.stage_many("r", 1);
    pair.catch_up();
    let there = Home::new();
    there.write("pillarbox.toml", &format!("[database]\nurl = \"{}\"\n", pair.standby()));
    let page = Page::serve(&there, &["--allow-actions"]);
    page.until("the standby is read", |status| status["routes"][0]["pending"] == 1);
    let notice = "Read only: the server is a standby";
    page.get("/").says(200, &[notice, "data-may-act=\"false\""]);
    there.run(["doctor", "--json"]).refused(3, &[]);
    pair.promote();
    eventually("the page is no longer read-only", || !page.get("/").body.contains("Read only"));
}

#[test]
fn a_sqlite_file_that_cannot_be_written_is_noticed_before_anybody_acts() {
    let home = Home::migrated();
    home.stage_many("r", 1);
    home.write("pillarbox.toml", "[database]\nurl = \"sqlite://pillarbox.db?mode=ro\"\n");
    let page = Page::serve(&home, &["--allow-actions"]);
    page.until("the file is read", |status| status["routes"][0]["pending"] == 1);
    page.get("/").says(200, &["Read only: this process cannot write to the file", "data-may-act=\"false\""]);
}
