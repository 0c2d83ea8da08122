//! The view of consumers.

use super::Page;
use crate::home::{Home, eventually};

/// What a program does that marks events by itself.
const ACCEPTED: &str = "insert into pillarbox_inbox (consumer, event_id) \
     select 'billing', lower(hex(randomblob(16))) from json_each('[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]')";

#[test]
fn a_consumer_is_shown_with_the_rate_at_which_it_accepts() {
    let home = Home::migrated();
    // The overview of an empty outbox says what to type first, and nothing of consumers.
    home.ok(["stage", "--route", "orders", "--type", "order.placed", "--payload", "1"]);
    let page = Page::serve(&home, &[]);
    page.get("/inbox").says(200, &["No consumer accepted anything in the last 15 minutes."]);
    assert_eq!(page.get("/api/v1/inbox").json()["consumers"], serde_json::json!([]));
    let mut rate = 0.0;
    // The rate is of the last seconds only, and a busy machine shows it late.
    eventually("the consumer is seen at work", || {
        home.sql(ACCEPTED);
        let consumers = page.get("/api/v1/inbox").json()["consumers"].as_array().unwrap().clone();
        let named = consumers.iter().find(|consumer| consumer["consumer"] == "billing");
        rate = named.map_or(0.0, |consumer| consumer["accepted_per_second"].as_f64().unwrap());
        rate >= 1.0
    });
    let shown = page.get("/inbox");
    shown.says(200, &["<tr data-key=\"billing\">", "accepted/s"]);
    let (_, cell) = shown.body.split_once("data-label=\"accepted/s\">").unwrap();
    let cell = cell.split_once('<').unwrap().0.replace(',', "");
    assert!(cell.parse::<f64>().unwrap() >= 1.0, "{cell}");
    page.get("/").says(200, &["accepted per second by 1 consumer"]);
}
