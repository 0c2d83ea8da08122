//! `pillarbox consume`: children that misbehave, a clean end.

mod brokers;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::json;

use crate::guide::{code, section};
use crate::home::{Home, Said, eventually};

/// A Redis stream with events of the payloads 0, 1, 2, …
pub(crate) struct Queue {
    server: String,
    stream: String,
}

impl Queue {
    pub(crate) fn filled(home: &Home, name: &str, events: u32) -> Self {
        let server = std::env::var("PILLARBOX_TEST_REDIS").expect(
            "PILLARBOX_TEST_REDIS is not set: run this through `cargo xtask services redis -- cargo test`",
        );
        let queue = Self { server, stream: format!("consume-{name}-{}", uuid::Uuid::now_v7()) };
        if events > 0 {
            home.stage_many("orders", events);
        }
        let to = format!("{}?stream={}", queue.server, queue.stream);
        home.ok(["relay", "--drain", "--route", "orders", "--to", &to]);
        queue
    }

    pub(crate) fn from(&self) -> String {
        format!("{}?stream={}&group=billing&consumer=one", self.server, self.stream)
    }

    fn number(&self, command: &[&str]) -> u64 {
        let said = Command::new("redis-cli").args(["-u", &self.server]).args(command).output().unwrap();
        let text = String::from_utf8_lossy(&said.stdout);
        text.lines().next().unwrap_or_default().trim().parse().unwrap_or_else(|_| panic!("{text}"))
    }

    fn parked(&self) -> u64 {
        self.number(&["xlen", &format!("{}:parked", self.stream)])
    }

    /// How many messages were delivered and are not answered.
    fn unanswered(&self) -> u64 {
        self.number(&["--raw", "xpending", &self.stream, "billing"])
    }
}

/// Applies each event in one transaction with its mark. What it does on the first try depends on the number.
const MOODY: &str = r#"
import json, os, sqlite3, sys, time

db = sqlite3.connect("pillarbox.db", timeout=30, isolation_level=None)

def apply(event):
    db.execute("begin immediate")
    marked = db.execute(
        "insert into pillarbox_inbox (consumer, event_id) values ('billing', ?) on conflict do nothing", (event["id"],)
    )
    if marked.rowcount == 1:
        db.execute("insert into invoices (number) values (?)", (event["data"],))
    db.execute("commit")

def answer(event, **fields):
    print(json.dumps({"id": event["id"], **fields}), flush=True)

for line in sys.stdin:
    event = json.loads(line)
    mood = event["data"] % 8
    db.execute("insert into tries (number) values (?)", (event["data"],))
    tries = db.execute("select count(*) from tries where number = ?", (event["data"],)).fetchone()[0]
    if mood == 6:
        answer(event, reject="no such order")
        continue
    if mood == 7:
        os._exit(3)
    if tries == 1:
        if mood == 1:
            os._exit(1)
        if mood == 2:
            apply(event)
            os._exit(1)
        if mood == 3:
            time.sleep(600)
        if mood == 4:
            print("an order came", flush=True)
        if mood == 5:
            answer(event, ok=False, error="busy", retry_after=0.01)
            continue
    apply(event)
    answer(event, ok=True)
"#;

const EVENTS: u32 = 24;

#[test]
fn a_child_that_crashes_hangs_and_answers_rubbish_applies_each_event_once_or_parks_it() {
    let home = Home::migrated();
    home.sql("create table invoices (number integer); create table tries (number integer)");
    home.write("billing.py", MOODY);
    let queue = Queue::filled(&home, "moody", EVENTS);
    let said = home.ok([
        "consume",
        "--json",
        "--name",
        "billing",
        "--from",
        &queue.from(),
        "--to",
        "exec:python3 billing.py",
        "--concurrency",
        "3",
        "--retries",
        "1",
        "--backoff",
        "10ms",
        "--max-deliveries",
        "3",
        "--timeout",
        "2s",
        "--idle",
        "5s",
    ]);
    let wanted: Vec<i64> = (0..i64::from(EVENTS)).filter(|n| n % 8 < 6).collect();
    assert_eq!(home.numbers("select number from invoices order by number"), wanted, "{said:?}");
    assert_eq!(
        (queue.parked(), queue.unanswered()),
        (6, 0),
        "the rejected ones and those that always crash: {said:?}"
    );
    let tally = said.json();
    assert_eq!(tally["parked"], 6, "{said:?}");
    assert!(said.stderr.contains("no such order") && said.stderr.contains("no answer"), "{said:?}");
    // Another group of the stream gets everything again. What is marked is not handed over.
    let before = home.numbers("select count(*) from tries");
    let from_the_beginning = queue.from().replace("group=billing", "group=again");
    let again = home.ok([
        "consume",
        "--json",
        "--name",
        "billing",
        "--from",
        &from_the_beginning,
        "--to",
        "exec:python3 billing.py",
        "--retries",
        "0",
        "--max-deliveries",
        "1",
        "--idle",
        "3s",
    ]);
    assert_eq!(again.json()["duplicates"], wanted.len(), "{again:?}");
    let tries = home.numbers("select count(*) from tries")[0] - before[0];
    assert!(tries <= 6 * 2, "only those without a mark were handed over: {tries}");
    assert_eq!(home.numbers("select number from invoices order by number"), wanted);
}

