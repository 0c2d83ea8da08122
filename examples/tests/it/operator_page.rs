//! The operator's page inside a service with a sign-in of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use crate::services::Service;

const ANA: &str = "cookie: other=1; shop-session=session-of-ana\r\n";

/// A request with these lines of headers, and its whole answer.
fn ask(address: &str, method: &str, path: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[track_caller]
fn says(answer: &str, status: u16, words: &str) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(words),
        "{words:?}: {answer}"
    );
}

#[test]
fn the_page_inside_a_service_is_for_those_who_are_signed_in_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_operator-page"));
    command.arg(folder.path().join("shop.db")).arg("127.0.0.1:0");
    let service = Service::run(&mut command);
    let said = service.says();
    let address = said.strip_prefix("the shop is at http://").unwrap().trim_end_matches('/');
    let get = |path: &str, headers: &str| ask(address, "GET", path, headers, "");
    says(&get("/", ""), 200, "the shop");
    says(&ask(address, "POST", "/orders/o-1", "", ""), 201, "");

    for path in ["/ops/outbox", "/ops/outbox/", "/ops/outbox/api/v1/status", "/ops/outbox/livez"] {
        says(&get(path, ""), 401, "sign in to the shop first");
        says(&get(path, ANA), 200, "");
    }
    let page = get("/ops/outbox/", ANA);
    says(&page, 200, "href=\"/ops/outbox/assets/page.css\"");
    assert!(page.contains("data-may-act=\"true\""), "{page}");
    says(&get("/ops/outbox/assets/page.js", ANA), 200, "content-type: text/javascript");
    says(&get("/ops/outbox/entries", ANA), 200, "order.placed");

    let pause = |headers: &str| {
        let path = "/ops/outbox/api/v1/routes/orders/pause";
        ask(address, "POST", path, &format!("{headers}content-type: application/json\r\n"), "{}")
    };
    says(&pause("pillarbox-actor: ana\r\n"), 401, "sign in");
    says(&pause(ANA), 403, "pillarbox-actor");
    says(&pause(&format!("{ANA}pillarbox-actor: x\r\nsec-fetch-site: cross-site\r\n")), 403, "another site");
    // The audit trail has the name of the session, whatever the page says.
    says(&pause(&format!("{ANA}pillarbox-actor: mallory\r\n")), 200, "orders was paused by ana");
    service.stop();
}
