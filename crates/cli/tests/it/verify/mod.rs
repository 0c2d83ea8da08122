//! `pillarbox verify`: each finding in a file, where a test can spoil what arrived.

mod brokers;

use serde_json::{Value, json};

use crate::home::{Home, Said};
use crate::many_relays::on_postgres;

const TO: &str = "file:out.ndjson";

impl Home {
    /// Stages so many events of one key, in one transaction, with ids that say their number.
    fn stage_numbered(&self, route: &str, key: &str, numbers: std::ops::RangeInclusive<u32>) -> String {
        let line = |n: u32| {
            let id = id(n);
            format!(
                "{{\"route\":\"{route}\",\"type\":\"t\",\"key\":\"{key}\",\"event_id\":\"{id}\",\"payload\":{n}}}\n"
            )
        };
        let lines: String = numbers.map(line).collect();
        self.write("numbered.ndjson", &lines);
        self.ok(["stage", "--ndjson", "numbered.ndjson"]);
        lines
    }

    fn drain(&self) {
        self.ok(["relay", "--drain", "--route", "r", "--to", TO]);
    }

    fn verify(&self, more: &[&str]) -> Said {
        let args = [&["verify", "--json", "--route", "r", "--to", TO], more].concat();
        self.run(args)
    }

    /// Changes the lines of what arrived.
    fn spoil(&self, change: impl FnOnce(&mut Vec<String>)) {
        let mut lines: Vec<String> =
            self.read("out.ndjson").lines().map(|line| format!("{line}\n")).collect();
        change(&mut lines);
        self.write("out.ndjson", &lines.concat());
    }
}

fn id(n: u32) -> String {
    format!("018f3c2e-0000-7000-8000-{n:012}")
}

/// Ten events of one key, delivered to a file.
fn delivered() -> Home {
    let home = Home::migrated();
    home.stage_numbered("r", "k", 1..=10);
    home.drain();
    home
}

