//! The page of one route: how long its events waited, and its lanes.

use serde_json::{Value, json};

use super::Page;
use crate::home::{Home, eventually};

#[test]
fn a_route_tells_how_long_its_events_waited() {
    let home = Home::migrated();
    home.stage_many("orders", 4);
    home.sql(
        "update pillarbox_outbox set status = 'delivered', attempts = 1, \
         settled_at = created_at + iif(seq = 4, 20000000, 30000)",
    );
    home.stage_many("mail", 1);
    let page = Page::serve(&home, &[]);
    let told = page.get("/api/v1/routes/orders/waits").json();
    assert_eq!((&told["entries"], &told["within_seconds"]), (&json!(4), &json!(86_400)));
    let waits = told["waits"].as_array().unwrap();
    assert_eq!(waits.len(), 11);
    assert_eq!(waits[1], json!({ "up_to_seconds": 0.05, "entries": 3 }));
    assert_eq!(waits[6], json!({ "up_to_seconds": 30.0, "entries": 1 }));
    assert_eq!(waits[10], json!({ "up_to_seconds": null, "entries": 0 }));
    let said = "Half of the 4 delivered in the last 24 hours took under 50 ms; the slowest over 5 s.";
    page.get("/routes/orders").says(200, &["Wait", said, "≤ 50 ms", "over 1 h"]);
    page.get("/routes/mail").says(200, &["there is nothing to measure", "retention.delivered"]);
    page.get("/api/v1/routes/nobody/waits").says(404, &["no entry of this route"]);
}

#[test]
fn a_route_shows_its_lanes_when_asked_with_what_waits_and_who_holds_them() {
    let home = Home::migrated();
    home.write(
        "pillarbox.toml",
        "[routes.billing]\nto = \"http://127.0.0.1:9/hook\"\norder = \"key\"\nallow_private = true\n",
    );
    for payload in ["1", "2", "3"] {
        home.ok(["stage", "--route", "billing", "--type", "t", "--key", "c-481", "--payload", payload]);
    }
    let page = Page::serve(&home, &[]);
    page.get("/routes/billing").says(200, &["Show lanes", "/routes/billing?lanes#lanes"]);
    page.get("/routes/billing?lanes").says(200, &["No relay has read this route by lanes.", "Hide lanes"]);
    assert_eq!(page.get("/api/v1/routes/billing/lanes").json()["lanes"], json!([]));
    page.get("/api/v1/routes/nobody/lanes").says(404, &["no entry of this route"]);

    let _relay = home.start_logged("relay.log", ["relay"]);
    let mut lanes: Vec<Value> = Vec::new();
    eventually("the relay holds all lanes", || {
        lanes = page.get("/api/v1/routes/billing/lanes").json()["lanes"].as_array().unwrap().clone();
        lanes.len() == 64 && lanes.iter().all(|lane| lane["owner"].is_string())
    });
    let waiting: Vec<&Value> = lanes.iter().filter(|lane| lane["waiting"] != 0).collect();
    assert_eq!((waiting.len(), &waiting[0]["waiting"]), (1, &json!(3)), "{lanes:?}");
    let (lane, owner) = (&waiting[0]["lane"], waiting[0]["owner"].as_str().unwrap());
    let words = format!("lane {lane}: 3 wait, held by {owner}");
    let shown = page.get("/routes/billing?lanes");
    shown.says(200, &["3 events wait in 1 of 64 lanes.", &words, "nothing waits, held by", "shade-1"]);
    assert_eq!(shown.body.matches("class=\"lane ").count(), 64, "{shown:?}");
    assert!(!page.get("/routes/billing").body.contains("shade-"), "only when asked for");
}
