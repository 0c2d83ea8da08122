//! A database that goes away behind an open page, and comes back.

use pillarbox_conformance::mariadb::OwnMariaDb;

use super::Page;
use super::browser::url;
use super::webdriver::Browser;
use crate::home::Home;
use crate::place::wait;

#[test]
fn a_page_whose_database_is_lost_shows_the_last_numbers_with_their_age_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let server = wait(OwnMariaDb::start(directory.path(), &[]));
    let home = Home::new();
    home.write("pillarbox.toml", &format!("[database]\nurl = \"{}\"\n", server.url("app")));
    home.ok(["migrate"]);
    home.stage_many("orders", 3);
    let page = Page::serve(&home, &[]);
    page.until("the events are seen", |status| status["routes"][0]["pending"] == 3);
    let browser = Browser::start();
    browser.look(1280, 800, "light");
    browser.open(&url(&page, "/"));
    let waiting = "tr[data-key=orders] td[data-label=waiting]";
    browser.until(&format!("document.querySelector('{waiting}').textContent === '3'"));
    browser.until("document.querySelector('#live-mark').textContent === 'live'");

    server.kill();
    browser.until("document.querySelector('footer .lost')");
    // What was read last is still there, greyed, and says how old it is.
    browser.until(&format!("document.querySelector('.stale {waiting}').textContent === '3'"));
    browser.until(r"/Last known numbers, from [0-9:.]+ UTC, [0-9.msh ]+ ago\./.test(document.querySelector('footer').textContent)");
    browser.until("document.querySelector('#live-mark').textContent === 'database lost, trying again'");
    browser.until("document.querySelector('.verdict.stuck')");
    browser.picture("lost-1280-light");
    page.get("/readyz").says(503, &["the database cannot be read"]);

    wait(server.restart());
    browser.until("!document.querySelector('.stale') && !document.querySelector('footer .lost')");
    browser.until("document.querySelector('#live-mark').textContent === 'live'");
    home.stage_many("orders", 2);
    browser.until(&format!("document.querySelector('{waiting}').textContent === '5'"));
    let ready = page.get("/readyz");
    assert!(!ready.body.contains("cannot be read"), "{ready:?}");
}
