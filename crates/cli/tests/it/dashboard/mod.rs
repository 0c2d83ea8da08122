//! The page, the API and health, served by the real binary and asked over real connections.

mod accessible;
mod actions;
mod behind;
mod browser;
mod browser_actions;
mod browser_sagas;
mod consumer;
mod everything;
mod faults;
mod fuzzed;
mod health;
mod hook;
mod http;
mod inbox;
mod lost;
mod metrics;
mod pictures;
mod route;
mod sagas;
mod secrets;
mod security;
mod story;
mod webdriver;

use std::ffi::OsStr;

use serde_json::{Value, json};

use crate::home::{Home, Running, eventually};
use http::{Answer, Asked};

/// The token of operators in these tests.
const OPERATOR: &str = "operator-operator-operator-operator";
/// The token of viewers in these tests.
const VIEWER: &str = "viewer-viewer-viewer-viewer-viewer-viewer";

/// A dashboard on a free port.
struct Page {
    process: Running,
    address: String,
}

impl Page {
    /// Serves the database of this home.
    fn serve(home: &Home, arguments: &[&str]) -> Self {
        let all = [&["dashboard", "--listen", "127.0.0.1:0"], arguments].concat();
        Self::of(home, "dashboard.log", all)
    }

    /// The page of a command that says where it is.
    fn of<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(home: &Home, log: &str, args: I) -> Self {
        let process = home.start_logged(log, args);
        let mut address = String::new();
        eventually("the process says where its page is", || {
            let log = home.read(log);
            let found = log.lines().find_map(|line| line.strip_prefix("the page is at http://"));
            address =
                found.and_then(|rest| rest.split_once('/')).map_or("", |(address, _)| address).to_owned();
            !address.is_empty()
        });
        Self { process, address }
    }

    /// A request to it.
    fn ask(&self, method: &'static str, path: &str) -> Asked {
        Asked::new(&self.address, method, path)
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).send()
    }

    /// A change as a program makes it.
    fn act(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path).header("pillarbox-actor", "ana").json(body).send()
    }

    /// Waits until the sampler has seen something.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut status = Value::Null;
        eventually(what, || {
            status = self.get("/api/v1/status").json();
            is_so(&status)
        });
        status
    }
}

/// The body of what a server answers.
pub(crate) fn get(address: &str, path: &str) -> String {
    Asked::new(address, "GET", path).header("accept", "text/html").send().says(200, &[]).body.clone()
}

/// What a server answers to a request, with a token or without.
pub(crate) fn status_of(address: &str, path: &str, token: Option<&str>) -> u16 {
    let asked = Asked::new(address, "GET", path);
    match token {
        Some(token) => asked.token(token),
        None => asked,
    }
    .send()
    .status
}

/// A home with tokens in its configuration.
fn guarded() -> Home {
    let home = Home::migrated();
    home.write(
        "pillarbox.toml",
        &format!(
            "[admin]\ntoken = \"{OPERATOR}\"\nviewer_token = \"{VIEWER}\"\nhosts = [\"ops.example.com\"]\n"
        ),
    );
    home
}

/// Stages events and lets a relay give them up: their destination is a folder that is not there.
fn bury(home: &Home, route: &str, count: u32) -> Vec<String> {
    let ids = home.stage_many(route, count);
    kill(home, route);
    ids
}

/// Gives up what waits on a route, as a relay does it.
fn kill(home: &Home, route: &str) {
    let sql = format!(
        "update pillarbox_outbox set status = 'dead', attempts = 5, due_at = null, owner = 'relay-1', \
         last_error = 'failed/timeout: no answer within 20 s', last_attempt_at = created_at, \
         settled_at = created_at where route = '{route}' and status = 'pending'"
    );
    home.sql(Box::leak(sql.into_boxed_str()));
}

fn ids(ids: &[String]) -> Value {
    json!({ "ids": ids })
}
