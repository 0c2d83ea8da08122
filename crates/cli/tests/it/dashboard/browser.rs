//! The page in a real browser: every view, the actions, the keys, and what is hostile.

use serde_json::json;

use super::everything::Everything;
use super::webdriver::Browser;
use super::{Page, bury};
use crate::home::{Home, eventually};
use crate::many_relays::on_postgres;

/// A phone, a tablet, a laptop and a large screen; and the two that are used at night. Of some a picture is kept, which takes
/// longer than all else.
const LOOKS: [(u32, u32, &str, bool); 6] = [
    (390, 844, "light", true),
    (768, 1024, "light", false),
    (1280, 800, "light", true),
    (1920, 1080, "light", false),
    (390, 844, "dark", false),
    (1280, 800, "dark", true),
];

/// A page with dead letters, a route that a relay once held, and one of 255 characters.
pub(super) fn busy() -> (Home, Page, Vec<String>) {
    let home = Home::migrated();
    let dead = bury(&home, "mail", 3);
    home.stage_many("orders", 12);
    home.stage_many(&"long-route-".repeat(24)[..255], 1);
    stage_hostile(&home);
    home.sql(LANES);
    let page = Page::serve(&home, &["--allow-actions"]);
    page.until("all routes are seen", |status| status["routes"].as_array().unwrap().len() == 3);
    (home, page, dead)
}

/// An event whose payload wants to be more than text.
pub(super) fn stage_hostile(home: &Home) {
    let hostile =
        r#"{"html":"<img src=x onerror=\"window.broken=1\">","rtl":"a^b","n":12345678901234567890}"#
            .replace('^', "\u{202e}");
    home.ok([
        "stage",
        "--route",
        "orders",
        "--type",
        "hostile",
        "--event-id",
        HOSTILE,
        "--payload",
        &hostile,
    ]);
}

/// Three deliveries, and a relay that holds every second lane.
const LANES: &str = "insert into pillarbox_outbox \
     (route, type, payload, status, attempts, created_at, settled_at) \
     select 'orders', 't', '0', 'delivered', 1, unixepoch() * 1000000 - value, unixepoch() * 1000000 \
     from json_each('[5000, 40000, 7000000]'); \
     insert into pillarbox_lane_session (route, session, owner, leased_at, lease_until, shares) \
     values ('orders', 's', 'web-17', 1, 2, 64); \
     insert into pillarbox_lane (route, lane, session) \
     with recursive n (i) as (select 0 union all select i + 1 from n where i < 63) \
     select 'orders', i, iif(i % 2, null, 's') from n";

pub(super) const HOSTILE: &str = "01932c07-a9f0-7000-8000-0000000000ff";

pub(super) fn url(page: &Page, path: &str) -> String {
    format!("http://{}{path}", page.address)
}

#[test]
fn every_view_fits_every_width_in_light_and_dark_without_an_error() {
    let (all, browser) = (Everything::new(), Browser::start());
    for (name, address) in all.views() {
        all.open(&browser, &address);
        for (width, height, scheme, is_kept) in LOOKS {
            browser.look(width, height, scheme);
            if is_kept {
                browser.picture(&format!("{name}-{width}-{scheme}"));
            }
            let wide = browser.run("return document.documentElement.scrollWidth - window.innerWidth");
            assert!(wide.as_i64().unwrap() <= 0, "{name} at {width} px is {wide} px too wide");
        }
    }
}

#[test]
fn the_overview_follows_what_happens_without_a_reload() {
    let (home, page, _) = busy();
    let browser = Browser::start();
    browser.open(&url(&page, "/"));
    browser.until("document.querySelector('tr[data-key=mail] td[data-label=dead]').textContent === '3'");
    browser
        .run("document.querySelector('tr[data-key=mail] a').focus(); window.kept = document.activeElement");
    bury(&home, "mail", 2);
    browser.until("document.querySelector('tr[data-key=mail] td[data-label=dead]').textContent === '5'");
    browser.until("window.kept === document.activeElement");
    assert!(browser.text().contains("5 dead on route mail"), "{}", browser.text());
    // Paused, nothing moves.
    browser.keys("p");
    browser.until("document.querySelector('#live-mark').textContent === 'paused'");
}

