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

/// A restart of the pod would not resume it.
#[test]
fn a_paused_route_makes_a_pod_unready_only_where_the_setting_says_so() {
    let home = Home::migrated();
    home.stage_many("orders", 1);
    home.sql("update pillarbox_outbox set created_at = created_at - 3600000000");
    home.ok(["pause", "orders", "--reason", "moving the broker"]);
    let answer = Page::serve(&home, &[]).get("/readyz");
    answer.says(200, &["\"ready\":true"]);
    assert_eq!(answer.json()["problems"][0]["kind"], "paused");
    home.write("pillarbox.toml", "[admin]\nunready = [\"paused\"]\n");
    let answer = Page::serve(&home, &[]).get("/readyz");
    answer.says(503, &["\"ready\":false", "pillarbox resume orders"]);
    assert_eq!(answer.json()["causes"][0]["kind"], "paused");
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
fn a_configured_route_without_a_relay_is_unready_after_seconds_and_never_said_to_move() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.orders]\nto = \"file:out.ndjson\"\n");
    home.stage_many("orders", 1);
    let page = Page::serve(&home, &[]);
    let still = "No relay of orders is running; 1 entry waits";
    page.get("/readyz").says(200, &[still]);
    page.get("/").says(200, &[still]);
    home.sql("update pillarbox_outbox set created_at = created_at - 20000000");
    let said = "no relay of orders is running; 1 entry waits";
    eventually("the grace is over", || page.get("/readyz").status == 503);
    page.get("/readyz").says(503, &["\"unrelayed\"", said]);
    home.run(["status", "--check"]).refused(3, &[said]);
    // Where relays start at intervals, a longer wait is in order.
    home.write("pillarbox.toml", "[routes.orders]\nto = \"null:\"\n[admin]\nunrelayed_after = \"2m\"\n");
    home.ok(["status", "--check"]);
    Page::serve(&home, &[]).get("/readyz").says(200, &[still]);
    // A route of nobody's configuration may be delivered by a process that does not announce itself.
    home.write("pillarbox.toml", "");
    home.ok(["status", "--check"]);
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
    let page = Page::of(&home, "relay.log", ["relay"]);
    eventually("all are delivered", || page.get("/api/v1/routes/orders").json()["delivered"] == json!(5));
    page.get("/readyz").says(200, &["\"ready\":true"]);
    page.get("/routes/orders").says(200, &["destination", "file:out.ndjson"]);
}

#[test]
fn the_page_of_a_relay_without_a_file_for_its_route_knows_the_route() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[admin]\nlisten = \"127.0.0.1:0\"\n");
    let page = Page::of(&home, "relay.log", ["relay", "--route", "orders", "--to", "file:out.ndjson"]);
    page.get("/routes/orders").says(200, &["destination", "file:out.ndjson"]);
}

#[test]
fn a_reload_gives_page_metrics_and_doctor_the_new_routes() {
    let home = Home::migrated();
    let configure =
        |routes: &str| home.write("pillarbox.toml", &format!("{routes}[admin]\nlisten = \"127.0.0.1:0\"\n"));
    configure("[routes.a]\nto = \"file:a.ndjson\"\n[routes.b]\nto = \"file:b.ndjson\"\n");
    let mut page = Page::of(&home, "relay.log", ["relay"]);
    let routes = |page: &Page| -> Vec<String> {
        let status = page.get("/api/v1/status").json();
        let mut routes: Vec<_> = status["routes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|route| route["route"].as_str().unwrap().to_owned())
            .collect();
        routes.sort();
        routes
    };
    eventually("both are shown", || routes(&page) == ["a", "b"]);
    page.get("/metrics").says(200, &["pillarbox_relays{route=\"b\"}"]);
    configure("[routes.a]\nto = \"file:a2.ndjson\"\n[routes.c]\nto = \"file:c.ndjson\"\n");
    page.process.signal("HUP");
    eventually("the removed one is gone and the added one shown", || routes(&page) == ["a", "c"]);
    eventually("the added one is relayed", || {
        page.get("/metrics").body.contains("pillarbox_relays{route=\"c\"} 1")
    });
    assert!(!page.get("/metrics").body.contains("pillarbox_relays{route=\"b\"}"));
    page.get("/routes/a").says(200, &["file:a2.ndjson"]);
    page.get("/routes/b").says(404, &[]);
    let doctor = page.get("/doctor");
    doctor.says(200, &["route c"]);
    assert!(!doctor.body.contains("route b"), "{}", doctor.body);
}
