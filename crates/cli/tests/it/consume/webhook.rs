//! `pillarbox consume` with a service beside it: webhooks that are signed, and that fail.

use std::process::Command;

use serde_json::json;

use super::{Queue, consumed};
use crate::home::{Home, Running, Said, eventually};
use crate::many_relays::{on_mongodb, on_mysql};

#[test]
fn a_webhook_gets_each_event_once_and_signed() {
    a_webhook_gets_each_event_once(&Home::migrated(), "hook");
}

#[test]
fn a_webhook_gets_each_event_once_with_the_inbox_on_mysql() {
    a_webhook_gets_each_event_once(&on_mysql(), "hook-mysql");
}

#[test]
fn a_webhook_gets_each_event_once_with_the_inbox_on_mongodb() {
    a_webhook_gets_each_event_once(&on_mongodb(), "hook-mongodb");
}

fn a_webhook_gets_each_event_once(home: &Home, name: &str) {
    home.write(
        "service.py",
        r#"
import base64, hashlib, hmac, http.server, json, os

key = base64.b64decode(os.environ["PILLARBOX_SECRET"].removeprefix("whsec_"))

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        said = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        signed = hmac.new(key, f"{said[0]}.{said[1]}.".encode() + body, hashlib.sha256).digest()
        right = "v1," + base64.b64encode(signed).decode() in self.headers["webhook-signature"].split()
        with open("got", "a") as file:
            file.write(json.dumps({"right": right, "id": self.headers["ce-id"], "body": json.loads(body)}) + "\n")
        self.send_response(422 if json.loads(body) == 2 else 204)
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open("port.new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename("port.new", "port")
server.serve_forever()
"#,
    );
    let secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let queue = Queue::filled(home, name, 5);
    let mut service = Command::new("python3");
    service.arg("service.py").current_dir(home.path("")).env("PILLARBOX_SECRET", secret);
    let _service = Running::of(service.spawn().unwrap());
    eventually("the service listens", || home.path("port").exists());
    let to = format!("http://127.0.0.1:{}/events", home.read("port"));
    let consume = |from: &str| -> Said {
        let words = ["consume", "--json", "--name", "billing", "--from", from, "--to", &to];
        let mut consume = home.command(words.iter().chain(&["--allow-private", "--idle", "3s"]));
        consume.env("PILLARBOX_SECRET", secret).output().unwrap().into()
    };
    let said = consume(&queue.from());
    assert_eq!(
        (said.code, said.json()["processed"].clone(), said.json()["parked"].clone()),
        (0, json!(4), json!(1)),
        "{said:?}"
    );
    let mut bodies: Vec<i64> = Vec::new();
    for line in home.read("got").lines() {
        let got: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(got["right"], true, "{got}");
        bodies.push(got["body"].as_i64().unwrap());
    }
    bodies.sort_unstable();
    assert_eq!(bodies, [0, 1, 2, 3, 4]);
    assert_eq!(queue.parked(), 1, "what the service will never take is parked");
    // The marks are in the inbox: a group that reads the stream from its beginning meets them.
    let said = consume(&queue.from().replace("group=billing", "group=again"));
    assert_eq!(
        (said.json()["processed"].clone(), said.json()["duplicates"].clone()),
        (json!(0), json!(4)),
        "{said:?}"
    );
    assert_eq!(home.read("got").lines().count(), 6, "only the event that is not marked is sent again");
}

#[test]
fn a_webhook_that_fails_with_retry_after_gets_its_event_again_after_it() {
    let home = Home::migrated();
    home.write(
        "service.py",
        r#"
import http.server, os, threading, time

tries, lock = {}, threading.Lock()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        number = int(self.rfile.read(int(self.headers["content-length"])))
        with lock:
            tries[number] = tries.get(number, 0) + 1
            first = tries[number] == 1
            with open("got", "a") as file:
                file.write(f"{number} {time.monotonic()}\n")
        self.send_response(500 if first and number == 1 else 204)
        if first and number == 1:
            self.send_header("retry-after", "2")
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open("port.new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename("port.new", "port")
server.serve_forever()
"#,
    );
    let queue = Queue::filled(&home, "failing-hook", 4);
    let mut service = Command::new("python3");
    service.arg("service.py").current_dir(home.path(""));
    let _service = Running::of(service.spawn().unwrap());
    eventually("the service listens", || home.path("port").exists());
    let to = format!("http://127.0.0.1:{}/events", home.read("port"));
    let more = ["--allow-private", "--retries", "1", "--backoff", "10ms"];
    let said = consumed(&home, &queue, &to, &more);
    let tally = said.json();
    assert_eq!((&tally["processed"], &tally["parked"]), (&json!(4), &json!(0)), "{said:?}");
    let got = home.read("got");
    let at = |number: &str| {
        let of = got.lines().filter_map(|line| line.strip_prefix(number)?.trim().parse::<f64>().ok());
        of.collect::<Vec<_>>()
    };
    assert_eq!(["0", "1", "2", "3"].map(|number| at(number).len()), [1, 2, 1, 1], "{got}");
    assert!(at("1")[1] - at("1")[0] >= 2.0, "it asked for two seconds: {got}");
}