/// The one route of a report.
#[track_caller]
fn route(said: &Said) -> Value {
    let report = said.json();
    assert_eq!(report["routes"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["ok"], said.code == 0, "{said:?}");
    report["routes"][0].clone()
}

/// Asserts exit 3, these figures, and zero for all other findings.
#[track_caller]
fn found(said: &Said, figures: &[(&str, u64)]) {
    assert_eq!(said.code, 3, "{said:?}");
    let route = route(said);
    for finding in ["lost", "duplicated", "invented", "unreadable", "out_of_order"] {
        let figure = figures.iter().find(|(name, _)| *name == finding).map_or(0, |(_, figure)| *figure);
        assert_eq!(route[finding], figure, "{finding} in {route}");
        assert_eq!(said.stderr.contains(&finding.replace('_', " ")), figure > 0, "{said:?}");
    }
}

fn examples(said: &Said, finding: &str) -> Vec<Value> {
    let route = route(said);
    let of = route["examples"].as_array().unwrap().iter().filter(|example| example["finding"] == finding);
    of.map(|example| example["event_id"].clone()).collect()
}

#[test]
fn what_arrived_once_and_in_order_is_clean() {
    let home = delivered();
    let said = home.verify(&[]);
    assert_eq!(said.code, 0, "{said:?}");
    let mut route = route(&said);
    assert_eq!(route["from"].take(), TO);
    assert_eq!(
        route,
        json!({
            "route": "r", "from": null, "staged": 10, "received": 10, "waiting": 0, "dead": 0, "discarded": 0,
            "lost": 0, "duplicated": 0, "invented": 0, "unreadable": 0, "out_of_order": 0, "order": "key",
            "of_other_routes": 0, "maybe_purged": 0, "deleted": 0, "examples": []
        })
    );
    let said = home.ok(["verify", "--route", "r", "--to", TO]);
    assert!(said.stdout.contains("out of order") && said.stdout.lines().count() == 2, "{said:?}");
}

#[test]
fn what_was_delivered_and_is_not_there_is_lost() {
    let home = delivered();
    home.spoil(|lines| drop(lines.drain(3..5)));
    let said = home.verify(&[]);
    found(&said, &[("lost", 2)]);
    assert_eq!(examples(&said, "lost"), [id(4), id(5)]);
    assert_eq!(examples(&home.verify(&["--limit", "1"]), "lost"), [id(4)]);
    let told = home.run(["verify", "--route", "r", "--to", TO]);
    told.refused(3, &["r: 2 lost"]);
    assert!(told.stdout.contains(&id(4)), "{told:?}");
    std::fs::remove_file(home.path("out.ndjson")).unwrap();
    let said = home.verify(&[]);
    found(&said, &[("lost", 10)]);
    assert!(said.stderr.contains("the destination does not exist"), "{said:?}");
}

#[test]
fn what_is_there_twice_is_duplicated_unless_that_is_allowed() {
    let home = delivered();
    home.spoil(|lines| {
        let again = lines[0].clone();
        lines.extend([again.clone(), again]);
    });
    let said = home.verify(&[]);
    // What comes again is not out of order.
    found(&said, &[("duplicated", 2)]);
    assert_eq!(route(&said)["examples"][0]["times"], 3);
    let allowed = home.verify(&["--allow-duplicates"]);
    assert_eq!((allowed.code, &route(&allowed)["duplicated"]), (0, &json!(2)));
}

#[test]
fn what_nobody_staged_is_invented() {
    let home = delivered();
    home.spoil(|lines| lines.push(lines[0].replace(&id(1), &id(77))));
    let said = home.verify(&[]);
    found(&said, &[("invented", 1)]);
    assert_eq!(examples(&said, "invented"), [id(77)]);
}

#[test]
fn what_is_no_event_is_unreadable_and_what_is_being_written_is_not_looked_at() {
    let home = delivered();
    home.spoil(|lines| lines.extend(["garbage\n".to_owned(), "\n".to_owned(), "{\"id\":7}\n".to_owned()]));
    found(&home.verify(&[]), &[("unreadable", 2)]);
    home.spoil(|lines| {
        lines.truncate(10);
        lines.push("{\"specversion\":\"1.0\",\"id\":".to_owned());
    });
    // `spoil` ends every line that it keeps, but not a new one.
    assert!(!home.read("out.ndjson").ends_with('\n'));
    assert_eq!(home.verify(&[]).code, 0);
}

#[test]
fn an_entry_behind_its_follower_is_out_of_order_where_order_is_promised() {
    let home = delivered();
    home.spoil(|lines| lines.swap(2, 3));
    let said = home.verify(&[]);
    found(&said, &[("out_of_order", 1)]);
    assert_eq!(examples(&said, "out_of_order"), [id(3)]);
    assert_eq!(route(&said)["examples"][0]["key"], "k");
    // Another key is another line.
    home.stage_numbered("r", "other", 11..=12);
    home.drain();
    home.spoil(|lines| lines.rotate_right(2));
    found(&home.verify(&[]), &[("out_of_order", 1)]);

    home.write("pillarbox.toml", "[routes.r]\nto = \"file:out.ndjson\"\n");
    let not_promised = home.ok(["verify", "--json"]);
    assert_eq!(route(&not_promised)["out_of_order"], 1);
    assert!(not_promised.stderr.contains("does not keep order"), "{not_promised:?}");
    assert_eq!(home.run(["verify", "--order", "key"]).code, 3);
    home.write("pillarbox.toml", "[routes.r]\nto = \"file:out.ndjson\"\norder = \"key\"\n");
    assert_eq!(home.run(["verify"]).code, 3);
    assert_eq!(home.run(["verify", "--order", "none"]).code, 0);
}

#[test]
fn what_is_waiting_dead_or_discarded_is_not_lost() {
    let home = delivered();
    home.stage_numbered("r", "k", 11..=15);
    home.sql(
        "update pillarbox_outbox set status = 'dead' where event_id glob '*12';
         update pillarbox_outbox set status = 'discarded' where event_id glob '*13';
         update pillarbox_outbox set status = 'retrying' where event_id glob '*14'",
    );
    let said = home.verify(&[]);
    assert_eq!(said.code, 0, "{said:?}");
    let figures = ["waiting", "dead", "discarded"].map(|name| route(&said)[name].as_u64().unwrap());
    assert_eq!(figures, [3, 1, 1]);
    // Delivered by the table, and it never was.
    home.sql("update pillarbox_outbox set status = 'delivered' where event_id glob '*15'");
    found(&home.verify(&[]), &[("lost", 1)]);
}

#[test]
fn two_routes_in_one_file_are_told_apart() {
    let home = Home::migrated();
    home.write(
        "pillarbox.toml",
        "[routes.a]\nto = \"file:all.ndjson\"\n[routes.b]\nto = \"file:all.ndjson\"\n",
    );
    home.stage_numbered("a", "k", 1..=3);
    home.stage_numbered("b", "k", 4..=8);
    home.ok(["relay", "--drain"]);
    let report = home.ok(["verify", "--json"]).json();
    let figures = |n: usize| {
        let route = &report["routes"][n];
        (route["staged"].as_u64(), route["received"].as_u64(), route["of_other_routes"].as_u64())
    };
    assert_eq!(figures(0), (Some(3), Some(8), Some(5)));
    assert_eq!(figures(1), (Some(5), Some(8), Some(3)));
}

#[test]
fn a_record_of_the_application_knows_what_the_table_has_forgotten() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.r]\nto = \"file:out.ndjson\"\n[retention]\ndelivered = \"0s\"\n");
    let lines = home.stage_numbered("r", "k", 1..=10);
    home.write("mine.ndjson", &lines);
    home.ok(["relay", "--drain"]);
    assert_eq!(home.totals()["delivered"], 0, "nothing is kept");
    home.run(["verify"]).refused(2, &["--staged FILE"]);
    let verify = || home.run(["verify", "--json", "--order", "key", "--staged", "mine.ndjson"]);
    assert_eq!(verify().code, 0);
    // What is still in the table says why it has not arrived.
    let more = home.stage_numbered("r", "k", 11..=12);
    home.write("mine.ndjson", &format!("{lines}{more}"));
    assert_eq!(route(&verify())["waiting"], 2);
    home.spoil(|lines| lines.swap(0, 1));
    found(&verify(), &[("out_of_order", 1)]);
    home.spoil(|lines| drop(lines.remove(0)));
    found(&verify(), &[("lost", 1)]);
    // The record is the whole truth.
    home.write("mine.ndjson", &more);
    found(&verify(), &[("invented", 9)]);
}

