//! status, list, show, requeue, discard, reap, purge.

use serde_json::{Value, json};

use crate::home::{Home, eventually};
use crate::signals::{CONFIG, hold};

/// A home with so many dead entries on the route `r`, made as they come about: undecodable rows.
pub(crate) fn with_dead(count: u32) -> (Home, Vec<String>) {
    let home = Home::migrated();
    home.stage_many("r", count);
    home.sql("pragma ignore_check_constraints = on; update pillarbox_outbox set headers = '[]'");
    assert_eq!(
        home.ok(["relay", "--drain", "--route", "r", "--to", "null:", "--json"]).json()["dead"],
        count
    );
    home.sql("update pillarbox_outbox set headers = '{}'");
    let dead = home.ok(["list", "--status", "dead", "--json"]).lines();
    let ids = dead.iter().map(|entry| entry["event_id"].as_str().unwrap().to_owned()).collect();
    (home, ids)
}

#[test]
fn status_names_every_status_of_every_route() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.empty]\nto = \"null:\"");
    home.stage_many("r", 2);
    let mut status = home.ok(["status", "--json"]).json();
    let age = status["routes"][1]["oldest_due_age_seconds"].take();
    assert!(age.as_f64().is_some_and(|age| age >= 0.0), "{age}");
    status["total"]["oldest_due_age_seconds"].take();
    let zero = json!({"pending": 0, "in_flight": 0, "retrying": 0, "blocked": 0, "delivered": 0, "dead": 0,
        "discarded": 0, "oldest_due_age_seconds": null, "at_least": []});
    let with = |changes: &[(&str, Value)]| {
        let mut counts = zero.clone();
        changes.iter().for_each(|(name, value)| counts[*name] = value.clone());
        counts
    };
    let route = |name: &str, pending: u32| {
        let (name, pending) = (("route", json!(name)), ("pending", json!(pending)));
        with(&[name, pending, ("blocked_by", json!([])), ("paused", Value::Null)])
    };
    assert_eq!(status["routes"][0], route("empty", 0));
    assert_eq!(status["routes"][1], route("r", 2));
    assert_eq!(status["total"], with(&[("pending", json!(2))]));
    let table = home.ok(["status"]);
    assert!(table.stdout.contains("in_flight") && table.stdout.contains("total"), "{table:?}");
    assert!(table.stderr.contains("mode: embedded"), "{table:?}");
}

#[test]
fn status_check_is_exit_3_when_something_is_dead_or_old() {
    let home = Home::migrated();
    assert_eq!(home.run(["status", "--check"]).code, 0);
    home.stage_many("r", 1);
    assert_eq!(home.run(["status", "--check"]).code, 0);
    home.run(["status", "--check", "--max-age", "0s"])
        .refused(3, &["waited for", "no relay of r is running"]);
    let (home, _) = with_dead(2);
    home.run(["status", "--check"]).refused(3, &["2 dead", "pillarbox list --status dead"]);
    assert_eq!(home.run(["status"]).code, 0);
}

#[test]
fn list_filters_and_limits() {
    let home = Home::migrated();
    for (route, event_type, key) in [("a", "x", "1"), ("a", "y", "2"), ("b", "x", "2")] {
        home.ok(["stage", "--route", route, "--type", event_type, "--key", key, "--payload", "1"]);
    }
    let count = |args: &[&str]| {
        let mut all = vec!["list", "--json"];
        all.extend(args);
        home.ok(all).lines().len()
    };
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--route", "a"]), 2);
    assert_eq!(count(&["--type", "x"]), 2);
    assert_eq!(count(&["--key", "2", "--type", "x"]), 1);
    assert_eq!(count(&["--status", "dead"]), 0);
    assert_eq!(count(&["--limit", "1"]), 1);
    let table = home.ok(["list", "--limit", "2"]);
    assert_eq!(table.stdout.lines().count(), 3, "{table:?}");
    assert!(table.stderr.contains("--limit"), "{table:?}");
    assert!(home.ok(["list", "--route", "none"]).stderr.contains("no entries match"));
}

#[test]
fn requeue_by_id_needs_no_question_and_is_audited() {
    let (home, ids) = with_dead(2);
    let said = home.ok(["requeue", &ids[0], "--json"]);
    assert_eq!(
        said.json(),
        json!({"changed": 1, "skipped": 0, "missing": [], "sagas": [], "dry_run": false})
    );
    assert_eq!(home.ok(["requeue", &ids[0], "--json"]).json()["skipped"], 1);
    let entry = home.ok(["show", &ids[0], "--json"]).json();
    assert_eq!((&entry["status"], &entry["attempts"]), (&json!("pending"), &json!(0)));
    let kinds: Vec<_> =
        entry["audit"].as_array().unwrap().iter().map(|record| record["kind"].clone()).collect();
    assert_eq!(kinds, ["dead", "requeued"]);
    assert_eq!(
        home.ok(["relay", "--drain", "--route", "r", "--to", "null:", "--json"]).json()["delivered"],
        1
    );
    assert_eq!(home.totals()["dead"], 1);
    let people = home.ok(["show", &ids[0]]);
    assert!(people.stdout.contains("requeued by"), "{people:?}");
}

