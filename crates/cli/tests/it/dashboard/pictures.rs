//! The pictures of the guide: made from the real page, and compared with nothing but their names.
//!
//! `PILLARBOX_UPDATE_IMAGES=1 cargo xtask services -- cargo test -p pillarbox-cli pictures` rewrites those in
//! `docs/guide/images`. It takes a quarter of an hour, because the page shows that much of the past. A runner that ends
//! a test after some minutes, as `cargo nextest` does here, ends it too early.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::browser::url;
use super::hook::{answer, hook};
use super::webdriver::Browser;
use super::{Page, kill};
use crate::home::Home;

/// How much a picture may weigh: it is kept in the repository for ever.
const BYTES_MAX: u64 = 120 * 1024;
/// What the page shows of the past.
const SHOWN: Duration = Duration::from_secs(15 * 60 + 10);
/// Between two customers' clicks.
const PACE: Duration = Duration::from_millis(500);
/// How long the partners of the shop take to answer.
const ANSWER: Duration = Duration::from_millis(180);

/// Relays are named after their machine, and the machine that makes the pictures is nobody's business. The page changes
/// while it is looked at, and a name that is written again is hidden before it is shown.
const NAMELESS: &str = "const host = HOST + '-', hide = () => {
        const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (all.nextNode()) {
            const text = all.currentNode;
            if (text.data.includes(host)) text.data = text.data.replaceAll(host, 'relay-');
        }
    };
    hide();
    new MutationObserver(hide).observe(document.body, { childList: true, subtree: true, characterData: true });";

/// What two consumers accept of a shop's events.
const ACCEPTED: &str = "insert into pillarbox_inbox (consumer, event_id) select value, lower(hex(randomblob(16))) \
    from json_each('[\"billing\", \"billing\", \"billing\", \"search\", \"search\"]')";

/// Waits a moment, so that a load has a pace and a past.
#[expect(clippy::disallowed_methods, reason = "a pace for the load, not a wait for something")]
fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// A shop on an ordinary day: orders and invoices flow to partners, and some mails are dead.
fn shop() -> (Home, String) {
    let home = Home::migrated();
    let mails: String = (1..=4)
        .map(|n| {
            format!(
                "{{\"route\":\"mail\",\"type\":\"mail.send\",\"key\":\"customer-{n}\",\
                 \"payload\":{{\"to\":\"customer {n}\",\"template\":\"welcome\"}}}}\n"
            )
        })
        .collect();
    home.write("mails.ndjson", &mails);
    home.ok(["stage", "--ndjson", "mails.ndjson"]);
    kill(&home, "mail");
    let dead = home.ok(["list", "--route", "mail", "--json"]).lines();
    let dead = dead[0]["event_id"].as_str().unwrap().to_owned();
    let partner = hook(|_| {
        pass(ANSWER);
        answer("204 No Content", "")
    });
    let route = |name: &str| {
        format!("[routes.{name}]\nto = \"http://127.0.0.1:{partner}/{name}\"\nallow_private = true\n")
    };
    let routes = format!("{}order = \"key\"\n{}", route("orders"), route("invoices"));
    home.write("pillarbox.toml", &routes);
    (home, dead)
}

/// Stages what customers do, more at some times than at others, until it is told to stop.
fn open_the_shop(home: &Home, closes: &AtomicBool) {
    let mut ticks = 0_u32;
    while !closes.load(Ordering::Relaxed) {
        ticks += 1;
        // More towards noon, then less, and now and then a campaign.
        let hour = ticks / 9 % 16;
        let campaign = if ticks % 400 < 30 { 12 } else { 0 };
        let orders = 8 + hour.min(16 - hour) + ticks % 4 + campaign;
        let of = |route: &str, kind: &str, number: u32| -> String {
            let line = |n| {
                let (key, id) = (ticks * 7 + n, ticks * 100 + n);
                format!(
                    "{{\"route\":\"{route}\",\"type\":\"{kind}\",\"key\":\"o-{key}\",\"payload\":{{\"id\":{id}}}}}\n"
                )
            };
            (0..number).map(line).collect()
        };
        let lines = of("orders", "order.placed", orders) + &of("invoices", "invoice.sent", orders / 3 + 1);
        home.write("staged.ndjson", &lines);
        home.ok(["stage", "--ndjson", "staged.ndjson"]);
        home.sql(ACCEPTED);
        pass(PACE);
    }
}

/// Closes the shop also when the test fails: otherwise the failure would wait for it for ever.
struct Closing<'a>(&'a AtomicBool);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/images")
}

#[test]
fn the_pictures_of_the_guide_show_the_page_and_are_small() {
    let (home, dead) = shop();
    let closes = AtomicBool::new(false);
    let page = Page::serve(&home, &["--allow-actions"]);
    let relay = home.start_logged("relay.log", ["relay"]);
    std::thread::scope(|scope| {
        scope.spawn(|| open_the_shop(&home, &closes));
        let closing = Closing(&closes);
        let browser = Browser::start();
        browser.open(&url(&page, "/"));
        let until = Instant::now() + if is_kept() { SHOWN } else { Duration::ZERO };
        while Instant::now() < until {
            pass(PACE);
        }
        take(&browser, &page, &dead);
        drop(closing);
    });
    relay.kill();
}

/// Whether the pictures of the repository are rewritten.
fn is_kept() -> bool {
    std::env::var_os("PILLARBOX_UPDATE_IMAGES").is_some()
}

fn take(browser: &Browser, page: &Page, dead: &str) {
    let story = format!("/entries/{dead}");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let nameless = NAMELESS.replace("HOST", &serde_json::json!(host.trim()).to_string());
    for (name, path, width, height, scheme) in [
        ("overview", "/", 1100, 560, "light"),
        ("entry", story.as_str(), 1100, 660, "light"),
        ("dead", "/dead", 1100, 420, "dark"),
        ("phone", "/", 390, 760, "light"),
    ] {
        browser.look(width, height, scheme);
        browser.open(&url(page, path));
        browser.until("document.querySelector('#live-mark').textContent === 'live'");
        browser.run(&nameless);
        if path == "/" {
            let moves = |route: &str| {
                format!(
                    "document.querySelector('tr[data-key={route}] td[data-label=state]').textContent.includes('moving')"
                )
            };
            browser.until(&format!("{} && {}", moves("orders"), moves("invoices")));
        }
        let picture = browser.picture(&format!("guide-{name}"));
        let kept = folder().join(format!("{name}.png"));
        if is_kept() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::copy(&picture, &kept).unwrap();
        }
        let bytes =
            std::fs::metadata(&kept).unwrap_or_else(|error| panic!("{}: {error}", kept.display())).len();
        assert!((1..=BYTES_MAX).contains(&bytes), "{} has {bytes} bytes", kept.display());
    }
}
