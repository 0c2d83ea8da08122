//! Changes answer with what happened: their own audit records, what was skipped and why, and whether there is more.

use pillarbox_core::Event;
use serde_json::{Value, json};

use crate::counting::Counting;
use crate::served::{ROUTE, Served, bury, claim, stage};

fn types(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|_| "invoice.sent".to_owned())
}

/// The events of the audit records of an answer.
fn audited(answer: &Value) -> Vec<&str> {
    let records = answer["audit"].as_array().unwrap();
    records.iter().map(|record| record["event_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_change_answers_with_its_own_records_and_not_with_those_of_a_change_like_it() {
    let page = Served::acting();
    let dead: Vec<String> = bury(&page.store, types(3)).await.iter().map(ToString::to_string).collect();
    let requeue = async |ids: &[&String]| {
        page.act("ana", "/api/v1/entries/requeue", &json!({ "ids": ids })).await.json()
    };
    let (one, others) = ([&dead[0]], [&dead[1], &dead[2]]);
    let (first, second) = tokio::join!(requeue(&one), requeue(&others));
    assert_eq!(audited(&first), [&dead[0]]);
    assert_eq!(audited(&second), [&dead[1], &dead[2]]);
    let nothing = requeue(&[&dead[0]]).await;
    assert_eq!((&nothing["changed"], &nothing["skipped"]), (&json!(0), &json!(1)));
    assert_eq!(audited(&nothing), <[&str; 0]>::default(), "the record of before is not its own");
    let why = nothing["skips"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("it is pending; it was requeued by ana "), "{why}");
    assert_eq!(nothing["skips"][0]["reason"], "pending");
}

#[tokio::test]
async fn an_entry_in_flight_is_skipped_with_who_holds_it_and_for_how_long() {
    let page = Served::acting();
    let ids = stage(&page.store, vec![Event::new("invoice.sent", "{}")]).await;
    assert_eq!(claim(&page.store).await.len(), 1);
    for verb in ["requeue", "discard", "retry", "cancel"] {
        let path = format!("/api/v1/entries/{verb}");
        let answer = page.act("ana", &path, &json!({ "ids": ids })).await.json();
        assert_eq!((&answer["changed"], &answer["skipped"]), (&json!(0), &json!(1)), "{verb}");
        assert_eq!(answer["skips"][0]["reason"], "in_flight", "{verb}");
        let message = answer["message"].as_str().unwrap();
        let holds = "1 skipped: in flight: relay web-17 delivers it, and its lease ends in ";
        assert!(message.contains(holds), "{verb}: {message}");
    }
}

#[tokio::test]
async fn a_pause_and_a_purge_answer_with_their_record() {
    let page = Served::acting();
    let dead = bury(&page.store, types(2)).await;
    let kinds = |answer: &Value| {
        let records = answer["audit"].as_array().unwrap().clone();
        records.into_iter().map(|record| record["kind"].clone()).collect::<Vec<_>>()
    };
    let discarded = page.act("ana", "/api/v1/entries/discard", &json!({ "ids": dead })).await.json();
    assert_eq!(kinds(&discarded), [json!("discarded"), json!("discarded")]);
    let all = json!({ "what": "entries", "older_than": "0s", "confirm": 2 });
    let purged = page.act("ana", "/api/v1/purge", &all).await.json();
    assert_eq!((&purged["purged"], kinds(&purged)), (&json!(2), vec![json!("purged")]));

    let pause = async |verb: &str, reason: &str| {
        let path = format!("/api/v1/routes/{ROUTE}/{verb}");
        page.act("ana", &path, &json!({ "reason": reason })).await.json()
    };
    let _ = (pause("pause", "first").await, pause("resume", "").await);
    let second = pause("pause", "second").await;
    assert_eq!(second["audit"].as_array().unwrap().len(), 1);
    let record = &second["audit"][0];
    let told = (&record["kind"], &record["route"], &record["actor"], &record["detail"]);
    assert_eq!(told, (&json!("route_paused"), &json!(ROUTE), &json!("ana"), &json!("second")));
    let again = pause("pause", "third").await;
    assert_eq!((&again["changed"], &again["audit"]), (&json!(false), &json!([])));
}

#[tokio::test]
async fn an_answer_says_if_its_record_could_not_be_read() {
    let page = Served::over(Counting::refusing("trail"));
    let path = format!("/api/v1/routes/{ROUTE}/pause");
    let answer = page.act("ana", &path, &json!({})).await.json();
    assert_eq!((&answer["changed"], &answer["audit"]), (&json!(true), &json!([])));
    assert_eq!(answer["message"], "mail was paused by ana; its audit record could not be read");
}

#[tokio::test]
async fn a_change_of_more_than_is_taken_at_once_says_so_and_goes_on_behind_its_cursor() {
    let page = Served::acting();
    let events = (0..10_001).map(|_| Event::new("invoice.sent", "{}")).collect();
    stage(&page.store, events).await;
    let filter = json!({ "route": ROUTE, "status": "pending" });
    let cancel = async |filter: &Value, confirm: u64| {
        let body = json!({ "filter": filter, "confirm": confirm });
        page.act("ana", "/api/v1/entries/cancel", &body).await.json()
    };
    let dry = json!({ "filter": filter, "dry_run": true });
    let would = page.act("ana", "/api/v1/entries/cancel", &dry).await.json();
    assert_eq!((&would["changed"], &would["more"]), (&json!(10_000), &json!(true)));
    let first = cancel(&filter, 10_000).await;
    assert_eq!((&first["changed"], &first["more"]), (&json!(10_000), &json!(true)));
    assert_eq!(first["message"], "10,000 entries cancelled; more may match, so run it again");
    assert_eq!(first["audit"].as_array().unwrap().len(), 20);
    let mut rest = filter.clone();
    rest["cursor"] = first["cursor"].clone();
    let last = cancel(&rest, 10_000).await;
    let told = (&last["changed"], &last["more"], &last["cursor"]);
    assert_eq!(told, (&json!(1), &json!(false), &Value::Null));
    assert_eq!(last["message"], "1 entry cancelled");
}
