//! The story of one event.

use super::Page;
use crate::home::Home;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn a_story_leads_to_the_trace_that_staged_the_event() {
    let home = Home::migrated();
    let (traced, other) = (uuid::Uuid::now_v7().to_string(), uuid::Uuid::now_v7().to_string());
    let stage = |id: &str, context: &str| {
        let header = format!("traceparent={context}");
        let what =
            ["--route", "orders", "--type", "t", "--payload", "1", "--event-id", id, "--header", &header];
        home.ok([&["stage"], what.as_slice()].concat());
    };
    stage(&traced, &format!("00-{TRACE}-00f067aa0ba902b7-01"));
    stage(&other, "none");
    let story = |page: &Page, id: &str| page.get(&format!("/entries/{id}")).body;
    let page = Page::serve(&home, &[]);
    let shown = story(&page, &traced);
    assert!(shown.contains(TRACE) && !shown.contains("open trace"), "{shown}");
    home.write(
        "pillarbox.toml",
        "[admin]\ntrace_url = \"https://traces.example.com/t/{trace_id}?x=1&y=2\"\n",
    );
    let page = Page::serve(&home, &[]);
    let link =
        format!("href=\"https://traces.example.com/t/{TRACE}?x=1&amp;y=2\" rel=\"noopener noreferrer\"");
    let shown = story(&page, &traced);
    assert!(shown.contains(&link) && shown.contains("→ open trace"), "{shown}");
    assert!(!story(&page, &other).contains("open trace"), "what is no context leads nowhere");
    home.write(
        "pillarbox.toml",
        "[admin]\ntrace_url = \"https://ana:hunter2@traces.example.com/{trace_id}\"\n",
    );
    let said = home.run(["dashboard"]);
    said.refused(2, &["admin.trace_url", "{trace_id} once"]);
    assert!(!said.stderr.contains("hunter2"), "{said:?}");
}
