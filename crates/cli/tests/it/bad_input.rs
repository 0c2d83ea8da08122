//! DESIGN.md section 10, through the binary.

use crate::home::Home;

const ID: &str = "0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e";

fn refused(args: &[&str], with: &[&str]) {
    let home = Home::migrated();
    home.run(args).refused(2, with);
    assert_eq!(home.totals()["pending"], 0, "nothing was written by {args:?}");
}

fn stage<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["stage", "--route", "r", "--type", "t", "--payload", "1"];
    args.extend(more);
    args
}

#[test]
fn what_is_out_of_bounds_is_refused_before_anything_is_written() {
    let long = "x".repeat(256);
    let header = format!("h={}", "v".repeat(4097));
    refused(&["stage", "--route", "", "--type", "t", "--payload", "1"], &["route must not be empty"]);
    refused(
        &["stage", "--route", &long, "--type", "t", "--payload", "1"],
        &["route has 256 characters", "255"],
    );
    refused(&["stage", "--route", "r", "--type", "", "--payload", "1"], &["type must not be empty"]);
    refused(&["stage", "--route", "r", "--type", &long, "--payload", "1"], &["type has 256 characters"]);
    refused(&stage(&["--key", ""]), &["key must not be empty"]);
    refused(&stage(&["--key", &long]), &["key has 256 characters"]);
    refused(&stage(&["--header", "=v"]), &["header name must not be empty"]);
    refused(&stage(&["--header", &header]), &["4097 bytes", "4096"]);
    refused(&stage(&["--header", "no-value"]), &["NAME=VALUE"]);
    refused(&stage(&["--tenant", ""]), &["tenant must not be empty"]);
    refused(&stage(&["--content-type", ""]), &["content type must not be empty"]);
}

#[test]
fn a_payload_over_the_limit_is_refused() {
    let home = Home::migrated();
    home.write("large.json", &format!("\"{}\"", "x".repeat(1024 * 1024)));
    home.run(["stage", "--route", "r", "--type", "t", "--payload", "@large.json"])
        .refused(2, &["at most 1048576"]);
    assert_eq!(home.totals()["pending"], 0);
}

#[test]
fn attempts_and_times_out_of_range_are_refused() {
    refused(&stage(&["--max-attempts", "0"]), &["max_attempts must be 1"]);
    refused(&stage(&["--max-attempts=-1"]), &["--max-attempts"]);
    refused(&stage(&["--delay", "soon"]), &["soon", "500ms"]);
    refused(&stage(&["--delay=-5s"]), &["-5s", "500ms"]);
    refused(&stage(&["--delay", "100000d"]), &["delay must be at most"]);
    refused(&stage(&["--event-id", "7"]), &["UUID"]);
    refused(&stage(&["--occurred-at", "yesterday"]), &["RFC 3339"]);
    refused(&["list", "--limit", "10001"], &["10000"]);
    refused(&["reap", "--max-attempts", "0"], &["--max-attempts"]);
    refused(&["purge", "--older-than", "1"], &["500ms"]);
}

#[test]
fn a_payload_that_is_not_json_is_refused_unless_it_says_so() {
    refused(
        &["stage", "--route", "r", "--type", "t", "--payload", "{id:1}"],
        &["not JSON", "--content-type"],
    );
    refused(&["stage", "--route", "r", "--type", "t", "--payload", ""], &["not JSON"]);
    refused(&["stage", "--route", "r", "--type", "t", "--payload", "@nowhere.json"], &["nowhere.json"]);
    let home = Home::migrated();
    home.ok(["stage", "--route", "r", "--type", "t", "--payload", "{id:1}", "--content-type", "text/plain"]);
}

#[test]
fn an_unknown_scheme_says_what_is_allowed() {
    let relay = |to| ["relay", "--drain", "--route", "r", "--to", to];
    refused(&relay("ftp://h/x"), &["ftp", "file:", "stdout:", "null:"]);
    refused(&relay("pulsar://r/q"), &["unknown destination scheme \"pulsar\"", "file:", "stdout:", "null:"]);
    refused(&relay("sqs://r.amazonaws.com/q"), &["is no region", "eu-west-1"]);
    refused(&relay("events.ndjson"), &["it is not a URL"]);
    refused(
        &["--database", "cassandra://h/x", "status"],
        &["is not the URL of a database", "sqlite://", "postgres://", "mysql://", "mariadb://", "mongodb://"],
    );
    refused(&["--database", "h/x", "status"], &["sqlite://", "postgres://"]);
}

