//! The URL of a webhook: where to connect to, and what to ask for there.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use http::HeaderValue;
use http::uri::PathAndQuery;
use pillarbox_core::{Entry, Error, Outcome, Result, Template};
use rustls::pki_types::ServerName;
use url::{Host, Url};

use crate::address::special;
use crate::options::Options;

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// An endpoint that was checked as far as it can be without asking for the host's address.
///
/// Scheme, host and port are the same for every entry: `{type}`, `{key}` and `{route}` are allowed in path and query
/// only, so no entry can choose whom we talk to. Its `Debug` and `Display` show neither path nor query: many
/// providers write a token there.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) tls: bool,
    /// As it stands in the URL: what is looked up, or an address.
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// The `Host` header.
    pub(crate) authority: HeaderValue,
    target: Template,
}

impl Endpoint {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let (origin, target) = split(url)?;
        let parsed = Url::parse(origin)
            .map_err(|error| invalid(&format!("the host or port cannot be read ({error})")))?;
        let host = parsed.host().ok_or_else(|| invalid("it has no host"))?.to_owned();
        let tls = parsed.scheme() == "https";
        let port = parsed.port_or_known_default().unwrap_or(if tls { 443 } else { 80 });
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(invalid("it must not contain credentials; sign with a secret instead"));
        }
        let shown = match parsed.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        let authority = HeaderValue::try_from(shown).map_err(|_| invalid("the host cannot be read"))?;
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let target: Template = target.parse()?;
        check_target(&target)?;
        Ok(Self { tls, host, port, authority, target })
    }

    /// Refuses at once what no answer of a name server could make right.
    pub(crate) fn check(&self, options: &Options) -> Result<()> {
        if !options.allow_private && !options.ports.contains(&self.port) {
            let ports: Vec<_> = options.ports.iter().map(u16::to_string).collect();
            return Err(Error::invalid(format!(
                "{self}: only port {} is allowed for webhooks. Add the port to `ports`, or allow private \
                 endpoints (allow_private)",
                ports.join(" or ")
            )));
        }
        if !self.tls && !options.allow_http && !options.allow_private {
            return Err(Error::invalid(format!(
                "{self}: http is not encrypted. Use https, or allow http with allow_http (in a private \
                 network with allow_private)"
            )));
        }
        let known = self.literal().or_else(|| self.is_localhost().then_some(Ipv4Addr::LOCALHOST.into()));
        known.map_or(Ok(()), |address| self.check_address(address, options).map_err(Error::invalid))
    }

    /// Whether it is a name that always means this machine.
    fn is_localhost(&self) -> bool {
        let Host::Domain(name) = &self.host else { return false };
        let name = name.trim_end_matches('.');
        name == "localhost" || name.ends_with(".localhost")
    }

    /// Refuses an address that this endpoint may not have, and says what would allow it.
    pub(crate) fn check_address(&self, address: IpAddr, options: &Options) -> Result<(), String> {
        match special(address) {
            Some(what) if !options.allow_private => Err(format!(
                "{self}: the address is not on the public internet ({what}). Allow private addresses with \
                 allow_private"
            )),
            None if !self.tls && !options.allow_http => Err(format!(
                "{self}: allow_private allows http in private networks only, and this address is public. Use \
                 https, or allow http with allow_http"
            )),
            _ => Ok(()),
        }
    }

    /// The address, if the URL says it.
    pub(crate) fn literal(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Ipv4(address) => Some((*address).into()),
            Host::Ipv6(address) => Some((*address).into()),
            Host::Domain(_) => None,
        }
    }

    /// Whom the certificate has to be for.
    pub(crate) fn server_name(&self) -> Result<ServerName<'static>> {
        let name = match &self.host {
            Host::Domain(name) => ServerName::try_from(name.clone()).ok(),
            Host::Ipv4(_) | Host::Ipv6(_) => self.literal().map(ServerName::from),
        };
        name.ok_or_else(|| invalid("the host is not a name that a certificate can have"))
    }

    /// Whether every entry goes to the same path.
    pub(crate) fn is_constant(&self) -> bool {
        self.target.constant().is_some()
    }

    /// What to ask for. An entry cannot leave its place in the path: everything special in its type, key or route is
    /// encoded.
    pub(crate) fn target(&self, entry: &Entry) -> Result<PathAndQuery, Outcome> {
        let refused =
            || Outcome::rejected("invalid_path", "the type, key or route cannot be part of the URL's path");
        let rendered = self.target.render_with(entry, encode);
        if climbs(&rendered) {
            return Err(refused());
        }
        PathAndQuery::try_from(rendered).map_err(|_| refused())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority.to_str().unwrap_or_default())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn invalid(why: &str) -> Error {
    Error::invalid(format!("the URL of the webhook is wrong: {why}"))
}

/// Cuts a URL into what says whom to talk to and what to ask for. The parser of URLs only sees the first part: it
/// would rewrite the places in the second.
fn split(url: &str) -> Result<(&str, &str)> {
    if url.len() > URL_BYTES_MAX {
        return Err(Error::too_large(format!(
            "the URL has {} bytes; at most {URL_BYTES_MAX} are allowed",
            url.len()
        )));
    }
    let known = ["https://", "http://"];
    let scheme = known
        .into_iter()
        .find(|scheme| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let scheme = scheme.ok_or_else(|| invalid("it must begin with https:// or http://"))?;
    let end = url[scheme.len()..].find(['/', '?', '#']).map_or(url.len(), |at| at + scheme.len());
    let (origin, target) = url.split_at(end);
    if origin.contains(['{', '}']) {
        return Err(invalid("placeholders like {type} are allowed in its path and query only"));
    }
    // A parser of URLs takes a backslash for a slash and drops line breaks: what it saw would not be what we saw.
    if url.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(invalid("it must not contain blanks, backslashes or control characters"));
    }
    if target.contains('#') {
        return Err(invalid("it must not have a fragment (#…), which is never sent"));
    }
    Ok((origin, target))
}

fn check_target(target: &Template) -> Result<()> {
    let filled = ["{type}", "{key}", "{route}"]
        .iter()
        .fold(target.to_string(), |text, place| text.replace(place, "x"));
    if climbs(&filled) {
        return Err(invalid("`.` and `..` are not allowed in its path"));
    }
    match PathAndQuery::try_from(filled) {
        Ok(_) if target.to_string().is_ascii() => Ok(()),
        _ => Err(invalid("a character in its path or query must be percent-encoded")),
    }
}

/// Whether a part of the path is `.` or `..`, in any spelling: some servers resolve it after they checked the path.
fn climbs(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    path.split('/').any(|part| {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        part == "." || part == ".."
    })
}

/// Leaves only what means nothing in a URL.
fn encode(text: &str) -> Cow<'_, str> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    if text.as_bytes().iter().all(plain) {
        return Cow::Borrowed(text);
    }
    let encoded = text
        .bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    Cow::Owned(encoded.collect())
}

#[cfg(test)]
mod tests;
