//! Each rule of who may ask for what, over real connections.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use super::browser::url;
use super::everything::Everything;
use super::http::Asked;
use super::{OPERATOR, Page, VIEWER, bury, guarded, ids};
use crate::home::Home;

#[test]
fn an_address_of_other_machines_is_refused_without_token_or_tls() {
    let home = Home::migrated();
    home.run(["dashboard", "--listen", "0.0.0.0:0"])
        .refused(2, &["a token is needed", "openssl rand -hex 32"]);
    let home = guarded();
    home.run(["dashboard", "--listen", "0.0.0.0:0"]).refused(2, &["plain text", "--behind-proxy"]);
    home.write("pillarbox.toml", "[admin]\ntoken = \"short-canary\"\n");
    let said = home.run(["dashboard"]);
    said.refused(2, &["admin.token", "openssl rand -hex 32"]);
    assert!(!said.stderr.contains("short-canary"), "{said:?}");
}

#[test]
fn without_a_token_nothing_is_shown_but_health() {
    let home = guarded();
    let page = Page::serve(&home, &[]);
    page.get("/livez").says(200, &[]);
    page.get("/readyz").says(200, &[]);
    let paths = [
        "/",
        "/entries",
        "/dead",
        "/api/v1/status",
        "/api/v1/openapi.json",
        "/metrics",
        "/live",
        "/nowhere",
        // What only looks like a path that is open.
        "//livez",
        "/livez/",
        "/livez/x",
        "/%6civez",
        "/x/../livez",
        "/livez%2f",
        "/api/v1/status?/livez",
        "/readyz/..",
        "/assets/../api/v1/status",
        "/LIVEZ",
    ];
    for path in paths {
        page.get(path).says(401, &["a token is needed"]);
    }
    for token in ["", "wrong", &OPERATOR[1..], &format!("{OPERATOR}x")] {
        assert_eq!(page.ask("GET", "/api/v1/status").token(token).send().status, 401, "{token}");
    }
    page.ask("GET", "/api/v1/status").token(VIEWER).send().says(200, &[]);
    let sent = page.ask("GET", "/").header("accept", "text/html").send();
    assert_eq!((sent.status, sent.header("location")), (303, "/login?back=%2F"));
}

#[test]
fn a_viewer_may_look_and_only_an_operator_may_act() {
    let home = guarded();
    let dead = bury(&home, "mail", 1);
    let page = Page::serve(&home, &[]);
    let changes = [
        ("/api/v1/entries/requeue", ids(&dead)),
        ("/api/v1/entries/discard", ids(&dead)),
        ("/api/v1/entries/retry", ids(&dead)),
        ("/api/v1/entries/cancel", ids(&dead)),
        ("/api/v1/routes/mail/pause", json!({})),
        ("/api/v1/routes/mail/resume", json!({})),
        ("/api/v1/purge", json!({ "what": "entries", "older_than": "1d", "dry_run": true })),
        ("/api/v1/sagas/00000000-0000-0000-0000-000000000001/retry", json!({})),
    ];
    for (path, body) in &changes {
        let ask = || page.ask("POST", path).header("pillarbox-actor", "ana").json(body);
        ask().send().says(401, &[]);
        ask().token(VIEWER).send().says(403, &["you may look and not act"]);
    }
    let audit = page.ask("GET", "/api/v1/audit").token(VIEWER).send();
    assert_eq!(audit.json()["records"], json!([]), "nothing was done");
    let done = page.ask("POST", "/api/v1/entries/requeue").header("pillarbox-actor", "ana").token(OPERATOR);
    done.json(&ids(&dead)).send().says(200, &["1 entry requeued"]);
}

#[test]
fn without_a_token_everybody_may_look_and_nobody_may_act_unless_it_is_allowed() {
    let home = Home::migrated();
    let dead = bury(&home, "mail", 1);
    let page = Page::serve(&home, &[]);
    page.get("/api/v1/status").says(200, &[]);
    page.act("/api/v1/entries/requeue", &ids(&dead)).says(403, &["--allow-actions"]);
    let page = Page::serve(&home, &["--allow-actions"]);
    page.act("/api/v1/entries/requeue", &ids(&dead)).says(200, &["1 entry requeued"]);
}

#[test]
fn a_host_that_is_not_ours_is_refused_on_every_path() {
    let home = guarded();
    let page = Page::serve(&home, &[]);
    for path in ["/", "/livez", "/readyz", "/login", "/assets/page.js", "/api/v1/status"] {
        for host in ["evil.example.com", "127.0.0.1.evil.com", "localhost.evil.com:80"] {
            page.ask("GET", path).header("host", host).send().says(421, &["not known by that name"]);
        }
    }
    for host in ["localhost", "127.0.0.1:1", "[::1]", "ops.example.com", "OPS.example.com:443"] {
        page.ask("GET", "/livez").header("host", host).send().says(200, &[]);
    }
}

