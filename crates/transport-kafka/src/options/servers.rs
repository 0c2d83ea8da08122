//! The part of a URL before its path: user, password, and hosts with commas between them, which no URL has otherwise.

use std::fmt;

use pillarbox_core::{Error, Result};
use url::Url;

/// The port of a host that names none.
const PORT_DEFAULT: u16 = 9092;
/// Most hosts of a URL.
const HOSTS_MAX: usize = 32;

/// Where to connect first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Servers {
    pub(crate) tls: bool,
    /// `host:port`, one or more.
    pub(crate) hosts: Vec<String>,
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "kafkas" } else { "kafka" }, self.hosts.join(","))
    }
}

/// A URL, taken apart.
pub(super) struct Parsed {
    pub(super) servers: Servers,
    pub(super) login: Option<(String, String)>,
    /// The same URL with one host and no login: its path and its query.
    pub(super) rest: Url,
}

/// Takes a URL apart. No error shows the URL, which may hold a password.
pub(super) fn parse(url: &str) -> Result<Parsed> {
    let Some((scheme, after)) = url.split_once("://") else {
        return Err(Error::invalid("not a URL: it must begin with kafka:// or kafkas://"));
    };
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "kafka" => false,
        "kafkas" => true,
        _ => {
            return Err(Error::invalid(format!(
                "unknown scheme {scheme:?}; the allowed ones are kafka and kafkas"
            )));
        }
    };
    let end = after.find(['/', '?', '#']).unwrap_or(after.len());
    let (authority, rest) = after.split_at(end);
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(read_login(login)?), hosts),
        None => (None, authority),
    };
    let hosts = hosts.split(',').map(read_host).collect::<Result<Vec<_>>>()?;
    if hosts.len() > HOSTS_MAX {
        return Err(Error::invalid(format!(
            "the URL has {} hosts; at most {HOSTS_MAX} are allowed",
            hosts.len()
        )));
    }
    let rest = Url::parse(&format!("kafka://host{rest}"));
    let rest = rest.map_err(|error| Error::invalid(format!("not a URL: {error}")))?;
    if rest.fragment().is_some() {
        return Err(Error::invalid("the URL must not have a fragment: write a # as %23"));
    }
    Ok(Parsed { servers: Servers { tls, hosts }, login, rest })
}

/// A host with its port.
fn read_host(text: &str) -> Result<String> {
    if text.is_empty() {
        return Err(Error::invalid("the URL has no host, or an empty one between commas"));
    }
    // The parser knows what a host is, and the brackets of IPv6.
    let parsed = Url::parse(&format!("kafka://{text}"));
    let parsed = parsed.map_err(|error| Error::invalid(format!("{text:?} is not a host: {error}")))?;
    let host = parsed.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| Error::invalid(format!("{text:?} is not a host")))?;
    Ok(format!("{host}:{}", parsed.port().unwrap_or(PORT_DEFAULT)))
}

fn read_login(text: &str) -> Result<(String, String)> {
    let decode = |text: &str| decode(text).ok_or_else(|| Error::invalid("the user or password is not UTF-8"));
    let (name, password) = text.split_once(':').unwrap_or((text, ""));
    if name.is_empty() || password.is_empty() {
        return Err(Error::invalid(
            "the URL needs both a user and a password: kafka://user:password@host:9092/…",
        ));
    }
    Ok((decode(name)?, decode(password)?))
}

/// Undoes percent-encoding. `None`: it is malformed, or not UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit =
                || char::from(bytes.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            decoded.push(digit()? << 4 | digit()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}
