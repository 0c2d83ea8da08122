//! How an operator ends or undoes a saga with a mouse.

use serde_json::json;

use super::Page;
use super::browser::url;
use super::browser_actions::{say_yes, told};
use super::webdriver::Browser;
use crate::saga::{Answers, Application, booking, erasure};

/// The page of a saga in a browser.
fn opened(application: &Application, saga: &str) -> (Page, Browser) {
    let page = Page::serve(&application.home, &["--allow-actions"]);
    let browser = Browser::start();
    browser.open(&url(&page, &format!("/sagas/{saga}")));
    (page, browser)
}

fn is(browser: &Browser, state: &str) {
    browser.until(&format!("document.querySelector('.title-line .state').textContent === {}", json!(state)));
}

#[test]
fn a_stuck_saga_is_ended_as_it_is_only_with_a_reason() {
    let application = Application::on_sqlite();
    let saga = application.stage(erasure(3));
    application.work(Answers { rejects: &["card.redact"], unknown: &[] });
    let (page, browser) = opened(&application, &saga);
    browser.click("button[data-saga-verb=abandon]");
    browser.until("document.querySelector('#confirm').open");
    let asked = browser.text();
    assert!(asked.contains("End it as it is?") && asked.contains("would be abandoned"), "{asked}");
    // Without a reason the question stays open.
    browser.run("document.querySelector('#confirm-name').value = 'ana'");
    browser.click("#confirm-yes");
    browser.until("document.querySelector('#confirm-reason:invalid')");
    assert_eq!(application.show(&saga)["status"], "blocked");
    browser.run("document.querySelector('#confirm-reason').value = 'the card was redacted by hand'");
    browser.click("#confirm-yes");
    told(&browser, "is abandoned");
    is(&browser, "abandoned");
    browser.until("!document.querySelector('button[data-saga-verb=abandon]')");
    browser.picture("saga-abandoned");
    assert_eq!(application.show(&saga)["status"], "abandoned");
    let records = page.get("/api/v1/audit?limit=100").json()["records"].as_array().unwrap().clone();
    let ended =
        |record: &&serde_json::Value| record["detail"].to_string().contains("the card was redacted by hand");
    let record = records.iter().find(ended).unwrap_or_else(|| panic!("{records:?}"));
    assert_eq!((&record["kind"], &record["actor"]), (&json!("abandoned"), &json!("ana")));
}

fn what_may_have_run_is_undone_on_the_page_of_a_saga(application: &Application, name: &str) {
    let saga = application.stage(booking(1));
    application.work(Answers { rejects: &[], unknown: &["card.charge"] });
    let (page, browser) = opened(application, &saga);
    is(&browser, "blocked");
    browser.click("button[data-saga-verb=compensate]");
    say_yes(&browser, "would be compensating; 0 entries requeued, 1 discarded");
    told(&browser, "is compensating; 0 entries requeued, 1 discarded");
    is(&browser, "compensating");
    application.work(Answers::default());
    browser.open(&url(&page, &format!("/sagas/{saga}")));
    is(&browser, "compensated");
    browser.picture(&format!("saga-compensated-{name}"));
    let steps = application.show(&saga)["steps"].clone();
    let undone = steps.as_array().unwrap().iter().filter(|step| step["state"] == "compensated").count();
    assert_eq!(undone, 2, "the flight and the hotel: {steps}");
}

#[test]
fn what_may_have_run_is_undone_on_the_page_of_a_saga_over_sqlite() {
    what_may_have_run_is_undone_on_the_page_of_a_saga(&Application::on_sqlite(), "sqlite");
}

#[test]
fn what_may_have_run_is_undone_on_the_page_of_a_saga_over_postgres() {
    what_may_have_run_is_undone_on_the_page_of_a_saga(&Application::on_postgres(), "postgres");
}