/// A browser has six connections to a host. With a stream on each, the seventh page would wait for half a minute.
#[test]
fn a_page_that_nobody_sees_has_no_stream_and_goes_on_when_it_is_seen_again() {
    let (home, page, _) = busy();
    let browser = Browser::start();
    browser.open(&url(&page, "/"));
    let is_live = "document.querySelector('#live-mark').textContent === 'live'";
    browser.until(is_live);
    browser.run(
        "window.before = source; dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))",
    );
    browser.until("source === null && before.readyState === EventSource.CLOSED");
    bury(&home, "mail", 2);
    browser.run("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))");
    browser.until("document.querySelector('tr[data-key=mail] td[data-label=dead]').textContent === '5'");
    browser.until(is_live);
}

#[test]
fn a_page_whose_server_is_gone_says_that_it_is_not_live() {
    let (_home, page, _) = busy();
    let browser = Browser::start();
    browser.open(&url(&page, "/"));
    browser.until("document.querySelector('#live-mark').textContent === 'live'");
    page.process.kill();
    browser.until("document.querySelector('#live-mark').textContent.startsWith('not live since ')");
}

#[test]
fn dead_letters_are_requeued_as_a_group_after_a_question_with_the_count() {
    let (home, page, _) = busy();
    let browser = Browser::start();
    browser.open(&url(&page, "/dead"));
    browser.click("button[data-verb=requeue]");
    browser.until("document.querySelector('#confirm').open");
    let asked = browser.text();
    assert!(asked.contains("Requeue 3 events?") && asked.contains("died with failed/timeout"), "{asked}");
    browser.run("document.querySelector('#confirm-name').value = 'ana'");
    browser.click("#confirm button[value=no]");
    assert_eq!(home.totals()["dead"], 3, "no is no");
    browser.click("button[data-verb=requeue]");
    browser.until("document.querySelector('#confirm').open");
    browser.click("#confirm-yes");
    browser.until(
        "document.querySelector('#toast').textContent.includes('3 entries requeued (audited as ana)')",
    );
    assert_eq!(home.totals()["dead"], 0);
    browser.open(&url(&page, "/audit"));
    assert_eq!(browser.text().matches("requeued").count(), 3);
}

#[test]
fn several_groups_of_dead_letters_are_requeued_together() {
    let (home, page, _) = busy();
    bury(&home, "bills", 2);
    bury(&home, "letters", 4);
    page.until("all routes are seen", |status| status["routes"].as_array().unwrap().len() == 5);
    let browser = Browser::start();
    browser.open(&url(&page, "/dead"));
    browser.until("document.querySelectorAll('tr[data-filter]').length === 3");
    browser.click("tr[data-key^=bills] [data-select]");
    browser.click("tr[data-key^=mail] [data-select]");
    browser.until("document.querySelector('#actions-count').textContent === '2 selected'");
    browser.click("#actions [data-bulk=requeue]");
    browser.until("document.querySelector('#confirm').open");
    assert!(browser.text().contains("Requeue 5 events?"), "{}", browser.text());
    browser.run("document.querySelector('#confirm-name').value = 'ana'");
    browser.click("#confirm-yes");
    browser.until(
        "document.querySelector('#toast').textContent.includes('5 entries requeued in 2 groups (audited as ana)')",
    );
    browser.until("document.querySelectorAll('tr[data-filter]').length === 1");
    assert_eq!(home.totals()["dead"], 4, "the third group was not selected");
}

