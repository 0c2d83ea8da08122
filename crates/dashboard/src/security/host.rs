//! Which `Host` a client may ask for. A page of another site that points its own name to this address (DNS rebinding)
//! asks for that name. An address as the host cannot be rebound, so addresses are allowed.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::error::Refusal;
use crate::shared::Shared;

/// Refuses a request for a host that is neither an address, nor `localhost`, nor configured.
pub(crate) async fn check_host(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).or(request.uri().host());
    match host {
        Some(host) if hosts.next().is_none() && is_allowed(host, &shared.options.hosts) => {
            Ok(next.run(request).await)
        }
        _ => Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this server is not known by that name. Add the name to `hosts` of [admin] if it is yours",
        )),
    }
}

fn is_allowed(host: &str, known: &[String]) -> bool {
    let name = name_of(host);
    let is_address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    is_address
        || name.eq_ignore_ascii_case("localhost")
        || known.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_configured_names_are_allowed() {
        let known = ["ops.example.com".to_owned()];
        for (host, allowed) in [
            ("127.0.0.1", true),
            ("127.0.0.1:8025", true),
            ("[::1]:8025", true),
            ("10.0.0.7:80", true),
            ("localhost:1", true),
            ("LOCALHOST", true),
            ("ops.example.com", true),
            ("Ops.Example.com:443", true),
            ("evil.example.com", false),
            ("localhost.evil.com", false),
            ("127.0.0.1.evil.com", false),
            ("ops.example.com.", false),
            ("", false),
            ("ops.example.com@evil.com", false),
        ] {
            assert_eq!(is_allowed(host, &known), allowed, "{host}");
        }
    }
}
