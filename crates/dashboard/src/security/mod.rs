//! Who may ask for what: hosts, tokens, sessions, origins, and the headers of every answer.

mod client;
mod failures;
mod guard;
mod headers;
mod host;
mod origin;
mod sessions;

pub(crate) use client::client_of;
pub(crate) use failures::Failures;
pub(crate) use guard::{Visitor, authenticate, guard_changes, role_of, urlencode};
pub(crate) use headers::{add_headers, limit_time};
pub(crate) use host::check_host;
pub(crate) use origin::is_same_origin;
pub(crate) use sessions::{COOKIE, LIFETIME, Sessions, cookie_of};
