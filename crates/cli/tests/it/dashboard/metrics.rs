//! `/metrics` of a real relay as a real Prometheus reads it, with the dashboard and the rules that are shipped.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Page;
use super::hook::{answer, hook};
use super::http::Asked;
use crate::home::{Home, Running, eventually};
use crate::many_relays::on_postgres;

/// What a relay does not show while nothing consumes: what `pillarbox consume` counts, and what consumers accepted. The
/// test of `consume --listen` looks for these.
pub(super) const OF_CONSUMERS: [&str; 3] = [
    "pillarbox_consumed_total",
    "pillarbox_handle_duration_seconds_bucket",
    "pillarbox_inbox_accepted_per_second",
];

/// What Prometheus asks for since its version 2.5.
const ACCEPT: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
     text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// What must have happened on the routes of [`relayed`] until every series of a relay says something.
const HAPPENED: [(&str, f64); 13] = [
    ("pillarbox_claimed_total{route=\"orders\"}", 21.0),
    ("pillarbox_settled_total{route=\"orders\",outcome=\"delivered\"}", 21.0),
    ("pillarbox_settled_total{route=\"mail\",outcome=\"retried\"}", 2.0),
    ("pillarbox_settled_total{route=\"mail\",outcome=\"dead\"}", 2.0),
    ("pillarbox_entries{route=\"orders\",status=\"delivered\"}", 21.0),
    ("pillarbox_entries{route=\"mail\",status=\"dead\"}", 2.0),
    ("pillarbox_wait_seconds_count{route=\"orders\"}", 21.0),
    ("pillarbox_claim_duration_seconds_count{route=\"orders\"}", 1.0),
    ("pillarbox_publish_duration_seconds_count{route=\"mail\"}", 4.0),
    ("pillarbox_settle_duration_seconds_count{route=\"orders\"}", 1.0),
    ("pillarbox_lanes_held{route=\"orders\"}", 1.0),
    ("pillarbox_relays{route=\"orders\"}", 1.0),
    ("pillarbox_pool_connections{state=\"max\"}", 1.0),
];

/// A relay with a page: orders are delivered, and every mail fails twice and is dead then.
fn relayed(home: &Home) -> Page {
    let port = hook(|_| answer("500 Internal Server Error", "no"));
    let database = home.path("pillarbox.toml");
    let database = if database.exists() { home.read("pillarbox.toml") } else { String::new() };
    home.write(
        "pillarbox.toml",
        &format!(
            "{database}[routes.orders]\nto = \"file:orders.ndjson\"\norder = \"key\"\n\
             [routes.mail]\nto = \"http://127.0.0.1:{port}/mail\"\nallow_private = true\nmax_attempts = 2\n\
             batch = 1\nbackoff = {{ base = \"1ms\", max = \"10ms\" }}\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n"
        ),
    );
    let page = Page::of(home, "relay.log", ["relay"]);
    home.stage_many("orders", 20);
    home.stage_many("mail", 2);
    page.until("the first events have ended", |status| {
        let of = |name: &str, count: &str| {
            let mut routes = status["routes"].as_array().unwrap().iter();
            routes.find(|route| route["route"] == name).map_or(0, |route| route[count].as_u64().unwrap())
        };
        of("orders", "delivered") == 20 && of("mail", "dead") == 2
    });
    // A batch of its own, so that it is the one whose trace is shown.
    let header = format!("traceparent=00-{TRACE}-00f067aa0ba902b7-01");
    home.ok(["stage", "--route", "orders", "--type", "t", "--payload", "{}", "--header", &header]);
    page
}

fn scraped(page: &Page) -> String {
    let answer = page.ask("GET", "/metrics").header("accept", ACCEPT).send();
    answer.says(200, &["# EOF"]);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.header("content-type"), kind, "{answer:?}");
    answer.body
}

/// The value of a sample, by its name and labels as they are written.
fn value(text: &str, sample: &str) -> Option<f64> {
    let of = |line: &str| line.strip_prefix(sample)?.strip_prefix(' ')?.split(' ').next()?.parse().ok();
    text.lines().find_map(of)
}

/// Names of samples in a scrape.
fn samples(text: &str) -> BTreeSet<&str> {
    let name = |line| str::split(line, ['{', ' ']).next().unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(name).collect()
}

/// Every word of a text that is the name of a metric of ours.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("pillarbox_"))
        .collect()
}

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(path)
}