#[test]
fn a_change_from_another_site_or_without_our_header_is_refused() {
    let home = guarded();
    let dead = bury(&home, "mail", 1);
    let page = Page::serve(&home, &[]);
    let ask = || page.ask("POST", "/api/v1/entries/requeue").token(OPERATOR).json(&ids(&dead));
    ask().send().says(403, &["pillarbox-actor"]);
    let ask = || ask().header("pillarbox-actor", "ana");
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example.com"),
        ("origin", "null"),
    ] {
        ask().header(name, value).send().says(403, &["another site"]);
    }
    let form = page.ask("POST", "/api/v1/entries/requeue").token(OPERATOR).header("pillarbox-actor", "ana");
    assert_eq!(form.body("ids=1", "application/x-www-form-urlencoded").send().status, 415);
    assert_eq!(page.ask("GET", "/api/v1/entries/requeue").token(OPERATOR).send().status, 400);
    assert_eq!(page.ask("GET", "/api/v1/audit").token(OPERATOR).send().json()["records"], json!([]));
    ask().header("sec-fetch-site", "same-origin").send().says(200, &["1 entry requeued"]);
}

#[test]
fn a_session_is_a_strict_cookie_that_ends_and_is_not_the_token() {
    let home = guarded();
    let dead = bury(&home, "mail", 1);
    let page = Page::serve(&home, &[]);
    let log_in = |token: &str, back: &str| {
        let form = format!("token={token}&name=ana&back={back}");
        page.ask("POST", "/login").body(&form, "application/x-www-form-urlencoded").send()
    };
    log_in("wrong", "").says(401, &["the token is wrong"]);
    let answer = log_in(OPERATOR, "%2Fdead");
    assert_eq!((answer.status, answer.header("location")), (303, "/dead"));
    for away in ["https%3A%2F%2Fevil.example.com", "%2F%2Fevil.example.com", "%2F%5Cevil.example.com"] {
        assert_eq!(log_in(OPERATOR, away).header("location"), "/", "{away}");
    }
    let cookie = answer.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(OPERATOR), "{cookie}");
    let session = cookie.split(';').next().unwrap().to_owned();
    let with = |method, path: &str| page.ask(method, path).header("cookie", &session);
    with("GET", "/dead").send().says(200, &["ana (operator)", "log out"]);
    // A browser always says where a change comes from.
    let change =
        || with("POST", "/api/v1/entries/requeue").header("pillarbox-actor", "bob").json(&ids(&dead));
    change().send().says(403, &["does not say which page"]);
    let done = change().header("sec-fetch-site", "same-origin").send();
    assert_eq!(done.says(200, &[]).json()["actor"], "ana", "the session's name counts");
    with("POST", "/logout").send().says(403, &[]);
    assert_eq!(with("POST", "/logout").header("sec-fetch-site", "same-origin").send().status, 204);
    with("GET", "/dead").send().says(401, &[]);
}

#[test]
fn behind_a_proxy_with_tls_the_cookie_is_secure() {
    let home = guarded();
    let page = Page::serve(&home, &["--behind-proxy"]);
    let form = format!("token={VIEWER}&name=ana");
    let answer = page.ask("POST", "/login").body(&form, "application/x-www-form-urlencoded").send();
    assert!(answer.header("set-cookie").ends_with("; Secure"), "{answer:?}");
}

#[test]
fn many_wrong_tokens_make_an_address_wait_and_a_right_one_still_passes() {
    let home = guarded();
    let page = Page::serve(&home, &[]);
    for _ in 0..10 {
        page.ask("GET", "/api/v1/status").token("wrong").send().says(401, &[]);
    }
    let refused = page.ask("GET", "/api/v1/status").token("wrong").send();
    assert_eq!(refused.says(429, &["too many wrong tokens"]).header("retry-after"), "60");
    page.get("/livez").says(200, &[]);
    page.ask("GET", "/api/v1/status").token(OPERATOR).send().says(200, &[]);
}

#[test]
fn behind_a_proxy_each_client_waits_for_its_own_wrong_tokens() {
    let home = guarded();
    let page = Page::serve(&home, &["--behind-proxy"]);
    let ask = |client: &str| {
        page.ask("GET", "/api/v1/status").header("x-forwarded-for", client).token("wrong").send()
    };
    // What a client writes itself stands before the address that the proxy appends.
    for n in 0..10 {
        ask(&format!("198.51.100.{n}, 203.0.113.9")).says(401, &[]);
    }
    ask("192.0.2.7, 203.0.113.9").says(429, &["too many wrong tokens"]);
    ask("203.0.113.9, 192.0.2.7").says(401, &["the token is wrong"]);
}

