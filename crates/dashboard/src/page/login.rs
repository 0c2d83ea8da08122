//! Logging in with a token, and out again.

use std::sync::Arc;

use axum::Form;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{DOCTYPE, Markup, html};
use pillarbox_core::check_name;
use serde::Deserialize;

use crate::error::Refusal;
use crate::security::{COOKIE, LIFETIME, client_of, cookie_of, is_same_origin, role_of};
use crate::serve::Peer;
use crate::shared::Shared;

/// Where to go afterwards.
#[derive(Deserialize)]
pub(crate) struct Back {
    back: Option<String>,
}

/// What someone shows to log in.
#[derive(Deserialize)]
pub(crate) struct Credentials {
    token: String,
    #[serde(default)]
    name: String,
    back: Option<String>,
}

pub(crate) async fn login(State(shared): State<Arc<Shared>>, Query(back): Query<Back>) -> Response {
    if !shared.options.access.needs_token() {
        return Redirect::to(&shared.path("/")).into_response();
    }
    form(&shared, back.back.as_deref(), None).into_response()
}

fn form(shared: &Shared, back: Option<&str>, wrong: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Log in · Pillarbox" }
                link rel="icon" href=(shared.path("/assets/icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(shared.path("/assets/page.css"));
            }
            body.login {
                main {
                    form method="post" action=(shared.path("/login")) {
                        h1 { "Pillarbox" }
                        p { (shared.options.title) }
                        @if let Some(wrong) = wrong { p.notice role="alert" { (wrong) } }
                        label { "Token" input name="token" type="password" required autocomplete="current-password" autofocus maxlength="512"; }
                        label { "Your name, for the audit trail" input name="name" required autocomplete="name" maxlength="100"; }
                        input type="hidden" name="back" value=(back.unwrap_or_default());
                        button.primary type="submit" { "Log in" }
                    }
                }
            }
        }
    }
}

pub(crate) async fn log_in(
    State(shared): State<Arc<Shared>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    Form(shown): Form<Credentials>,
) -> Response {
    if is_same_origin(&headers) == Some(false) {
        let why = "the request comes from a page of another site";
        return Refusal::new(StatusCode::FORBIDDEN, why).into_response();
    }
    let back = shown.back.as_deref();
    let again = |status: StatusCode, why: &str| (status, form(&shared, back, Some(why))).into_response();
    let name = shown.name.trim();
    if check_name("name", name).is_err() {
        return again(StatusCode::BAD_REQUEST, "Give your name: the audit trail says who acted.");
    }
    let from = client_of(&headers, peer.map(|Extension(peer)| peer.0), shared.options.behind_proxy);
    let role = match role_of(&shared, shown.token.trim(), from) {
        Ok(role) => role,
        Err(refusal) => return again(refusal.status, &refusal.message),
    };
    let id = shared.sessions.begin(role, name.to_owned(), shared.clock.now());
    let mut response = Redirect::to(&safe(&shared, back)).into_response();
    set_cookie(&shared, &mut response, &id, LIFETIME.as_secs());
    response
}

/// Only a path of our own: not another site, also not as `//site`.
fn safe(shared: &Shared, back: Option<&str>) -> String {
    let prefix = &shared.options.prefix;
    let is_ours = |back: &&str| {
        back.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.starts_with('/'))
            && !back.starts_with("//")
            && !back.contains(['\\', '\r', '\n', '\t'])
    };
    back.filter(is_ours).map_or_else(|| shared.path("/"), ToOwned::to_owned)
}

fn set_cookie(shared: &Shared, response: &mut Response, id: &str, seconds: u64) {
    let secure = if shared.options.secure { "; Secure" } else { "" };
    let path = shared.path("/");
    let cookie = format!("{COOKIE}={id}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

pub(crate) async fn log_out(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if is_same_origin(&headers) != Some(true) {
        let why = "the request does not come from this page";
        return Refusal::new(StatusCode::FORBIDDEN, why).into_response();
    }
    if let Some(id) = cookie_of(&headers) {
        shared.sessions.end(id);
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&shared, &mut response, "", 0);
    response
}
