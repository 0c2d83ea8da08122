//! Entries that wait behind a dead one: where they are drawn, and that the cause stands beside them.

use serde_json::json;

use super::browser::url;
use super::webdriver::Browser;
use super::{Answer, Page, kill};
use crate::home::Home;

/// What the dead entry died of.
const CAUSE: &str = "failed/timeout";

/// A dead entry of a key, one of another key, and two that wait behind the first. With their ids in that order.
struct Behind {
    home: Home,
    ids: [String; 4],
}

impl Behind {
    fn new() -> Self {
        let home = Home::migrated();
        home.write("pillarbox.toml", "[routes.r]\nto = \"file:out.ndjson\"\norder = \"key\"\n");
        // A relay says what a dead entry does to its key on this route.
        home.ok(["relay", "--drain"]);
        let stage = |key: &str| {
            let id = uuid::Uuid::now_v7().to_string();
            home.ok([
                "stage",
                "--route",
                "r",
                "--type",
                "t",
                "--key",
                key,
                "--event-id",
                &id,
                "--payload",
                "{}",
            ]);
            id
        };
        let head = stage("c-481");
        kill(&home, "r");
        let ids = [head, stage("c-9"), stage("c-481"), stage("c-481")];
        Self { home, ids }
    }

    fn serve(&self) -> Page {
        let page = Page::serve(&self.home, &[]);
        page.until("the head is named", |status| {
            status["routes"][0]["blocked_by"][0]["event_id"] == self.ids[0].as_str()
        });
        page
    }
}

/// The ids of the rows of a list, and whether each is drawn behind the one above.
fn rows(answer: &Answer) -> Vec<(String, bool)> {
    let rows = answer.body.split("<tr class=\"").skip(1);
    let row = |text: &str| {
        let (class, rest) = text.split_once('"').unwrap();
        let (_, rest) = rest.split_once("data-id=\"").unwrap();
        (rest.split_once('"').unwrap().0.to_owned(), class == "behind")
    };
    rows.map(row).collect()
}

#[test]
fn entries_behind_a_dead_one_are_drawn_under_it_with_its_error() {
    let behind = Behind::new();
    let page = behind.serve();
    let [head, other, first, second] = behind.ids.clone();
    let list = page.get("/entries?route=r");
    let drawn = [(&head, false), (&first, true), (&second, true), (&other, false)];
    assert_eq!(rows(&list), drawn.map(|(id, is_behind)| (id.clone(), is_behind)), "{list:?}");
    assert_eq!(list.body.matches("which is dead").count(), 2);
    // Beside the head itself, and beside each that waits.
    assert_eq!(list.body.matches(CAUSE).count(), 3, "{list:?}");
    // Without the head on the page they are not indented, and the cause is there all the same.
    let blocked = page.get("/entries?route=r&status=blocked");
    assert_eq!(rows(&blocked), [(first.clone(), false), (second, false)]);
    assert_eq!(blocked.body.matches(CAUSE).count(), 2, "{blocked:?}");
    let waits = format!("It waits behind <a href=\"/entries/{head}\">");
    page.get(&format!("/entries/{first}"))
        .says(200, &[&waits, "which is dead: ", CAUSE, "no answer within 20 s"]);
    page.get("/routes/r").says(200, &["2 events behind it", "died of", CAUSE]);
    assert_eq!(page.get("/api/v1/entries?status=blocked").json()["entries"][0]["blocked_by"], json!(head));
}

#[test]
fn a_person_sees_entries_indented_under_the_dead_one_and_reads_why() {
    let behind = Behind::new();
    let page = behind.serve();
    let browser = Browser::start();
    for width in [1280, 390] {
        browser.look(width, 800, "light");
        browser.open(&url(&page, "/entries?route=r"));
        browser.until("document.querySelectorAll('tbody tr').length === 4");
        let left = |row: u32| {
            let place = format!(
                "return document.querySelector('tbody tr:nth-child({row}) td[data-label=state] .mark')\
                 .getBoundingClientRect().left"
            );
            browser.run(&place).as_f64().unwrap()
        };
        assert!(left(2) > left(1) && left(3) > left(1), "at {width} px: {} {} {}", left(1), left(2), left(3));
        assert!((left(4) - left(1)).abs() < 1.0, "at {width} px: {} {}", left(1), left(4));
        let text = browser.run("return document.querySelector('tbody tr:nth-child(2)').innerText");
        let text = text.as_str().unwrap();
        assert!(text.contains("waits behind") && text.contains(CAUSE), "{text}");
        browser.picture(&format!("behind-{width}"));
    }
    browser.open(&url(&page, &format!("/entries/{}", behind.ids[2])));
    browser.until("document.querySelector('p.notice')");
    let notice = browser.run("return document.querySelector('p.notice').innerText");
    assert!(notice.as_str().unwrap().contains(CAUSE), "{notice}");
    browser.click("p.notice a");
    browser.until(&format!("location.pathname === '/entries/{}'", behind.ids[0]));
}
