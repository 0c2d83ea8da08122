//! The page for people who cannot see it well, or at all: axe-core looks at every view, light and dark.

use serde_json::Value;

use super::browser::{busy, url};
use super::everything::Everything;
use super::webdriver::Browser;

/// Asks axe-core what is wrong, and how much it hurts.
const LOOK: &str = "return axe.run(document, { resultTypes: ['violations'], preload: false, ...RULES }).then(found => found.violations.map(
    one => ({ impact: one.impact, rule: one.id, help: one.help,
              where: one.nodes.slice(0, 5).map(node => node.target.join(' ') + ' ' + node.failureSummary) })))";

/// Every rule.
const ALL: &str = "{}";
/// The rule that a dark page can break although the light one keeps it.
const COLOURS: &str = "{ runOnly: ['color-contrast'] }";

/// The source of axe-core.
fn axe() -> String {
    let modules = std::env::var("PILLARBOX_TEST_NODE_MODULES").expect(
        "PILLARBOX_TEST_NODE_MODULES is not set: run this through `cargo xtask services -- cargo test`",
    );
    std::fs::read_to_string(format!("{modules}/axe-core/axe.min.js")).unwrap()
}

/// What hurts on the open page: the findings that axe-core calls serious or critical.
fn hurts(browser: &Browser, axe: &str, rules: &str) -> Vec<Value> {
    if browser.run("return typeof axe") == "undefined" {
        browser.run(axe);
    }
    let found = browser.run(&LOOK.replace("RULES", rules));
    let found = found.as_array().unwrap_or_else(|| panic!("{found}")).clone();
    found.into_iter().filter(|one| matches!(one["impact"].as_str(), Some("serious" | "critical"))).collect()
}

/// Looks at the open page in both schemes, and on a phone.
fn look(browser: &Browser, axe: &str, name: &str, wrong: &mut Vec<String>) {
    for (width, scheme, rules) in [(1280, "light", ALL), (1280, "dark", COLOURS), (390, "light", ALL)] {
        browser.look(width, 800, scheme);
        let found = hurts(browser, axe, rules);
        wrong.extend(found.iter().map(|one| format!("{name} at {width} px, {scheme}: {one:#}")));
    }
}

#[test]
fn no_view_has_a_serious_finding_in_light_or_dark() {
    let (all, browser, axe, mut wrong) = (Everything::new(), Browser::start(), axe(), Vec::new());
    for (name, address) in all.views() {
        all.open(&browser, &address);
        look(&browser, &axe, name, &mut wrong);
    }
    // Before something destructive there is a question.
    browser.open(&url(&all.page, "/dead"));
    browser.click("button[data-verb=requeue]");
    browser.until("document.querySelector('#confirm').open");
    look(&browser, &axe, "question", &mut wrong);
    browser.click("#confirm button[value=no]");
    browser.keys("?");
    browser.until("document.querySelector('#help').open");
    look(&browser, &axe, "keys", &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_page_that_hurts_is_found() {
    let (_home, page, _) = busy();
    let (browser, axe) = (Browser::start(), axe());
    browser.open(&url(&page, "/"));
    browser.until("document.querySelector('#live-mark').textContent === 'live'");
    browser.run("document.querySelector('main').append(document.createElement('input'))");
    browser.look(1280, 800, "dark");
    browser.run("document.querySelector('main').style.color = '#333'");
    let found = hurts(&browser, &axe, ALL);
    assert!(found.iter().any(|one| one["rule"] == "label"), "{found:?}");
    let found = hurts(&browser, &axe, COLOURS);
    assert!(found.iter().any(|one| one["rule"] == "color-contrast"), "{found:?}");
}