#[test]
fn a_consumer_that_is_stopped_finishes_the_event_that_its_child_has() {
    let home = Home::migrated();
    home.write(
        "slow.py",
        "import json, os, sys, time\n\
         for line in sys.stdin:\n    \
             event = json.loads(line)\n    \
             open('begun', 'w').close()\n    \
             while not os.path.exists('go'):\n        time.sleep(0.01)\n    \
             print(json.dumps({'id': event['id'], 'ok': True}), flush=True)\n\
         open('ended', 'w').close()\n",
    );
    let queue = Queue::filled(&home, "slow", 3);
    let mut running = home.start_logged(
        "log",
        [
            "consume",
            "--name",
            "billing",
            "--from",
            &queue.from(),
            "--to",
            "exec:python3 slow.py",
            "--concurrency",
            "1",
        ],
    );
    eventually("the child has an event", || home.path("begun").exists());
    running.signal("TERM");
    eventually("it says that it stops", || home.read("log").contains("stopping"));
    home.write("go", "");
    eventually("it ends", || running.has_ended());
    assert!(home.path("ended").exists(), "the child was not let to end");
    assert_eq!(
        home.numbers("select count(*) from pillarbox_inbox"),
        [1],
        "one event was finished, and no other begun"
    );
}

#[test]
fn events_of_one_key_go_to_several_children_one_after_the_other() {
    let home = Home::migrated();
    // Each child notes when it begins and ends. One write of a short line is never divided.
    home.write(
        "noting.py",
        "import json, os, sys, time\n\
         notes = os.open('notes', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n\
         for line in sys.stdin:\n    \
             event = json.loads(line)\n    \
             os.write(notes, f\"begin {event['subject']} {event['data']} {os.getpid()}\\n\".encode())\n    \
             time.sleep(event['data'] % 3 / 100)\n    \
             os.write(notes, f\"end {event['subject']} {event['data']} {os.getpid()}\\n\".encode())\n    \
             print(json.dumps({'id': event['id'], 'ok': True}), flush=True)\n",
    );
    let lines = (0..60)
        .map(|n| format!("{{\"route\":\"orders\",\"type\":\"t\",\"key\":\"k{}\",\"payload\":{n}}}\n", n % 4));
    home.write("keyed.ndjson", &lines.collect::<String>());
    home.ok(["stage", "--ndjson", "keyed.ndjson"]);
    let queue = Queue::filled(&home, "keyed", 0);
    let said = consumed(&home, &queue, "exec:python3 noting.py", &["--concurrency", "3"]);
    assert_eq!(said.json()["processed"], 60, "{said:?}");
    let (mut open, mut last) = (BTreeMap::new(), BTreeMap::new());
    let mut children = BTreeSet::new();
    for line in home.read("notes").lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [what, key, n, child] = parts[..] else { panic!("{line}") };
        let n: u32 = n.parse().unwrap();
        if what == "begin" {
            let others = open.insert(key.to_owned(), n);
            assert_eq!(others, None, "two of {key} at once");
            assert!(last.insert(key.to_owned(), n).is_none_or(|before| before < n), "{key} is out of order");
            children.insert(child.to_owned());
        } else {
            assert_eq!(open.remove(key), Some(n));
        }
    }
    assert!(children.len() > 1, "one child had all");
}

#[test]
fn a_message_that_is_no_event_is_parked_and_its_child_does_not_see_it() {
    let home = Home::migrated();
    home.write("good.py", ALWAYS_GOOD);
    let queue = Queue::filled(&home, "undecodable", 2);
    let add = |fields: &[&str]| {
        let mut add = Command::new("redis-cli");
        add.args(["-u", &queue.server, "xadd", &queue.stream, "*"]).args(fields);
        assert!(add.output().unwrap().status.success());
    };
    add(&["note", "of somebody else"]);
    add(&["ce-specversion", "1.0", "ce-id", "no uuid", "ce-type", "t", "ce-source", "/s", "data", "1"]);
    let said = consumed(&home, &queue, "exec:python3 good.py", &[]);
    let tally = said.json();
    assert_eq!((&tally["processed"], &tally["parked"]), (&json!(2), &json!(2)), "{said:?}");
    assert_eq!((queue.parked(), queue.unanswered()), (2, 0));
    assert_eq!(home.read("seen").lines().count(), 2, "only events are handed over");
    assert!(said.stderr.contains("id is not a UUID"), "{said:?}");
}

/// More than the 64 KiB of a line, on the first try of each event.
#[test]
fn a_child_that_answers_with_a_line_without_end_is_stopped_and_its_event_tried_again() {
    let home = Home::migrated();
    home.write(
        "long.py",
        &ALWAYS_GOOD.replace(
            "    print(",
            "    if tries == 1:\n        sys.stdout.write('x' * 200_000)\n        sys.stdout.flush()\n    print(",
        ),
    );
    let queue = Queue::filled(&home, "long", 2);
    let said = consumed(&home, &queue, "exec:python3 long.py", &["--retries", "1", "--backoff", "10ms"]);
    assert_eq!(said.json()["processed"], 2, "{said:?}");
    assert_eq!(home.read("seen").lines().count(), 4, "each was tried twice");
    assert!(said.stderr.contains("longer than 64 KiB"), "{said:?}");
}

