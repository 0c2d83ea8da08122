//! Secrets in URLs: the password, and values in the query.

use super::{MASK, name};

pub(super) fn pass(url: &str) -> String {
    let (scheme, rest) = match url.find("://") {
        Some(at) => url.split_at(at + 3),
        None => ("", url),
    };
    let mut out = String::with_capacity(url.len() + MASK.len());
    out.push_str(scheme);
    let rest = userinfo(scheme, rest, &mut out);
    let query = rest.find(['?', '#']).unwrap_or(rest.len());
    out.push_str(&rest[..query]);
    self::query(&rest[query..], &mut out);
    out
}

/// Like [`pass`], for a URL that was refused. The text before its `@` may be anything, so all of it is masked.
pub(super) fn refused(url: &str) -> String {
    let Some(end) = url.rfind('@') else { return pass(url) };
    let scheme = url.find("://").map_or("", |at| &url[..at + 3]);
    let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.:/".contains(&byte));
    let shown = if is_scheme && scheme.len() <= end { scheme } else { "" };
    let mut out = format!("{shown}{MASK}");
    let rest = &url[end..];
    let query = rest.find(['?', '#']).unwrap_or(rest.len());
    out.push_str(&rest[..query]);
    self::query(&rest[query..], &mut out);
    out
}

/// Writes the user and a mask for the password, if there is one. Returns the rest of the URL.
pub(super) fn userinfo<'a>(scheme: &str, rest: &'a str, out: &mut String) -> &'a str {
    let scheme = scheme.trim_end_matches("://");
    let scheme = scheme.strip_suffix("+core").unwrap_or(scheme);
    let is = |name: &str| scheme.eq_ignore_ascii_case(name);
    let http = scheme.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("http"));
    // The last `@` ends the password, even when it stands in what a parser would take for path or query:
    // people forget to escape `@`, `/` and `?` in passwords.
    if let Some(end) = rest.rfind('@')
        && let Some(colon) = rest[..end].find(':')
    {
        let (user, password) = (&rest[..=colon], &rest[colon + 1..end]);
        // Over HTTP, a user with an empty password is an API key.
        out.push_str(if http && password.is_empty() { "" } else { user });
        out.push_str(MASK);
        return &rest[end..];
    }
    // So is a user without a password, and to NATS it is a token. To a database it is a name that people want to see.
    let authority = rest.find(['/', '?', '#', '"']).unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(end) if http || is("nats") || is("tls") => {
            out.push_str(MASK);
            &rest[end..]
        }
        _ => rest,
    }
}

/// Writes the query and the fragment with secret values masked. Only `&` surely ends a value: a `?` or `#` in it
/// may be part of a secret that was not escaped.
fn query(mut rest: &str, out: &mut String) {
    while !rest.is_empty() {
        let part = rest.find(['?', '#', '&']).map_or(rest.len(), |at| at + 1);
        let value =
            rest[..part].find('=').map(|at| at + 1).filter(|at| name::is_secret_in_query(&rest[..at - 1]));
        let end = rest.find('&').unwrap_or(rest.len());
        match value.filter(|at| *at < end) {
            Some(at) => {
                out.push_str(&rest[..at]);
                out.push_str(MASK);
                rest = &rest[end..];
            }
            None => {
                out.push_str(&rest[..part]);
                rest = &rest[part..];
            }
        }
    }
}
