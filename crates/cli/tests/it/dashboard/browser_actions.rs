//! What an operator does with a mouse: each action once, from the question to what the page shows afterwards.

use serde_json::json;

use super::browser::url;
use super::hook::{answer, hook};
use super::webdriver::Browser;
use super::{OPERATOR, Page, VIEWER, bury, guarded};
use crate::home::Home;
use crate::many_relays::on_postgres;
use crate::saga::{Answers, Application, erasure};

/// Answers the open question with yes, as ana.
#[track_caller]
pub(super) fn say_yes(browser: &Browser, question: &str) {
    browser.until("document.querySelector('#confirm').open");
    let asked = browser.text();
    assert!(asked.contains(question), "{asked}");
    browser.run("document.querySelector('#confirm-name').value = 'ana'");
    browser.click("#confirm-yes");
}

#[track_caller]
pub(super) fn told(browser: &Browser, words: &str) {
    browser.until(&format!("document.querySelector('#toast').textContent.includes({})", json!(words)));
}

/// The kinds of the audit records of an event, and who did each.
fn audit(page: &Page, event: &str) -> Vec<(String, String)> {
    let records = page.get("/api/v1/audit?limit=100").json()["records"].as_array().unwrap().clone();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let of_event = records.iter().filter(|record| record["event_id"] == event);
    of_event.map(|record| (text(&record["kind"]), text(&record["actor"]))).collect()
}

fn by_ana(kind: &str) -> Vec<(String, String)> {
    vec![(kind.to_owned(), "ana".to_owned())]
}

/// An event that waits an hour for its second attempt.
fn retrying(home: &Home) -> String {
    let id = home.stage_many("orders", 1).remove(0);
    home.sql(
        "update pillarbox_outbox set status = 'retrying', attempts = 1, last_attempt_at = created_at, \
         last_error = 'failed/refused: not now', due_at = (unixepoch() + 3600) * 1000000 where route = 'orders'",
    );
    id
}

#[test]
fn a_retry_is_made_due_at_once_from_its_story() {
    let home = Home::migrated();
    let id = retrying(&home);
    let page = Page::serve(&home, &["--allow-actions"]);
    let browser = Browser::start();
    browser.open(&url(&page, &format!("/entries/{id}")));
    browser.click("button[data-verb=retry]");
    say_yes(&browser, "Retry now 1 event?");
    told(&browser, "1 entry made due at once (audited as ana)");
    browser.until("document.querySelector('.timeline').textContent.includes('hastened')");
    assert_eq!(
        home.numbers("select ifnull(due_at, 0) <= unixepoch() * 1000000 + 999999 from pillarbox_outbox"),
        [1]
    );
    assert_eq!(audit(&page, &id), by_ana("hastened"));
}

#[test]
fn a_waiting_event_is_cancelled_from_its_story_after_a_warning() {
    let home = Home::migrated();
    let id = home.stage_many("orders", 1).remove(0);
    let page = Page::serve(&home, &["--allow-actions"]);
    let browser = Browser::start();
    browser.open(&url(&page, &format!("/entries/{id}")));
    browser.click("button[data-verb=cancel]");
    say_yes(&browser, "This cannot be undone.");
    told(&browser, "1 entry cancelled (audited as ana)");
    browser.until("document.querySelector('.title-line .state').textContent.startsWith('discarded since')");
    browser.until("!document.querySelector('button[data-verb]')");
    assert_eq!(home.totals()["discarded"], 1);
    assert_eq!(audit(&page, &id), by_ana("cancelled"));
}

#[test]
fn a_dead_event_is_requeued_alone_from_its_story() {
    let home = Home::migrated();
    let dead = bury(&home, "mail", 3);
    let page = Page::serve(&home, &["--allow-actions"]);
    let browser = Browser::start();
    browser.open(&url(&page, &format!("/entries/{}", dead[1])));
    browser.click("button[data-verb=requeue]");
    say_yes(&browser, "Requeue 1 event?");
    told(&browser, "1 entry requeued (audited as ana)");
    browser.until("document.querySelector('.title-line .state').textContent.startsWith('pending for')");
    browser.until("document.querySelector('button[data-verb=cancel]')");
    assert_eq!((home.totals()["dead"].clone(), home.totals()["pending"].clone()), (json!(2), json!(1)));
    assert_eq!(audit(&page, &dead[1]), by_ana("requeued"));
}

