//! Destinations are URLs: where a route delivers to.

mod broker;
mod origin;
mod reach;
mod sink;
mod transcript;
mod webhook;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use pillarbox_core::{Error, ErrorKind, Result, RouteName, redact_refused_url, redact_url};
use serde::{Deserialize, Deserializer};

use broker::Broker;

pub use origin::Origin;
pub(crate) use reach::reach;
pub use sink::Sinks;
pub(crate) use transcript::Readable;
pub use webhook::Webhook;
pub(crate) use webhook::{PORTS_DEFAULT, Secret};

/// What can be written here now.
const KNOWN: &str = "file:PATH, stdout:, null:, amqp(s)://…, kafka(s)://…, mqtt(s)://…, nats://…, redis(s)://…, sqs://…, http(s)://…, \
                     or, where the server keeps nothing, mqtt+qos0://…, nats+core://… and redis+pubsub://…";

/// The URL of a broker or webhook. Its password is never printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrokerUrl(String);

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact_url(&self.0))
    }
}

impl BrokerUrl {
    /// What can be done with it.
    fn ends(&self) -> Result<broker::Ends> {
        let scheme = self.0.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let broker = Broker::of_scheme(&scheme);
        broker.ok_or_else(|| Error::new(ErrorKind::Internal, "the URL of no broker"))?.ends()
    }
}

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a route delivers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// `file:path.ndjson`: CloudEvents JSON, one object a line, appended. `{route}` in it is the route's name.
    File(String),
    /// `stdout:`: the same, on this process's stdout.
    Stdout,
    /// `null:`: confirmed and forgotten.
    Null,
    /// A broker, such as `amqp://host/vhost?exchange=`, `nats://host/subject` or `redis://host/db?stream=`.
    Broker(BrokerUrl),
    /// `http(s)://…`: a webhook. Whether its address is allowed is checked with the route's other settings.
    Http(BrokerUrl),
}

impl Destination {
    /// The file of a route, if that is what it is.
    pub fn file(&self, route: &RouteName) -> Option<PathBuf> {
        match self {
            Self::File(path) => Some(path.replace("{route}", &path_safe(route.as_str())).into()),
            _ => None,
        }
    }
}

// A route's name is not a path: it must not climb out of the folder that the operator wrote down.
fn path_safe(route: &str) -> String {
    let name: String = route.chars().map(|c| if matches!(c, '/' | '\\') { '_' } else { c }).collect();
    if name.chars().all(|c| c == '.') { name.replace('.', "_") } else { name }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{path}"),
            Self::Stdout => f.write_str("stdout:"),
            Self::Null => f.write_str("null:"),
            Self::Broker(url) | Self::Http(url) => url.fmt(f),
        }
    }
}

impl FromStr for Destination {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let refuse = |why: String| Err(Error::invalid(why));
        let Some((scheme, rest)) = url.split_once(':') else {
            return refuse(format!(
                "{:?} is not a destination: it is not a URL. The known destinations are {KNOWN}",
                redact_refused_url(url)
            ));
        };
        let scheme_lower = scheme.to_ascii_lowercase();
        if let Some(broker) = Broker::of_scheme(&scheme_lower) {
            // A sink checks its URL when it is made, and connects only when it is used.
            return (broker.ends()?.sink)(url).map(|_| Self::Broker(BrokerUrl(url.to_owned())));
        }
        match (scheme_lower.as_str(), rest) {
            ("http" | "https", _) => Ok(Self::Http(BrokerUrl(url.to_owned()))),
            ("file", rest) => file(rest),
            ("stdout", "") => Ok(Self::Stdout),
            ("null", "") => Ok(Self::Null),
            (known @ ("stdout" | "null"), _) => refuse(format!("{known}: must have nothing after the colon")),
            // Without a scheme, what stands before the colon is a user's name.
            _ if url.contains('@') => refuse(format!(
                "{:?} is not a destination: its scheme is unknown. The known destinations are {KNOWN}",
                redact_refused_url(url)
            )),
            _ => refuse(format!("unknown destination scheme {scheme:?}. The known destinations are {KNOWN}")),
        }
    }
}

fn file(rest: &str) -> Result<Destination> {
    let refuse = |why: &str| Err(Error::invalid(why));
    let path = match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(_) => return refuse("file://HOST/PATH is not supported; write file:PATH or file:///PATH"),
        None => rest,
    };
    if path.is_empty() || path.ends_with('/') {
        return refuse("file: needs the path of a file, for example file:events.ndjson");
    }
    if path.contains("{type}") || path.contains("{key}") {
        return refuse("the path of file: may contain {route}, but not {type} or {key}");
    }
    if path.contains('\0') {
        return refuse("file: must not contain a NUL");
    }
    Ok(Destination::File(path.to_owned()))
}

impl<'de> Deserialize<'de> for Destination {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, with: &[&str]) {
        let error = url.parse::<Destination>().unwrap_err().to_string();
        for part in with {
            assert!(error.contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn the_known_ones_are_read_and_printed() {
        for (url, destination) in [
            ("file:out.ndjson", Destination::File("out.ndjson".into())),
            ("file:/var/out.ndjson", Destination::File("/var/out.ndjson".into())),
            ("stdout:", Destination::Stdout),
            ("null:", Destination::Null),
        ] {
            assert_eq!(url.parse::<Destination>().unwrap(), destination);
            assert_eq!(destination.to_string(), url);
        }
        assert_eq!("file:///x".parse::<Destination>().unwrap(), Destination::File("/x".into()));
        assert_eq!("NULL:".parse::<Destination>().unwrap(), Destination::Null);
    }

    #[test]
    fn a_brokers_url_is_checked_at_once_and_its_password_is_not_printed() {
        for url in [
            "amqp://app:canary@h/%2f?exchange=orders&routing_key={type}",
            "kafka://app:canary@h:9092,i/orders.{type}",
            "nats://app:canary@h/orders.{type}",
            "redis://app:canary@h/0?stream=orders",
            "redis+pubsub://app:canary@h?channel=orders",
            "nats+core://canary@h/orders",
            "https://app:canary@h/hooks",
        ] {
            let destination: Destination = url.parse().unwrap();
            assert!(!format!("{destination} {destination:?}").contains("canary"), "{destination}");
        }
        refused("amqp://h/%2f?exchange=orders&ruoting_key=x", &["ruoting_key"]);
        refused("redis://h/0", &["stream"]);
        refused("nats://h/orders.{tpye}", &["{type}"]);
    }

    #[test]
    fn what_is_unknown_or_malformed_says_what_is_allowed() {
        refused("ftp://h", &["unknown destination scheme \"ftp\"", "file:", "stdout:", "null:"]);
        refused("out.ndjson", &["it is not a URL", "file:"]);
        refused("file:", &["path of a file"]);
        refused("file:dir/", &["path of a file"]);
        refused("file://host/x", &["file:PATH"]);
        refused("file:{type}.ndjson", &["{route}"]);
        refused("null:x", &["nothing after the colon"]);
    }

    #[test]
    fn a_route_cannot_climb_out_of_its_folder() {
        let destination: Destination = "file:out/{route}.ndjson".parse().unwrap();
        let path = |route: &str| destination.file(&RouteName::new(route).unwrap()).unwrap();
        assert_eq!(path("orders"), PathBuf::from("out/orders.ndjson"));
        assert_eq!(path("../../etc/x"), PathBuf::from("out/.._.._etc_x.ndjson"));
        let bare: Destination = "file:{route}/x".parse().unwrap();
        assert_eq!(bare.file(&RouteName::new("..").unwrap()).unwrap(), PathBuf::from("__/x"));
    }
}