#[test]
fn transactions_that_overlapped_have_no_order_by_the_moments_of_their_record() {
    let home = delivered();
    let line = |n: u32, staged: u32, committed: u32| {
        let id = id(n);
        format!(
            "{{\"route\":\"r\",\"key\":\"k\",\"event_id\":\"{id}\",\"staged_at\":{staged},\"committed_at\":{committed}}}\n"
        )
    };
    let rest: String = (4..=10).map(|n| line(n, 10 * n, 10 * n + 1)).collect();
    let verify = |first: String| {
        home.write("mine.ndjson", &format!("{first}{rest}"));
        home.verify(&["--staged", "mine.ndjson"])
    };
    // The second commits before the first; then in turn; then one transaction, told in the order of staging.
    assert_eq!(verify(line(3, 3, 4) + &line(2, 2, 5) + &line(1, 1, 6)).code, 0);
    found(&verify(line(3, 1, 2) + &line(2, 3, 4) + &line(1, 5, 6)), &[("out_of_order", 2)]);
    found(&verify(line(3, 1, 6) + &line(2, 2, 6) + &line(1, 3, 6)), &[("out_of_order", 2)]);
}

#[test]
fn what_was_purged_is_not_taken_for_invented() {
    let home = delivered();
    home.ok(["purge", "--older-than", "0s", "--yes"]);
    home.stage_numbered("r", "k", 11..=12);
    home.drain();
    let said = home.verify(&[]);
    assert_eq!((said.code, &route(&said)["maybe_purged"]), (0, &json!(10)), "{said:?}");
    assert!(said.stderr.contains("--staged FILE"), "{said:?}");
    // One that says it was at the place of another cannot have been purged.
    home.spoil(|lines| lines.push(lines[11].replace(&id(12), &id(77))));
    found(&home.verify(&[]), &[("invented", 1)]);
}

