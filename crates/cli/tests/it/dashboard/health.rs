//! `/livez`, `/readyz`, `status --check` and the top line of the page agree on what is wrong.

use serde_json::json;

use super::{Page, bury};
use crate::home::{Home, eventually};

#[test]
fn a_calm_outbox_is_alive_and_ready_and_the_page_says_so() {
    let home = Home::migrated();
    let page = Page::serve(&home, &[]);
    page.get("/livez").says(200, &["alive"]);
    page.get("/readyz").says(200, &["\"ready\":true", "No events have been staged yet."]);
    page.get("/").says(200, &["No events have been staged yet.", "pillarbox stage --route orders"]);
}

#[test]
fn a_dead_entry_is_told_everywhere_and_does_not_make_a_pod_unready() {
    let home = Home::migrated();
    bury(&home, "mail", 3);
    let page = Page::serve(&home, &[]);
    let ready = page.get("/readyz");
    ready.says(200, &["\"kind\":\"dead\"", "3 dead on route mail"]);
    home.run(["status", "--check"]).refused(3, &["3 dead on route mail"]);
    page.get("/").says(200, &["3 dead on route mail", "has dead"]);
    let status = page.get("/api/v1/status").json();
    assert_eq!(status["routes"][0]["dead"], 3);
    assert_eq!(status["healthy"], false);
}

#[test]
fn which_problems_make_a_pod_unready_is_a_setting() {
    let home = Home::migrated();
    bury(&home, "mail", 1);
    home.write("pillarbox.toml", "[admin]\nunready = [\"dead\"]\n");
    let page = Page::serve(&home, &[]);
    let answer = page.get("/readyz");
    answer.says(503, &["\"ready\":false"]);
    assert_eq!(answer.json()["causes"][0]["kind"], "dead");
}

#[test]
fn a_route_that_nobody_relays_is_unready_with_its_cause_in_words() {
    let home = Home::migrated();
    home.stage_many("orders", 1);
    home.sql("update pillarbox_outbox set created_at = created_at - 3600000000");
    let page = Page::serve(&home, &[]);
    let said = "no relay of orders is running";
    let answer = page.get("/readyz");
    answer.says(503, &["\"unrelayed\"", said]);
    home.run(["status", "--check"]).refused(3, &[said]);
    page.get("/").says(200, &[said, "no relay"]);
    page.get("/livez").says(200, &[]);
}

#[test]
fn a_destination_that_is_down_is_told_with_its_reason_while_nothing_is_late() {
    let home = Home::migrated();
    home.stage_many("billing", 4);
    let to = "http://127.0.0.1:9/hook";
    let args = ["relay", "--route", "billing", "--to", to, "--allow-private"];
    let _relay = home.start_logged("relay.log", args);
    let page = Page::serve(&home, &[]);
    page.until("the circuit is open", |status| status["routes"][0]["state"] == "circuit_open");
    let said = "the circuit of billing is open; its destination has been down for";
    page.get("/readyz").says(503, &["\"circuit\"", said, "4 entries wait; no attempt is spent on them"]);
    home.run(["status", "--check"]).refused(3, &[said]);
    page.get("/").says(200, &[said, "circuit open"]);
    page.get("/routes/billing").says(200, &["Its destination does not answer."]);
    page.get("/relays").says(200, &["billing", "down/"]);
}

#[test]
fn tables_that_are_missing_are_told_until_they_are_made() {
    let home = Home::new();
    home.write("pillarbox.db", "");
    let page = Page::serve(&home, &[]);
    page.get("/readyz").says(503, &["\"tables\"", "pillarbox migrate"]);
    page.get("/").says(200, &["pillarbox migrate"]);
    home.ok(["migrate"]);
    eventually("the tables are seen", || page.get("/readyz").status == 200);
}

#[test]
fn a_relay_serves_the_same_page_where_its_configuration_says_so() {
    let home = Home::migrated();
    home.write(
        "pillarbox.toml",
        "[routes.orders]\nto = \"file:out.ndjson\"\n[admin]\nlisten = \"127.0.0.1:0\"\n",
    );
    home.stage_many("orders", 5);
    let _relay = home.start_logged("relay.log", ["relay"]);
    let mut address = String::new();
    eventually("the relay says where its page is", || {
        let log = home.read("relay.log");
        let found = log.lines().find_map(|line| line.strip_prefix("the page is at http://"));
        address = found.and_then(|rest| rest.split_once('/')).map_or("", |(address, _)| address).to_owned();
        !address.is_empty()
    });
    let get = |path: &str| super::http::Asked::new(&address, "GET", path).send();
    eventually("all are delivered", || get("/api/v1/routes/orders").json()["delivered"] == json!(5));
    get("/readyz").says(200, &["\"ready\":true"]);
    get("/routes/orders").says(200, &["destination", "file:out.ndjson"]);
}