#[test]
fn entries_are_selected_and_discarded_with_the_keyboard_and_the_bar() {
    let (home, page, _) = busy();
    let browser = Browser::start();
    browser.open(&url(&page, "/entries?status=dead&route=mail"));
    browser.until("document.querySelectorAll('tbody tr').length === 3");
    browser.keys("jxjx");
    browser.until("document.querySelector('#actions-count').textContent === '2 selected'");
    browser.click("#actions [data-bulk=discard]");
    browser.until("document.querySelector('#confirm').open");
    assert!(browser.text().contains("This cannot be undone."));
    browser.click("#confirm-yes");
    browser.until("document.querySelector('#toast').textContent.includes('2 entries discarded')");
    browser.until("document.querySelectorAll('tbody tr').length === 1");
    assert_eq!((home.totals()["dead"].clone(), home.totals()["discarded"].clone()), (json!(1), json!(2)));
    // r requeues the row, / searches, ? lists the keys, enter opens.
    browser.keys("k?");
    browser.until("document.querySelector('#help').open");
    browser.click("#help button");
    browser.keys("r");
    browser.until("document.querySelector('#confirm').open");
    browser.click("#confirm button[value=no]");
    browser.keys("/");
    browser.until("document.activeElement.id === 'search'");
}

#[test]
fn a_hostile_payload_is_hidden_and_then_shown_as_text_with_its_numbers_whole() {
    let (_home, page, _) = busy();
    let browser = Browser::start();
    browser.open(&url(&page, &format!("/entries/{HOSTILE}")));
    assert!(!browser.text().contains("onerror"), "hidden until asked for");
    browser.click("button[data-payload]");
    browser.until("!document.querySelector('pre.payload').hidden");
    let shown = browser.run("return document.querySelector('pre.payload').textContent");
    let shown = shown.as_str().unwrap();
    assert!(shown.contains(r#"<img src=x onerror=\"window.broken=1\">"#), "{shown}");
    assert!(shown.contains("12345678901234567890") && shown.contains("\\u202e"), "{shown}");
    assert_eq!(browser.run("return document.querySelectorAll('pre.payload *').length"), json!(0));
    assert_eq!(browser.run("return window.broken || 0"), json!(0));
}

#[test]
fn a_route_is_paused_from_its_page_with_a_reason_and_that_is_undone() {
    let (home, page, _) = busy();
    let browser = Browser::start();
    browser.open(&url(&page, "/routes/orders"));
    browser.click("main button[data-route-verb=pause]");
    browser.until("document.querySelector('#confirm').open");
    browser.run("document.querySelector('#confirm-reason').value = 'moving the broker'");
    browser.click("#confirm-yes");
    browser.until("document.querySelector('main button[data-route-verb=resume]')");
    let paused = || {
        let status = home.ok(["status", "--json"]).json();
        let routes = status["routes"].as_array().unwrap();
        routes.iter().find(|route| route["route"] == "orders").unwrap()["paused"].clone()
    };
    assert_eq!(paused()["reason"], "moving the broker");
    browser.click("#toast button");
    browser.until("document.querySelector('main button[data-route-verb=pause]')");
    assert!(paused().is_null(), "it is undone: {}", paused());
}

#[test]
fn on_postgres_a_relay_and_its_page_show_events_as_they_are_delivered() {
    let home = on_postgres();
    let config = home.read("pillarbox.toml") + "[routes.orders]\nto = \"file:out.ndjson\"\n";
    home.write("pillarbox.toml", &config);
    let page = Page::serve(&home, &["--allow-actions"]);
    let browser = Browser::start();
    browser.open(&url(&page, "/"));
    browser.until("document.querySelector('tr[data-key=orders]')");
    let _relay = home.start_logged("relay.log", ["relay"]);
    // The rate is of the last seconds only, and a busy machine shows it late.
    let rate = "Number(document.querySelector('tr[data-key=orders] td[data-label=\"out/s\"]').textContent)";
    let mut staged = 0;
    eventually("the page shows a rate", || {
        staged += home.stage_many("orders", 5).len();
        browser.run(&format!("return {rate} > 0")) == json!(true)
    });
    page.until("all are delivered", |status| status["routes"][0]["delivered"] == staged);
    browser.open(&url(&page, "/relays"));
    browser.until("document.querySelector('table.relays')");
    assert!(browser.text().contains("orders"));
}