#[test]
fn on_postgres_the_order_between_transactions_must_be_promised_by_the_writers() {
    let home = on_postgres();
    for n in 1..=3 {
        home.stage_numbered("r", "k", 2 * n..=2 * n + 1);
    }
    home.drain();
    assert_eq!(home.verify(&["--serialized"]).code, 0);
    home.spoil(|lines| lines.rotate_left(2));
    let said = home.verify(&[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("--serialized"), "{said:?}");
    found(&home.verify(&["--serialized"]), &[("out_of_order", 2)]);
    // Inside of a transaction the table knows.
    home.spoil(|lines| lines.swap(0, 1));
    found(&home.verify(&[]), &[("out_of_order", 1)]);
}

#[test]
fn what_cannot_be_compared_is_told_with_what_can() {
    let home = delivered();
    for (args, with) in [
        (&["--route", "r", "--to", "null:"][..], "keeps no messages"),
        (&["--route", "r", "--to", "stdout:"], "--from file:PATH"),
        (&["--route", "r", "--to", "http://127.0.0.1:9/hook"], "--from file:PATH"),
        (&["--route", "r", "--to", "amqp://h/%2f?exchange=orders"], "--from URL"),
        (&["--route", "r", "--to", "redis://h/0?stream={type}"], "--from URL"),
        (&["--route", "r", "--from", "sqs://r/q"], "SQS keeps no record"),
        (&["--route", "r", "--from", "redis://h/0?stream=s&group=g"], "unknown parameter"),
        (&["--route", "r", "--from", "file:."], "directory"),
        (&["--from", "file:out.ndjson"], "--route"),
        (&["--route", "r", "--route", "s", "--from", TO], "exactly one --route"),
        (&["--route", "r"], "--to URL"),
        (&["--route", "r", "--to", TO, "--staged", "missing.ndjson"], "cannot read missing.ndjson"),
        (&["--route", "r", "--to", TO, "--staged", "x", "--serialized"], "cannot be used with"),
        (&["--route", "r", "--to", TO, "--order", "seq"], "seq"),
    ] {
        home.run([&["verify"], args].concat()).refused(2, &[with]);
    }
    home.write("bad.ndjson", "{\"route\":\"r\",\"event_id\":\"7\"}\n");
    home.verify(&["--staged", "bad.ndjson"]).refused(2, &["line 1"]);
    Home::new().run(["verify", "--route", "r", "--to", TO]).refused(4, &["migrate"]);
    let nobody = ["verify", "--route", "r", "--from", "redis://127.0.0.1:9/0?stream=s&connect_timeout=2s"];
    home.run(nobody).refused(1, &["127.0.0.1:9"]);
}

#[test]
fn a_route_that_cannot_be_compared_is_named_and_no_success() {
    let home = delivered();
    home.write("pillarbox.toml", "[routes.r]\nto = \"file:out.ndjson\"\n[routes.gone]\nto = \"null:\"\n");
    let said = home.run(["verify", "--json"]);
    assert_eq!((said.code, &route(&said)["route"]), (1, &json!("r")), "{said:?}");
    let left_out = &said.json()["not_compared"][0];
    assert_eq!((&left_out["route"], said.json()["ok"].as_bool()), (&json!("gone"), Some(false)));
    assert!(left_out["why"].as_str().unwrap().contains("keeps no messages"), "{said:?}");
    assert!(said.stderr.contains("gone") && said.stderr.contains("--only"), "{said:?}");
    let said = home.run(["verify"]);
    assert!(said.code == 1 && said.stdout.contains("not compared: gone:"), "{said:?}");
    // Whoever names the routes is content with them.
    let named = home.ok(["verify", "--only", "r", "--json"]).json();
    assert_eq!((&named["ok"], &named["not_compared"]), (&json!(true), &json!([])));
    home.run(["verify", "--only", "r", "--only", "gone"]).refused(2, &["gone cannot be compared"]);
    // What was found weighs more.
    home.spoil(|lines| drop(lines.pop()));
    let said = home.run(["verify", "--json"]);
    assert!(said.code == 3 && said.stderr.contains("1 lost") && said.stderr.contains("gone"), "{said:?}");
    home.write("pillarbox.toml", "[routes.a]\nto = \"null:\"\n[routes.b]\nto = \"stdout:\"\n");
    home.run(["verify"]).refused(2, &["a RabbitMQ stream"]);
}

#[test]
fn a_destination_that_is_unreachable_does_not_hide_the_others() {
    let home = delivered();
    let down = "redis://127.0.0.1:9/0?stream=s&connect_timeout=2s";
    home.write(
        "pillarbox.toml",
        &format!("[routes.down]\nto = \"{down}\"\n[routes.r]\nto = \"file:out.ndjson\"\n"),
    );
    let said = home.run(["verify", "--json"]);
    assert_eq!((said.code, &route(&said)["route"]), (1, &json!("r")), "{said:?}");
    assert_eq!(route(&said)["received"], 10);
    let left_out = &said.json()["not_compared"][0];
    assert_eq!(left_out["route"], "down");
    assert!(left_out["why"].as_str().unwrap().contains("127.0.0.1:9"), "{said:?}");
    home.spoil(|lines| drop(lines.pop()));
    let said = home.run(["verify", "--json"]);
    assert_eq!((said.code, &route(&said)["lost"]), (3, &json!(1)), "{said:?}");
}