/// The rules without their comments, which name this project's files too.
fn rules() -> String {
    let rules = std::fs::read_to_string(shipped("prometheus/pillarbox.rules.yml")).unwrap();
    rules.lines().filter(|line| !line.trim_start().starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// What the panels of the dashboard ask for.
fn panels() -> Vec<String> {
    let dashboard = std::fs::read_to_string(shipped("grafana/pillarbox.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// Whether only a consumer has what an expression asks for.
fn is_of_consumers(expression: &str) -> bool {
    names(expression).iter().any(|name| OF_CONSUMERS.contains(name))
}

/// A Prometheus with the shipped rules.
struct Prometheus {
    _process: Running,
    address: String,
}

impl Prometheus {
    /// Starts one that scrapes this address once a second.
    fn of(home: &Home, target: &str) -> Self {
        // Debian's package has both programs in one directory.
        let promtool = std::env::var("PILLARBOX_TEST_PROMTOOL").expect(
            "PILLARBOX_TEST_PROMTOOL is not set: run this through `cargo xtask services promtool -- cargo test`",
        );
        let program = Path::new(&promtool).with_file_name("prometheus");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let rules = shipped("prometheus/pillarbox.rules.yml").canonicalize().unwrap();
        home.write(
            "prometheus.yml",
            &format!(
                "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: ['{}']\n\
                 scrape_configs: [{{ job_name: pillarbox, static_configs: [{{ targets: ['{target}'] }}] }}]\n",
                rules.display()
            ),
        );
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", home.path("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", home.path("prometheus").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--enable-feature=exemplar-storage")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(home.path("prometheus.log")).unwrap());
        let process = Running::of(command.spawn().expect("Debian's package prometheus has the program"));
        eventually("Prometheus listens", || std::net::TcpStream::connect(&address).is_ok());
        Self { _process: process, address }
    }

    /// The data of an answer; null while Prometheus has none.
    fn asked(&self, path: &str) -> Value {
        let answer = Asked::new(&self.address, "GET", path).send();
        if answer.status == 503 { Value::Null } else { answer.says(200, &[]).json()["data"].clone() }
    }

    /// What an expression finds.
    fn found(&self, expression: &str) -> Value {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        self.asked(&format!("/api/v1/query?query={encoded}"))["result"].clone()
    }
}

/// Prometheus' own checker reads the older text only, which a scraper gets that does not ask for OpenMetrics.
fn promtool_accepts(page: &Page) {
    let plain = page.ask("GET", "/metrics").header("accept", "text/plain;version=0.0.4;q=0.5").send();
    assert_eq!(plain.header("content-type"), "text/plain; version=0.0.4; charset=utf-8", "{plain:?}");
    let mut check = Command::new(std::env::var("PILLARBOX_TEST_PROMTOOL").unwrap())
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(plain.body.as_bytes()).unwrap();
    let said = check.wait_with_output().unwrap();
    assert!(said.status.success(), "{said:?}\n{}", plain.body);
}

fn what_is_shipped_works_on_a_relay(home: &Home) {
    let page = relayed(home);
    for (sample, least) in HAPPENED {
        eventually(&format!("{sample} is at least {least}"), || {
            value(&scraped(&page), sample).is_some_and(|value| value >= least)
        });
    }
    let text = scraped(&page);
    let there = samples(&text);
    for (place, asked) in [("dashboard", panels().join("\n")), ("rules", rules())] {
        let named = names(&asked);
        assert!(named.len() > 5, "the {place} asks only for {named:?}");
        let missing: Vec<_> =
            named.iter().filter(|name| !there.contains(*name) && !OF_CONSUMERS.contains(name)).collect();
        assert!(missing.is_empty(), "the {place} asks for {missing:?}, but there is only {there:?}");
    }
    let with_trace = |name: &str| {
        let exemplar = format!("# {{trace_id=\"{TRACE}\"}}");
        let is_of = |line: &str| line.starts_with(name) && line.contains("route=\"orders\"");
        text.lines().any(|line| is_of(line) && line.contains(&exemplar))
    };
    assert!(with_trace("pillarbox_wait_seconds_bucket{"), "{text}");
    assert!(with_trace("pillarbox_publish_duration_seconds_bucket{"), "{text}");

    promtool_accepts(&page);

    let prometheus = Prometheus::of(home, &page.address);
    for expression in panels().into_iter().filter(|expression| !is_of_consumers(expression)) {
        let query = expression.replace("$route", ".*").replace("$__rate_interval", "1m");
        eventually(&format!("Prometheus finds something for {query}"), || {
            prometheus.found(&query).as_array().is_some_and(|found| !found.is_empty())
        });
    }
    let targets = prometheus.asked("/api/v1/targets");
    let target = &targets["activeTargets"][0];
    assert_eq!((&target["health"], &target["lastError"]), (&"up".into(), &"".into()), "{targets}");
    eventually("every rule was evaluated, and the dead entries are told", || {
        let groups = prometheus.asked("/api/v1/rules");
        let Some(rules) = groups["groups"][0]["rules"].as_array() else { return false };
        let fires = |rule: &Value| rule["name"] == "PillarboxDeadEntries" && rule["state"] == "firing";
        rules.len() > 5 && rules.iter().all(|rule| rule["health"] == "ok") && rules.iter().any(fires)
    });
    let path = "/api/v1/query_exemplars?query=pillarbox_wait_seconds_bucket&start=0&end=4102444800";
    eventually("the trace is an exemplar", || prometheus.asked(path).to_string().contains(TRACE));
}

#[test]
fn the_shipped_dashboard_and_alerts_work_on_a_relay_over_sqlite() {
    what_is_shipped_works_on_a_relay(&Home::migrated());
}

#[test]
fn the_shipped_dashboard_and_alerts_work_on_a_relay_over_postgres() {
    what_is_shipped_works_on_a_relay(&on_postgres());
}
