//! I-16: what is planted in a payload, a header, a destination's URL and its answer is in no output that did not ask for it.

use std::io::{BufRead as _, BufReader};

use super::Page;
use super::hook::{answer, hook};
use crate::home::{Home, eventually};

const PAYLOAD: &str = "canary-payload-4242";
const HEADER: &str = "canary-header-4242";
const URL: &str = "canary-url-4242";
const ANSWER: &str = "canary-answer-4242";

/// A webhook that refuses every message and says too much about it.
fn talkative() -> u16 {
    hook(|body| {
        let said = format!("password={ANSWER}: {body}");
        answer(&format!("422 {ANSWER}\r\nx-why: {ANSWER}"), &said)
    })
}

#[test]
fn a_secret_in_payload_header_url_or_answer_is_in_no_output_that_did_not_ask_for_it() {
    let home = Home::migrated();
    let to = format!("http://127.0.0.1:{}/hook?token={URL}", talkative());
    home.write("pillarbox.toml", &format!("[routes.mail]\nto = \"{to}\"\nallow_private = true\n"));
    let payload = format!("{{\"card\": \"{PAYLOAD}\"}}");
    let header = format!("x-session={HEADER}");
    home.ok([
        "stage",
        "--route",
        "mail",
        "--type",
        "mail.send",
        "--key",
        "k",
        "--payload",
        &payload,
        "--header",
        &header,
    ]);
    let mut relay = home.start_logged("relay.log", ["relay"]);
    let page = Page::serve(&home, &["--allow-actions"]);
    page.until("it is dead", |status| status["routes"][0]["dead"] == 1);
    let entry = page.get("/api/v1/entries").json()["entries"][0].clone();
    assert!(entry["last_error"].as_str().unwrap().contains("answered 422"), "{entry}");
    let id = entry["event_id"].as_str().unwrap();

    let paths = [
        "/",
        "/routes/mail",
        "/entries",
        "/entries?status=dead",
        "/dead",
        "/sagas",
        "/relays",
        "/inbox",
        "/audit",
        "/doctor",
        "/metrics",
        "/readyz",
        "/api/v1/status",
        "/api/v1/routes",
        "/api/v1/routes/mail",
        "/api/v1/routes/mail/waits",
        "/api/v1/routes/mail/lanes",
        "/api/v1/entries",
        "/api/v1/groups",
        "/api/v1/sagas",
        "/api/v1/relays",
        "/api/v1/inbox",
        "/api/v1/audit",
        "/api/v1/openapi.json",
    ];
    let mut said: Vec<(String, String)> =
        paths.iter().map(|path| ((*path).to_owned(), page.get(path).says(200, &[]).body.clone())).collect();
    for view in ["overview", "route&route=mail", "dead", "relays"] {
        let stream = page.ask("GET", &format!("/live?view={view}")).open();
        let look =
            BufReader::new(stream).lines().map_while(Result::ok).find(|line| line.starts_with("data:"));
        said.push((format!("/live?view={view}"), look.expect("a look")));
    }
    for args in [vec!["list"], vec!["status", "--json"], vec!["doctor", "--json"], vec!["config", "show"]] {
        let ran = home.run(&args);
        said.push((args.join(" "), ran.stdout + &ran.stderr));
    }
    relay.signal("TERM");
    eventually("the relay ends", || relay.has_ended());
    said.extend(["relay.log", "dashboard.log"].map(|log| (log.to_owned(), home.read(log))));
    for (place, text) in &said {
        for secret in [PAYLOAD, HEADER, URL, ANSWER] {
            assert!(!text.contains(secret), "{secret} is in {place}: {text}");
        }
    }

    // Whoever asks for one entry gets its headers, and its payload when that is asked for.
    let (shown, detail) = (page.get(&format!("/entries/{id}")), page.get(&format!("/api/v1/entries/{id}")));
    for answer in [&shown, &detail] {
        assert!(answer.body.contains(HEADER), "{answer:?}");
        for secret in [PAYLOAD, URL, ANSWER] {
            assert!(!answer.body.contains(secret), "{secret}: {answer:?}");
        }
    }
    page.get(&format!("/api/v1/entries/{id}?payload=true")).says(200, &[PAYLOAD]);
    page.get(&format!("/api/v1/entries/{id}/payload")).says(200, &[PAYLOAD]);
}
