//! Who asks, and whether they may change something.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use pillarbox_core::check_name;

use crate::error::Refusal;
use crate::options::{Access, Role};
use crate::security::failures::WINDOW;
use crate::serve::Peer;
use crate::shared::Shared;

use super::client::client_of;
use super::origin::is_same_origin;
use super::sessions::cookie_of;

/// The header that every change needs. A form or an image of another site cannot send it. Its value is the name of the
/// one who acts, for the audit trail.
pub(crate) const ACTOR: &str = "pillarbox-actor";

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) role: Role,
    /// The name in the audit trail. `None`: the request names it, or nobody does.
    pub(crate) name: Option<String>,
    /// Whether there is a session to end.
    pub(crate) has_session: bool,
}

/// Finds out who asks, by session or token, and refuses everybody else.
pub(crate) async fn authenticate(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    match visitor(&shared, request.headers(), peer) {
        Ok(visitor) => {
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED && wants_page(&request) => {
            let back = urlencode(&shared.path(&path_of(request.uri())));
            Redirect::to(&format!("{}?back={back}", shared.path("/login"))).into_response()
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn visitor(shared: &Shared, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Visitor, Refusal> {
    if let Access::Everybody(role) = shared.options.access {
        return Ok(Visitor { role, name: None, has_session: false });
    }
    let now = shared.clock.now();
    if let Some(session) = cookie_of(headers).and_then(|id| shared.sessions.find(id, now)) {
        return Ok(Visitor { role: session.role, name: Some(session.name), has_session: true });
    }
    let Some(shown) = headers.get(header::AUTHORIZATION) else {
        return Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "a token is needed: send `Authorization: Bearer TOKEN`",
        ));
    };
    let shown = shown.to_str().ok().and_then(|value| value.split_once(' '));
    let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let from = client_of(headers, peer, shared.options.behind_proxy);
    let role = role_of(shared, shown.map_or("", |(_, token)| token.trim()), from)?;
    Ok(Visitor { role, name: None, has_session: false })
}

/// The role of a token, with a limit on wrong ones. A right token always passes: it is too long to be guessed, and
/// otherwise anybody who shows wrong ones could lock out all who share their address.
pub(crate) fn role_of(shared: &Shared, token: &str, from: Option<IpAddr>) -> Result<Role, Refusal> {
    if let Some(role) = shared.options.access.role_of(token) {
        return Ok(role);
    }
    let now = shared.clock.now();
    if shared.failures.is_blocked(from, now) {
        return Err(Refusal::new(
            StatusCode::TOO_MANY_REQUESTS,
            format!("too many wrong tokens; try again in {} s", WINDOW.as_secs()),
        ));
    }
    shared.failures.add(from, now);
    Err(Refusal::new(StatusCode::UNAUTHORIZED, "the token is wrong"))
}

/// Refuses a change by someone who may not act, or that does not come from our own page or a program.
pub(crate) async fn guard_changes(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(next.run(request).await);
    }
    let visitor = request.extensions().get::<Visitor>().cloned();
    let Some(visitor) = visitor else {
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "nobody is known to ask"));
    };
    let headers = request.headers();
    match is_same_origin(headers) {
        Some(false) => {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "the request comes from a page of another site, so nothing was changed",
            ));
        }
        // A browser with a session always says where a request comes from.
        None if visitor.has_session => {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "the request does not say which page it comes from, so nothing was changed",
            ));
        }
        Some(true) | None => {}
    }
    let Some(named) = headers.get(ACTOR) else {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            format!("a change needs the header `{ACTOR}` with the name for the audit trail"),
        ));
    };
    let named = named.to_str().unwrap_or_default().trim().to_owned();
    if visitor.role != Role::Operator {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "you may look and not act. Use the operator's token, or start the dashboard with --allow-actions",
        ));
    }
    let name = visitor.name.unwrap_or(named);
    let name = if name.is_empty() { shared.options.actor.clone() } else { name };
    check_name("actor", &name)?;
    request.extensions_mut().insert(Visitor { name: Some(name), ..visitor });
    Ok(next.run(request).await)
}

fn wants_page(request: &Request) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    *request.method() == Method::GET && accept.is_some_and(|accept| accept.contains("text/html"))
}

fn path_of(uri: &Uri) -> String {
    uri.path_and_query().map_or_else(|| "/".to_owned(), |path| path.as_str().to_owned())
}

/// Text as a part of a query.
pub(crate) fn urlencode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
