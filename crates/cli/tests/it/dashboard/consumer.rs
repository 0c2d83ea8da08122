//! `pillarbox consume --listen`: what a consumer counts, and when it is ready.

use super::Page;
use super::metrics::OF_CONSUMERS;
use crate::consume::Queue;
use crate::home::{Home, eventually};

const OBEDIENT: &str = r#"
import json, sys

for line in sys.stdin:
    event = json.loads(line)
    if event["data"] == 2:
        print(json.dumps({"id": event["id"], "reject": "no such order"}), flush=True)
    else:
        print(json.dumps({"id": event["id"], "ok": True}), flush=True)
"#;

#[test]
fn a_consumer_shows_what_it_consumed_and_is_ready_while_a_route_is_not_relayed() {
    let home = Home::migrated();
    home.write("billing.py", OBEDIENT);
    home.write("pillarbox.toml", "[routes.mail]\nto = \"null:\"\n");
    let queue = Queue::filled(&home, "metrics", 3);
    home.stage_many("mail", 1);
    home.sql("update pillarbox_outbox set created_at = created_at - 3600000000 where route = 'mail'");
    let (from, to) = (queue.from(), "exec:python3 billing.py");
    let args = ["consume", "--name", "billing", "--from", &from, "--to", to, "--listen", "127.0.0.1:0"];
    let mut page = Page::of(&home, "consume.log", args);
    for line in [
        "pillarbox_consumed_total{consumer=\"billing\",outcome=\"processed\"} 2",
        "pillarbox_consumed_total{consumer=\"billing\",outcome=\"parked\"} 1",
        "pillarbox_consumed_total{consumer=\"billing\",outcome=\"duplicate\"} 0",
        "pillarbox_inbox_accepted_per_second{consumer=\"billing\"}",
        "pillarbox_entries{route=\"mail\",status=\"pending\"} 1",
    ] {
        eventually(line, || page.get("/metrics").body.contains(line));
    }
    // What the shipped dashboard asks a consumer for, and no relay has.
    page.get("/metrics").says(200, &OF_CONSUMERS);
    page.get("/livez").says(200, &[]);
    // That concerns relays: it is told, and a consumer that is taken away would not help.
    let ready = page.get("/readyz");
    ready.says(200, &["\"ready\":true"]);
    assert_eq!(ready.json()["problems"][0]["kind"], "unrelayed");
    page.get("/inbox").says(200, &["billing"]);
    page.process.signal("TERM");
    eventually("it ends", || page.process.has_ended());
}

#[test]
fn a_consumer_is_not_open_to_other_machines_without_a_token() {
    let home = Home::migrated();
    let from = "redis://127.0.0.1:9/0?stream=s&group=g";
    let args = ["consume", "--name", "b", "--from", from, "--to", "exec:true", "--listen", "0.0.0.0:0"];
    home.run(args).refused(2, &["a token is needed"]);
}
