//! The list of sagas over the API and on the page, page by page.

use serde_json::Value;

use super::Page;
use crate::saga::{Answers, Application, booking, erasure};

/// Three sagas that have completed, and behind them two that run.
fn staged() -> Application {
    let application = Application::on_sqlite();
    for person in 1..=3 {
        application.stage(erasure(person));
    }
    application.work(Answers::default());
    for person in 4..=5 {
        application.stage(erasure(person));
    }
    application
}

fn ids(answer: &Value) -> Vec<String> {
    let sagas = answer["sagas"].as_array().unwrap();
    sagas.iter().map(|saga| saga["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn sagas_are_read_by_pages() {
    let application = staged();
    let page = Page::serve(&application.home, &[]);
    for (filter, count) in [("", 5), ("&status=completed", 3), ("&status=running", 2)] {
        let all = page.get(&format!("/api/v1/sagas?limit=100{filter}")).json();
        assert_eq!((ids(&all).len(), &all["next"]), (count, &Value::Null), "{filter}");
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let answer = page.get(&format!("/api/v1/sagas?limit=2{filter}&cursor={cursor}")).json();
            seen.extend(ids(&answer));
            assert!(seen.len() <= count, "a page begins behind the one before: {answer}");
            match answer["next"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(seen, ids(&all), "{filter}");
    }
    page.get("/api/v1/sagas?cursor=7").says(400, &["no cursor of a list of sagas", "1763171696123456-"]);
}

#[test]
fn a_step_with_an_unknown_outcome_is_hatched_and_says_so() {
    let application = Application::on_sqlite();
    let id = application.stage(booking(1));
    application.work(Answers { unknown: &["card.charge"], ..Answers::default() });
    let page = Page::serve(&application.home, &[]);
    let shown = page.get(&format!("/sagas/{id}"));
    shown.says(200, &["step dead unknown", "dead, outcome unknown"]);
    assert_eq!(shown.body.matches("outcome unknown").count(), 1, "{shown:?}");
    page.get("/assets/page.css").says(200, &[".step.unknown::before", "repeating-linear-gradient"]);
}

#[test]
fn the_page_of_sagas_leads_to_the_next_one() {
    let application = staged();
    let page = Page::serve(&application.home, &[]);
    let running = ids(&page.get("/api/v1/sagas?status=running").json());
    let mut path = "/sagas?status=running&limit=1".to_owned();
    for (place, id) in running.iter().enumerate() {
        let shown = page.get(&path);
        shown.says(200, &[id]);
        assert_eq!(shown.body.contains("from the beginning"), place > 0, "{shown:?}");
        let (_, link) = shown.body.split_once("rel=\"next\" href=\"").unwrap();
        path = link.split_once('"').unwrap().0.replace("&amp;", "&");
    }
    page.get(&path).says(200, &["There are no more sagas", "/sagas?status=running&amp;limit=1"]);
    page.get("/sagas?limit=100").says(200, &["that is all"]);
    page.get("/sagas?cursor=7").says(400, &["no cursor of a list of sagas"]);
}