#[test]
fn all_that_match_are_requeued_and_not_only_those_of_the_page() {
    let home = Home::migrated();
    bury(&home, "mail", 70);
    bury(&home, "orders", 1);
    let page = Page::serve(&home, &["--allow-actions"]);
    let browser = Browser::start();
    browser.open(&url(&page, "/entries?route=mail&status=dead"));
    browser.until("document.querySelectorAll('tbody tr').length === 50");
    browser.click(".all-actions button[data-verb=requeue]");
    say_yes(&browser, "Requeue 70 events?");
    told(&browser, "70 entries requeued (audited as ana)");
    browser.until("document.body.innerText.includes('No dead entries match')");
    assert_eq!((home.totals()["dead"].clone(), home.totals()["pending"].clone()), (json!(1), json!(70)));
}

#[test]
fn on_postgres_events_that_were_refused_are_requeued_as_a_group_and_delivered() {
    let home = on_postgres();
    let refused = hook(|_| answer("422 Unprocessable Content", "no such customer"));
    let to = format!("http://127.0.0.1:{refused}/hook");
    home.stage_many("mail", 3);
    home.ok(["relay", "--drain", "--route", "mail", "--to", &to, "--allow-private"]);
    let page = Page::serve(&home, &["--allow-actions"]);
    let browser = Browser::start();
    browser.look(1280, 800, "light");
    browser.open(&url(&page, "/dead"));
    browser.until("document.body.innerText.includes('rejected/http_422')");
    browser.picture("postgres-dead");
    browser.click("button[data-verb=requeue]");
    say_yes(&browser, "Requeue 3 events?");
    told(&browser, "3 entries requeued (audited as ana)");
    browser.until("!document.querySelector('button[data-verb=requeue]')");
    browser.picture("postgres-requeued");
    home.ok(["relay", "--drain", "--route", "mail", "--to", "file:out.ndjson"]);
    assert_eq!((home.delivered(&["out.ndjson"]).len(), home.totals()["delivered"].clone()), (3, json!(3)));
    browser.open(&url(&page, "/audit"));
    assert_eq!(browser.text().matches("requeued").count(), 3);
}

#[test]
fn a_blocked_saga_goes_on_after_its_dead_step_is_retried_on_its_page() {
    let application = Application::on_sqlite();
    let saga = application.stage(erasure(1));
    application.work(Answers { rejects: &["card.redact"], unknown: &[] });
    let page = Page::serve(&application.home, &["--allow-actions"]);
    let browser = Browser::start();
    browser.open(&url(&page, &format!("/sagas/{saga}")));
    browser.click("button[data-saga-verb=retry]");
    say_yes(&browser, "would be running; 1 entry requeued");
    told(&browser, "is running; 1 entry requeued");
    browser.until("document.querySelector('.title-line .state').textContent === 'running'");
    application.work(Answers::default());
    browser.open(&url(&page, &format!("/sagas/{saga}")));
    browser.until("document.querySelector('.title-line .state').textContent === 'completed'");
    assert_eq!(application.audit("person/p-1").iter().filter(|kind| *kind == "resumed").count(), 1);
}

#[test]
fn a_step_of_a_saga_is_skipped_only_with_a_reason() {
    let application = Application::on_sqlite();
    let saga = application.stage(erasure(2));
    application.work(Answers { rejects: &["card.redact"], unknown: &[] });
    let page = Page::serve(&application.home, &["--allow-actions"]);
    let browser = Browser::start();
    browser.open(&url(&page, &format!("/sagas/{saga}")));
    browser.click("button[data-saga-verb=skip][data-step=card]");
    browser.until("document.querySelector('#confirm').open");
    // Without a reason the question stays open.
    browser.run("document.querySelector('#confirm-name').value = 'ana'");
    browser.click("#confirm-yes");
    browser.until("document.querySelector('#confirm-reason:invalid')");
    browser.until("document.querySelector('#confirm').open");
    browser.run("document.querySelector('#confirm-reason').value = 'the card is gone'");
    browser.click("#confirm-yes");
    told(&browser, "0 entries requeued, 1 discarded");
    assert_eq!(application.show(&saga)["steps"][2]["state"], "skipped");
    let records = page.get("/api/v1/audit?limit=100").json()["records"].as_array().unwrap().clone();
    let skipped = |record: &&serde_json::Value| record["detail"].to_string().contains("the card is gone");
    assert_eq!(records.iter().find(skipped).unwrap()["actor"], "ana", "{records:?}");
}