/// Applies everything, and notes what it sees.
const ALWAYS_GOOD: &str = r#"
import json, os, sys

for line in sys.stdin:
    event = json.loads(line)
    with open("seen", "a") as file:
        file.write(event["id"] + "\n")
    tries = open("seen").read().count(event["id"])
    print(json.dumps({"id": event["id"], "ok": True}), flush=True)
"#;

/// Consumes all that is there, and returns what was said.
fn consumed(home: &Home, queue: &Queue, to: &str, more: &[&str]) -> Said {
    let from = queue.from();
    let args = ["consume", "--json", "--name", "billing", "--from", &from, "--to", to, "--idle", "4s"];
    home.ok([args.as_slice(), more].concat())
}

#[test]
fn a_wrong_origin_target_or_name_is_told_before_anything_runs() {
    let home = Home::migrated();
    let from = "redis://127.0.0.1:9/0?stream=s&group=g";
    for (args, named) in [
        (vec!["--name", "b", "--from", "file:x", "--to", "exec:true"], "queue=NAME"),
        (vec!["--name", "b", "--from", "redis://h/0?stream=s", "--to", "exec:true"], "group"),
        (vec!["--name", "b", "--from", from, "--to", "file:x"], "exec:COMMAND"),
        (vec!["--name", "b", "--from", from, "--to", "exec:"], "exec: needs a command"),
        (vec!["--name", "b", "--from", from, "--to", "http://127.0.0.1:9/"], "allow_private"),
        (vec!["--from", from, "--to", "exec:true"], "--name"),
        (vec!["--name", "", "--from", from, "--to", "exec:true"], "consumer"),
        (vec!["--name", "b", "--from", from, "--to", "exec:true", "--timeout", "0s"], "--timeout"),
        (vec!["--name", "b", "--from", from, "--to", "exec:true", "--concurrency", "0"], "--concurrency"),
    ] {
        home.run([vec!["consume"], args].concat()).refused(2, &[named]);
    }
    let empty = Home::new();
    let args = ["consume", "--name", "b", "--from", from, "--to", "exec:true"];
    empty.run(args).refused(4, &["migrate"]);
}

/// The examples of the guide: two orders, and one that has no total. A second group gets all of them again.
fn bills(home: &Home, name: &str, command: &str) {
    let lines: String = [1, 2, 3]
        .map(|n| {
            let id = format!("01932c07-a9f0-7000-8000-00000000000{n}");
            let payload = if n == 3 { json!({"id": n}) } else { json!({"id": n, "total": 100}) };
            format!("{{\"route\":\"orders\",\"type\":\"order.placed\",\"event_id\":\"{id}\",\"payload\":{payload}}}\n")
        })
        .concat();
    home.write("orders.ndjson", &lines);
    home.ok(["stage", "--ndjson", "orders.ndjson"]);
    let queue = Queue::filled(home, name, 0);
    for group in ["first", "second"] {
        let from = queue.from().replace("group=billing", &format!("group={group}"));
        let to = format!("exec:{command}");
        let said =
            home.ok(["consume", "--json", "--name", "billing", "--from", &from, "--to", &to, "--idle", "3s"]);
        let tally = said.json();
        let applied =
            if group == "first" { ("processed", "duplicates") } else { ("duplicates", "processed") };
        assert_eq!(
            (&tally[applied.0], &tally[applied.1], &tally["parked"]),
            (&json!(2), &json!(0), &json!(1)),
            "{said:?}"
        );
        assert!(said.stderr.contains("the order has no total"), "{said:?}");
    }
    assert_eq!(home.numbers("select order_id from invoices order by order_id"), [1, 2]);
}

#[test]
fn the_billing_in_python_applies_each_order_once() {
    let (home, section) = (Home::migrated(), section("docs/guide/consume.md", "In Python"));
    assert!(section.contains("Save this as `billing.py`"));
    home.write("billing.py", &code(&section, "python"));
    bills(&home, "python", "python3 billing.py");
}

/// The folder of Node packages stands in for what `npm install` would make.
#[test]
fn the_billing_in_node_applies_each_order_once() {
    let (home, section) = (Home::migrated(), section("docs/guide/consume.md", "In Node"));
    assert!(section.contains("save this as `billing.mjs`"));
    home.write("billing.mjs", &code(&section, "js"));
    let modules = std::env::var("PILLARBOX_TEST_NODE_MODULES").expect(
        "PILLARBOX_TEST_NODE_MODULES is not set: run this through `cargo xtask services -- cargo test`",
    );
    std::os::unix::fs::symlink(modules, home.path("node_modules")).unwrap();
    bills(&home, "node", "node billing.mjs");
}