#[test]
fn every_answer_has_the_headers_of_a_strict_policy() {
    let home = guarded();
    let page = Page::serve(&home, &[]);
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                  frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
    for path in ["/livez", "/login", "/assets/page.js", "/api/v1/status", "/nowhere"] {
        let answer = page.get(path);
        assert_eq!(answer.header("content-security-policy"), policy, "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
        let is_asset = path.starts_with("/assets/");
        assert_eq!(answer.header("cache-control").contains("no-store"), !is_asset, "{path}");
    }
}

#[test]
fn no_page_has_inline_script_or_style() {
    let all = Everything::new();
    let nowhere = ("nowhere", url(&all.page, "/nowhere"));
    for (name, address) in all.views().into_iter().chain([nowhere]) {
        let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let asked = Asked::new(host, "GET", &format!("/{path}")).header("accept", "text/html");
        let body = asked.send().body;
        assert!(body.starts_with("<!DOCTYPE html>"), "{name}: {body}");
        assert!(!body.contains(" style=") && !body.contains("<style"), "{name}: {body}");
        assert!(!body.contains(" onclick=") && !body.contains("javascript:"), "{name}: {body}");
        assert_eq!(body.matches("<script").count(), body.matches("<script src=").count(), "{name}");
        assert!(!body.contains("https://"), "{name}: {body}");
    }
}

#[test]
fn what_is_hostile_is_shown_as_text() {
    let home = Home::migrated();
    let hostile = "<img src=x onerror=alert(1)>\"'&";
    home.ok([
        "stage",
        "--route",
        hostile,
        "--type",
        hostile,
        "--key",
        hostile,
        "--payload",
        "{\"a\":\"</script>\"}",
    ]);
    let page = Page::serve(&home, &["--allow-actions"]);
    page.until("the route is seen", |status| status["routes"][0]["pending"] == 1);
    let id = page.get("/api/v1/entries").json()["entries"][0]["event_id"].as_str().unwrap().to_owned();
    let route: String = hostile.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let paths = [
        "/",
        "/entries",
        &format!("/entries/{id}"),
        &format!("/routes/{route}"),
        &format!("/entries?key={route}"),
    ];
    for path in paths {
        let answer = page.get(path);
        answer.says(200, &["&lt;img src=x onerror=alert(1)&gt;"]);
        assert!(!answer.body.contains("<img src=x"), "{path}: {}", answer.body);
    }
    let payload = page.get(&format!("/api/v1/entries/{id}/payload"));
    assert_eq!(payload.header("content-type"), "application/octet-stream");
    assert!(payload.header("content-disposition").starts_with("attachment"));
}

#[test]
fn secrets_of_the_configuration_are_in_no_answer_and_no_log() {
    let home = guarded();
    let config = home.read("pillarbox.toml")
        + "[routes.orders]\nto = \"nats://canary-token@127.0.0.1:9/orders\"\n[database]\nurl = \"sqlite://pillarbox.db\"\n";
    home.write("pillarbox.toml", &config);
    let page = Page::serve(&home, &[]);
    for path in ["/", "/routes/orders", "/api/v1/status", "/api/v1/routes", "/readyz", "/relays", "/audit"] {
        let body = page.ask("GET", path).token(OPERATOR).send().body;
        for secret in ["canary-token", OPERATOR, VIEWER] {
            assert!(!body.contains(secret), "{path}: {body}");
        }
    }
    let said = home.ok(["config", "show"]);
    let log = home.read("dashboard.log");
    for secret in ["canary-token", OPERATOR, VIEWER] {
        assert!(!said.stdout.contains(secret) && !log.contains(secret), "{said:?} {log}");
    }
}

#[test]
fn what_is_too_large_or_too_much_is_refused() {
    let home = Home::migrated();
    let page = Page::serve(&home, &["--allow-actions"]);
    page.get("/api/v1/entries?limit=501").says(400, &["1 to 500"]);
    page.get("/api/v1/entries?limit=0").says(400, &[]);
    page.get("/api/v1/entries?nonsense=1").says(400, &["nonsense"]);
    page.get("/api/v1/audit?limit=1001").says(400, &["1 to 1000"]);
    page.get(&format!("/api/v1/entries?key={}", "k".repeat(300))).says(400, &["255"]);
    let many: Vec<String> = (0..1001).map(|_| uuid::Uuid::nil().to_string()).collect();
    page.act("/api/v1/entries/requeue", &ids(&many)).says(400, &["1 to 1000 ids"]);
    let huge = json!({ "reason": "x".repeat(70_000) });
    assert_eq!(page.act("/api/v1/routes/r/pause", &huge).status, 413);
    let long = page.ask("GET", "/livez").header("x-long", &"x".repeat(100_000)).send();
    assert_eq!(long.status, 431);
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_out() {
    let home = Home::migrated();
    let page = Page::serve(&home, &[]);
    let mut silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&page.address).unwrap()).collect();
    for stream in &mut silent {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: local").unwrap();
    }
    page.get("/livez").says(200, &[]);
    // Each is told so, or simply closed, after ten seconds.
    silent[0].set_read_timeout(Some(crate::home::PATIENCE)).unwrap();
    let mut rest = Vec::new();
    silent[0].read_to_end(&mut rest).unwrap();
}

#[test]
fn a_page_works_under_a_prefix_that_a_proxy_strips_or_not() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[admin]\nprefix = \"/pillarbox\"\n");
    let page = Page::serve(&home, &[]);
    for path in ["/pillarbox", "/pillarbox/", "/"] {
        page.get(path).says(200, &["href=\"/pillarbox/assets/page.css\"", "href=\"/pillarbox/entries\""]);
    }
    page.get("/pillarbox/livez").says(200, &[]);
    page.get("/pillarbox/assets/page.js").says(200, &[]);
    page.get("/pillarboxes/livez").says(404, &[]);
}