#[test]
fn a_paused_route_is_resumed_by_its_own_button() {
    let home = Home::migrated();
    home.stage_many("orders", 1);
    let page = Page::serve(&home, &["--allow-actions"]);
    page.act("/api/v1/routes/orders/pause", &json!({ "reason": "a storm" })).says(200, &[]);
    page.until("the pause is seen", |status| status["routes"][0]["paused"]["reason"] == "a storm");
    let browser = Browser::start();
    browser.open(&url(&page, "/routes/orders"));
    assert!(browser.text().contains("a storm"), "{}", browser.text());
    browser.click("main button[data-route-verb=resume]");
    say_yes(&browser, "Relays deliver this route again.");
    told(&browser, "orders was resumed by ana");
    browser.until("document.querySelector('main button[data-route-verb=pause]')");
    page.until("the route is not paused", |status| status["routes"][0]["paused"].is_null());
}

#[test]
fn a_route_is_paused_and_resumed_beside_the_verdict() {
    let home = Home::migrated();
    bury(&home, "mail", 2);
    let page = Page::serve(&home, &["--allow-actions"]);
    page.until("the dead are seen", |status| status["routes"][0]["dead"] == 2);
    let browser = Browser::start();
    browser.open(&url(&page, "/"));
    browser.click(".verdict button[data-route-verb=pause]");
    say_yes(&browser, "This can be undone at any time.");
    told(&browser, "mail was paused by ana");
    browser.click(".verdict button[data-route-verb=resume]");
    say_yes(&browser, "Resume mail?");
    told(&browser, "mail was resumed by ana");
    browser.until("document.querySelector('.verdict button[data-route-verb=pause]')");
    // Where nobody may act, the verdict leads to the route and offers no more.
    let page = Page::serve(&home, &[]);
    page.until("the dead are seen", |status| status["routes"][0]["dead"] == 2);
    browser.open(&url(&page, "/"));
    browser.until("document.querySelector('.verdict a.button').offsetParent");
    browser.until("!document.querySelector('.verdict button').offsetParent");
}

#[test]
fn someone_logs_in_to_where_they_were_going_and_out_again() {
    let home = guarded();
    let dead = bury(&home, "mail", 1);
    let page = Page::serve(&home, &[]);
    let browser = Browser::start();
    let log_in = |token: &str, name: &str| {
        browser.click("input[name=token]");
        browser.keys(token);
        browser.click("input[name=name]");
        browser.keys(name);
        browser.click("button[type=submit]");
    };
    let story = format!("/entries/{}", dead[0]);
    browser.open(&url(&page, &story));
    browser.until("location.pathname === '/login'");
    log_in("wrong", "ana");
    browser.until("document.querySelector('[role=alert]')");
    assert!(browser.text().contains("the token is wrong"), "{}", browser.text());
    log_in(OPERATOR, "ana");
    browser.until(&format!("location.pathname === '{story}'"));
    browser.until("document.querySelector('.who').textContent.includes('ana (operator)')");
    browser.until("document.querySelector('button[data-verb=requeue]').offsetParent");
    // The session says who acts: nobody is asked for a name.
    browser.click("button[data-verb=requeue]");
    browser.until("document.querySelector('#confirm').open");
    browser.until("document.querySelector('#confirm-name-label').hidden");
    browser.click("#confirm button[value=no]");
    browser.click("button[data-logout]");
    browser.until("location.pathname === '/login'");
    browser.open(&url(&page, "/"));
    browser.until("location.pathname === '/login'");
    // A viewer sees the same, without the buttons.
    log_in(VIEWER, "vera");
    browser.until("location.pathname === '/'");
    browser.open(&url(&page, &story));
    browser.until("document.querySelector('.who').textContent.includes('vera (viewer)')");
    browser.until("!document.querySelector('button[data-verb=requeue]').offsetParent");
    assert_eq!(home.totals()["dead"], 1);
}
