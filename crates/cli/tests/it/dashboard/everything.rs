//! A page with something in every view: what runs, what is stuck and why, what was accepted, and who did what.

use serde_json::json;

use super::browser::{HOSTILE, stage_hostile, url};
use super::webdriver::Browser;
use super::{Page, bury, guarded, kill};
use crate::home::{Home, Running, eventually};
use crate::saga::{Answers, Application, booking, erasure};

/// Routes that flow, whose destination is down, that are paused, and that have a name of 255 characters.
const ROUTES: &str = "[routes.orders]\nto = \"file:orders.ndjson\"\norder = \"key\"\n\
    [routes.invoices]\nto = \"file:invoices.ndjson\"\n\
    [routes.billing]\nto = \"http://127.0.0.1:9/hook\"\nallow_private = true\n";

/// Three consumers that accept something.
const ACCEPTED: &str = "insert into pillarbox_inbox (consumer, event_id) select value, lower(hex(randomblob(16))) \
    from json_each('[\"billing\", \"billing\", \"billing\", \"mailer\", \"search\"]')";

/// The page, and everything behind it.
pub(super) struct Everything {
    pub(super) page: Page,
    login: Page,
    application: Application,
    _guarded: Home,
    _relay: Running,
    dead: String,
    blocked: String,
    sagas: [String; 2],
}

/// A dead event of a key, and three that wait behind it. Returns one of those.
fn behind_a_dead_one(home: &Home) -> String {
    let stage = |kind: &str, id: &str| {
        home.ok([
            "stage",
            "--route",
            "orders",
            "--type",
            kind,
            "--key",
            "c-481",
            "--event-id",
            id,
            "--payload",
            "{}",
        ]);
    };
    let id = || uuid::Uuid::now_v7().to_string();
    stage("order.placed", &id());
    kill(home, "orders");
    let blocked = id();
    stage("order.paid", &blocked);
    stage("order.sent", &id());
    stage("order.closed", &id());
    blocked
}

impl Everything {
    pub(super) fn new() -> Self {
        let application = Application::on_sqlite();
        let home = &application.home;
        home.write("pillarbox.toml", ROUTES);
        // A relay says what a dead entry does to its key on a route.
        home.ok(["relay", "--drain"]);
        let blocked = behind_a_dead_one(home);
        let dead = bury(home, "mail", 3).remove(0);
        home.stage_many(&"long-route-".repeat(24)[..255], 1);
        stage_hostile(home);
        home.stage_many("billing", 4);
        application.stage(erasure(1));
        application.work(Answers::default());
        let stuck = application.stage(erasure(2));
        application.work(Answers { rejects: &["card.redact"], unknown: &[] });
        let running = application.stage(booking(1));

        let page = Page::serve(home, &["--allow-actions"]);
        page.act("/api/v1/entries/requeue", &json!({ "ids": bury(home, "mail", 1) })).says(200, &[]);
        page.act("/api/v1/entries/discard", &json!({ "ids": bury(home, "archive", 1) })).says(200, &[]);
        page.act("/api/v1/routes/invoices/pause", &json!({ "reason": "the books are closed" }))
            .says(200, &[]);
        let relay = home.start_logged("relay.log", ["relay"]);
        home.stage_many("orders", 12);
        home.stage_many("invoices", 5);
        let guarded = guarded();
        let login = Page::serve(&guarded, &[]);
        let sagas = [stuck, running];
        let all = Self { page, login, application, _guarded: guarded, _relay: relay, dead, blocked, sagas };
        all.wait();
        all
    }

    /// Until the page has seen it all.
    fn wait(&self) {
        self.page.until("the relay and the routes are seen", |status| {
            let routes = status["routes"].as_array().unwrap();
            let state = |name: &str| {
                routes
                    .iter()
                    .find(|route| route["route"] == name)
                    .map_or("", |route| route["state"].as_str().unwrap())
            };
            state("billing") == "circuit_open"
                && state("invoices") == "paused"
                && state("orders") == "blocked"
        });
        eventually("the consumers are seen", || {
            self.application.home.sql(ACCEPTED);
            self.page.get("/api/v1/inbox").json()["consumers"].as_array().unwrap().len() == 3
        });
    }

    /// Every view by its name, with the address that shows it.
    pub(super) fn views(&self) -> Vec<(&'static str, String)> {
        let (dead, blocked) = (format!("/entries/{}", self.dead), format!("/entries/{}", self.blocked));
        let [stuck, running] = self.sagas.each_ref().map(|saga| format!("/sagas/{saga}"));
        let hostile = format!("/entries/{HOSTILE}");
        let paths = [
            ("overview", "/"),
            ("route", "/routes/orders?lanes"),
            ("route-down", "/routes/billing"),
            ("route-paused", "/routes/invoices"),
            ("entries", "/entries?status=dead"),
            ("entries-behind", "/entries?route=orders"),
            ("entry", &dead),
            ("entry-blocked", &blocked),
            ("entry-hostile", &hostile),
            ("dead", "/dead"),
            ("sagas", "/sagas"),
            ("saga-stuck", &stuck),
            ("saga-running", &running),
            ("relays", "/relays"),
            ("inbox", "/inbox"),
            ("audit", "/audit"),
            ("doctor", "/doctor"),
        ];
        let views = paths.map(|(name, path)| (name, url(&self.page, path)));
        views.into_iter().chain([("login", url(&self.login, "/login"))]).collect()
    }

    /// Opens a view and waits until it is there and, but for the login, live.
    pub(super) fn open(&self, browser: &Browser, address: &str) {
        browser.open(address);
        browser.until(
            "document.querySelector('input[type=password]') || \
             document.querySelector('#live-mark').textContent === 'live'",
        );
    }
}
