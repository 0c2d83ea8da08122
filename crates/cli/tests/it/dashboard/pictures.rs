//! The pictures of the guide: made from the real page, and compared with nothing but their names.
//!
//! `PILLARBOX_UPDATE_IMAGES=1 cargo xtask services -- cargo test -p pillarbox-cli pictures` rewrites those in
//! `docs/guide/images`.

use std::path::{Path, PathBuf};

use super::browser::url;
use super::webdriver::Browser;
use super::{Page, kill};
use crate::home::Home;

/// How much a picture may weigh: it is kept in the repository for ever.
const BYTES_MAX: u64 = 120 * 1024;

/// Relays are named after their machine, and the machine that makes the pictures is nobody's business.
const NAMELESS: &str =
    "const host = HOST, all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (all.nextNode()) all.currentNode.data = all.currentNode.data.replaceAll(host + '-', 'relay-');";

/// A shop on an ordinary day: orders and invoices flow, some mails are dead.
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
    home.write(
        "pillarbox.toml",
        "[routes.orders]\nto = \"file:orders.ndjson\"\norder = \"key\"\n[routes.invoices]\nto = \"file:invoices.ndjson\"\n",
    );
    (home, dead)
}

fn stage(home: &Home, route: &str, kind: &str, events: u32) {
    let lines: String = (1..=events)
        .map(|n| {
            format!(
                "{{\"route\":\"{route}\",\"type\":\"{kind}\",\"key\":\"o-{n}\",\"payload\":{{\"id\":{n}}}}}\n"
            )
        })
        .collect();
    home.write("staged.ndjson", &lines);
    home.ok(["stage", "--ndjson", "staged.ndjson"]);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/images")
}

#[test]
fn the_pictures_of_the_guide_show_the_page_and_are_small() {
    let (home, dead) = shop();
    let page = Page::serve(&home, &["--allow-actions"]);
    let relay = home.start_logged("relay.log", ["relay"]);
    let browser = Browser::start();
    browser.open(&url(&page, "/"));
    for round in 1_u32..=6 {
        stage(&home, "orders", "order.placed", 40 + 10 * (round % 3));
        stage(&home, "invoices", "invoice.sent", 15 + 5 * (round % 2));
        page.until("the events are delivered", |status| {
            let of = |name: &str| {
                let routes = status["routes"].as_array().unwrap();
                routes
                    .iter()
                    .find(|route| route["route"] == name)
                    .map_or(0, |route| route["pending"].as_u64().unwrap())
            };
            of("orders") + of("invoices") == 0
        });
    }
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
        browser.open(&url(&page, path));
        browser.until("document.querySelector('#live-mark').textContent === 'live'");
        browser.run(&nameless);
        let picture = browser.picture(&format!("guide-{name}"));
        let kept = folder().join(format!("{name}.png"));
        if std::env::var_os("PILLARBOX_UPDATE_IMAGES").is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::copy(&picture, &kept).unwrap();
        }
        let bytes =
            std::fs::metadata(&kept).unwrap_or_else(|error| panic!("{}: {error}", kept.display())).len();
        assert!((1..=BYTES_MAX).contains(&bytes), "{} has {bytes} bytes", kept.display());
    }
    relay.kill();
}