#[test]
fn requeue_by_filter_counts_first_and_needs_yes() {
    let (home, _) = with_dead(3);
    let filter = ["requeue", "--route", "r", "--status", "dead"];
    let run = |more: &[&str]| home.run(filter.iter().chain(more));
    run(&[]).refused(2, &["3 dead entries will be requeued", "--yes", "--dry-run"]);
    assert_eq!(home.totals()["dead"], 3);
    let dry = run(&["--dry-run", "--json"]);
    assert_eq!((dry.code, dry.json()["changed"].as_u64()), (0, Some(3)));
    assert_eq!(home.totals()["dead"], 3);
    let done = run(&["--yes"]);
    assert_eq!((done.code, done.stdout.trim()), (0, "3 entries requeued"), "{done:?}");
    assert!(done.stderr.contains("3 dead entries will be requeued"), "the count comes first: {done:?}");
    assert_eq!((home.totals()["dead"].as_u64(), home.totals()["pending"].as_u64()), (Some(0), Some(3)));
    assert_eq!(run(&[]).stdout.trim(), "0 entries requeued");
}

#[test]
fn discard_is_for_good_and_always_asks() {
    let (home, ids) = with_dead(2);
    home.run(["discard", &ids[0]]).refused(2, &["1 dead entry will be discarded", "--yes"]);
    assert_eq!(home.ok(["discard", &ids[0], "--yes", "--json"]).json()["changed"], 1);
    assert_eq!(home.ok(["discard", "--type", "none", "--yes", "--json"]).json()["changed"], 0);
    assert_eq!(home.ok(["discard", "--type", "t", "--yes", "--json"]).json()["changed"], 1);
    let totals = home.totals();
    assert_eq!((totals["dead"].as_u64(), totals["discarded"].as_u64()), (Some(0), Some(2)));
    assert_eq!(home.ok(["requeue", &ids[0], "--json"]).json()["skipped"], 1);
}

#[test]
fn purge_deletes_what_is_old_and_never_what_is_dead() {
    let (home, ids) = with_dead(2);
    home.stage_many("r", 2500);
    home.ok(["relay", "--drain", "--route", "r", "--to", "null:"]);
    home.ok(["discard", &ids[0], "--yes"]);
    assert_eq!(home.ok(["purge", "--json", "--yes"]).json()["purged"], 0, "a day is the default");
    home.run(["purge", "--older-than", "0s"]).refused(2, &["2501 entries", "--yes"]);
    assert_eq!(home.ok(["purge", "--older-than", "0s", "--dry-run", "--json"]).json()["purged"], 2501);
    assert_eq!(home.ok(["purge", "--older-than", "0s", "--yes", "--json"]).json()["purged"], 2501);
    let totals = home.totals();
    assert_eq!((totals["dead"].as_u64(), totals["delivered"].as_u64()), (Some(1), Some(0)));
}

#[test]
fn purge_and_a_draining_relay_forget_old_rows_of_the_inbox() {
    let home = Home::migrated();
    home.sql(
        "insert into pillarbox_inbox (consumer, event_id, accepted_at) values
            ('billing', 'a', 0), ('billing', 'b', 0), ('mailing', 'a', 0);
         insert into pillarbox_inbox (consumer, event_id) values ('billing', 'now')",
    );
    home.run(["purge"])
        .refused(2, &["0 entries, 3 rows of the inbox and 0 sagas", "more than 30d ago", "--yes"]);
    let said = home.ok(["purge", "--inbox-older-than", "36500d", "--yes", "--json"]).json();
    assert_eq!((said["purged"].as_u64(), said["inbox_purged"].as_u64()), (Some(0), Some(0)));
    let said = home.ok(["purge", "--yes", "--json"]).json();
    assert_eq!((said["purged"].as_u64(), said["inbox_purged"].as_u64()), (Some(0), Some(3)));
    assert!(
        home.ok(["purge", "--yes"]).stdout.contains("0 entries, 0 rows of the inbox and 0 sagas deleted")
    );

    home.sql("update pillarbox_inbox set accepted_at = accepted_at - 7200000000");
    home.write("pillarbox.toml", "[routes.r]\nto = \"null:\"\n[retention]\ninbox = \"1h\"");
    assert_eq!(home.ok(["purge", "--dry-run", "--json"]).json()["inbox_purged"], 1);
    home.ok(["relay", "--drain"]);
    assert_eq!(home.ok(["purge", "--dry-run", "--json"]).json()["inbox_purged"], 0);
    home.write("pillarbox.toml", "[retention]\ninbox = \"0s\"");
    home.run(["purge"]).refused(2, &["inbox", "longer than zero"]);
}

#[test]
fn reap_returns_expired_leases() {
    let home = Home::migrated();
    home.write("pillarbox.toml", CONFIG);
    home.stage_many("r", 5);
    let lock = hold(&home, "out.ndjson");
    let relay = home.start(["relay"]);
    eventually("everything is in flight", || home.totals()["in_flight"] == 5);
    relay.kill();
    drop(lock);
    eventually("the leases are over", || home.ok(["reap", "--dry-run", "--json"]).json()["stale"] == 5);
    let said = home.ok(["reap", "--route", "r", "--limit", "3", "--json"]);
    assert_eq!(said.json(), json!({"stale": 3, "released": 3, "dead": 0, "dry_run": false}));
    let said = home.ok(["reap", "--max-attempts", "1", "--json"]);
    assert_eq!(
        said.json(),
        json!({"stale": 2, "released": 2, "dead": 0, "dry_run": false}),
        "a crash convicts nobody"
    );
}