#[test]
fn a_database_that_is_not_there_is_one_clear_line_without_the_password() {
    let home = Home::new();
    for command in
        [vec!["status"], vec!["relay", "--drain", "--route", "r", "--to", "null:"], vec!["migrate"]]
    {
        let mut args = vec!["--database", "postgres://app:hunter2@127.0.0.1:1/x"];
        args.extend(command);
        let said = home.run(&args);
        said.refused(1, &["127.0.0.1:1", "check that the server is running"]);
        assert!(!said.stderr.contains("hunter2"), "{said:?}");
        assert_eq!(said.stderr.lines().count(), 1, "{said:?}");
    }
}

#[test]
fn a_url_that_cannot_be_read_is_shown_without_what_stands_before_its_at_sign() {
    let home = Home::migrated();
    let relay = |to| vec!["relay", "--drain", "--route", "r", "--to", to];
    let status = |url| vec!["--database", url, "status"];
    for url in [
        "postgres://canary@db:port/shop",
        "postgres://canary:canary@db:99999/shop",
        "postgres//canary:canary@db/shop",
        "canary:canary@db/shop",
        "canary@db/shop",
    ] {
        let said = home.run(status(url));
        said.refused(2, &["db"]);
        assert!(!format!("{said:?}").contains("canary"), "{url}: {said:?}");
        home.write("pillarbox.toml", &format!("[database]\nurl = \"{url}\"\n"));
        for command in [vec!["status"], vec!["config", "check"], vec!["migrate"]] {
            let said = home.run(command);
            assert!(!format!("{said:?}").contains("canary"), "{url}: {said:?}");
        }
        std::fs::remove_file(home.path("pillarbox.toml")).unwrap();
    }
    for url in [
        "amqp://canary:canary@mq:port/",
        "amqp:canary:canary@mq/",
        "canary:canary@mq/",
        "canary@mq",
        "redis://canary@h:port/0?stream=s",
        "nats://canary:canary@h:port/s",
        "nats:canary@h/s",
        "http://canary:canary@h:port/s",
        "ftp://canary:canary@h/s",
    ] {
        let said = home.run(relay(url));
        assert_eq!(said.code, 2, "{url}: {said:?}");
        assert!(!format!("{said:?}").contains("canary"), "{url}: {said:?}");
    }
}

#[test]
fn what_is_not_there_is_named_with_the_next_step() {
    let home = Home::migrated();
    home.run(["show", ID]).refused(1, &[ID, "pillarbox list"]);
    home.run(["requeue", ID]).refused(1, &[ID, "pillarbox list"]);
    home.run(["discard", ID, "--yes"]).refused(1, &[ID]);
    home.run(["requeue"]).refused(2, &["no entries are selected", "--status S"]);
    home.run(["requeue", "--status", "pending"]).refused(2, &["only dead"]);
    home.run(["requeue", ID, "--route", "r"]).refused(2, &["cannot be used with"]);
    home.run(["relay"]).refused(2, &["[routes.NAME]", "--route NAME --to URL"]);
    home.run(["relay", "--route", "r"]).refused(2, &["not configured", "--to URL"]);
    home.run(["list", "--status", "done"]).refused(2, &["in_flight"]);
    home.run(["frobnicate"]).refused(2, &["frobnicate"]);
    home.run(Vec::<&str>::new()).refused(2, &["Usage"]);
}

#[test]
fn an_undecodable_row_is_dead_with_its_reason_and_the_batch_goes_on() {
    let home = Home::migrated();
    home.stage_many("r", 3);
    home.sql(
        "pragma ignore_check_constraints = on;
         insert into pillarbox_outbox (route, type, payload, headers) values ('r', 't', '{}', 'spoilt')",
    );
    let said = home.ok(["relay", "--drain", "--route", "r", "--to", "file:out.ndjson", "--json"]);
    assert_eq!((said.json()["delivered"].as_u64(), said.json()["dead"].as_u64()), (Some(3), Some(1)));
    let dead = home.ok(["list", "--status", "dead", "--json"]);
    assert_eq!(dead.lines().len(), 1);
    assert!(dead.lines()[0]["last_error"].as_str().unwrap().starts_with("undecodable/"), "{dead:?}");
    assert!(!dead.stdout.contains("spoilt"), "{dead:?}");
}
