//! Wrong tokens: each client waits for its own, and a right token is never refused.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use pillarbox_dashboard::{Access, DashboardOptions, Peer, Token};

use crate::counting::Counting;
use crate::served::{Served, from};

const PROXY: &str = "10.0.0.1";
const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn guarded(behind_proxy: bool) -> Served {
    let mut options = DashboardOptions::default();
    options.access = Access::Tokens { operator: Some(Token::new(TOKEN).unwrap()), viewer: None };
    options.behind_proxy = behind_proxy;
    Served::with(Counting::default(), options)
}

/// What a client is told that shows this token through the proxy.
async fn shown(page: &Served, forwarded_for: &str, token: &str) -> StatusCode {
    let bearer = format!("Bearer {token}");
    let headers = [("x-forwarded-for", forwarded_for), ("authorization", bearer.as_str())];
    page.ask(from(PROXY, &headers)).await.status
}

#[tokio::test]
async fn behind_a_proxy_a_client_waits_for_its_own_wrong_tokens_only() {
    let page = guarded(true);
    for n in 0..10 {
        // What stands before the last address is the client's own word.
        let forwarded = format!("192.0.2.{n}, 203.0.113.9");
        assert_eq!(shown(&page, &forwarded, "wrong").await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(shown(&page, "203.0.113.9", "wrong").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(shown(&page, "203.0.113.9, 192.0.2.7", "wrong").await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn without_a_trusted_proxy_wrong_tokens_are_counted_by_the_peer_whatever_a_header_says() {
    let page = guarded(false);
    for n in 0..10 {
        assert_eq!(shown(&page, &format!("192.0.2.{n}"), "wrong").await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(shown(&page, "203.0.113.9", "wrong").await, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_right_token_is_taken_however_many_wrong_ones_came_from_the_same_address() {
    let page = guarded(false);
    for _ in 0..20 {
        shown(&page, "", "wrong").await;
    }
    assert_eq!(shown(&page, "", "wrong").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(shown(&page, "", TOKEN).await, StatusCode::OK);
    let log_in = |token: &str| {
        let form = Request::post("/login")
            .header("host", "localhost")
            .header("content-type", "application/x-www-form-urlencoded");
        let mut request = form.body(Body::from(format!("token={token}&name=ana"))).unwrap();
        request.extensions_mut().insert(Peer(PROXY.parse().unwrap()));
        request
    };
    let refused = page.ask(log_in("wrong")).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    refused.says(&["too many wrong tokens"]);
    assert_eq!(page.ask(log_in(TOKEN)).await.status, StatusCode::SEE_OTHER);
}
