//! Where to publish and what to consume, as a URL says it.

mod topic;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pillarbox_core::{Error, ErrorKind, Result, Template, of_urls, parameters, parse_duration, setters};
use rumqttc::QoS;
use url::Url;

pub(crate) use topic::{escape, publishable};

/// The ports of a URL that names none.
const PORT_DEFAULT: u16 = 1883;
const PORT_DEFAULT_TLS: u16 = 8883;
/// Most messages that a server sends ahead: the largest receive maximum.
const PREFETCH_MAX: u16 = u16::MAX;
/// What a sink's URL may set.
const OF_SINKS: [&str; 5] = ["qos", "source", "connect_timeout", "confirm_timeout", "ca"];
/// What the URL of a sink without acknowledgements may set.
const OF_QOS_0: [&str; 4] = ["source", "connect_timeout", "confirm_timeout", "ca"];
/// What a source's URL may set.
const OF_SOURCES: [&str; 8] =
    ["group", "client_id", "session_expiry", "nack_delay", "prefetch", "parked", "connect_timeout", "ca"];
/// What a transcript's URL may set.
const OF_TRANSCRIPTS: [&str; 2] = ["connect_timeout", "ca"];

/// Settings of a sink or a source: `mqtt://user:password@host:port/topic?name=value&…`.
///
/// `mqtts://` is TLS. A `#` in a topic filter is written `%23`, because a plain one ends a URL. The parameters
/// have the names of the fields.
///
/// `mqtt+qos0://` and `mqtts+qos0://` publish with quality of service 0. The server does not acknowledge it and
/// keeps nothing for a subscriber that is away: it never gets the event.
///
/// ```
/// # use pillarbox_transport_mqtt::Options;
/// let options = Options::of_sink("mqtt://127.0.0.1/orders/{type}?qos=2")?;
/// assert_eq!(options.topic.to_string(), "orders/{type}");
/// assert!(Options::of_sink("mqtt://127.0.0.1/orders?qso=2").is_err());
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    pub(crate) server: Server,
    /// User and password. Never shown.
    pub(crate) login: Option<(String, String)>,
    pub(crate) medium: Medium,
    /// The path of the URL. For a sink it is the topic to publish to, which may contain `{type}`, `{key}` and
    /// `{route}`. For a source it is the filter of the topics to consume, and wildcards are allowed. Default:
    /// none, and both a sink and a source need one.
    pub topic: Template,
    /// The quality of service with which a sink publishes: 1, or 2. Default: 1.
    pub qos: u8,
    /// The `source` attribute of the events that a sink publishes. Default: `pillarbox`.
    pub source: String,
    /// The group in which a source consumes: the members of a group share the messages (`$share/GROUP/…`).
    /// Default: none, the source gets every message.
    pub group: Option<String>,
    /// The name of the session that the server keeps for a source. Sources that run at the same time must have
    /// different names, and a source that restarts needs its old one. Default: none, and a source needs one.
    pub client_id: Option<String>,
    /// How long the server keeps the session of a source that is away, with the messages for it. Default: 7 days.
    pub session_expiry: Duration,
    /// How long a message that was given back waits before it is handed out again. Default: 100 ms.
    pub nack_delay: Duration,
    /// How many unanswered messages the server may send to a source. Default: 64.
    pub prefetch: u16,
    /// The topic to which a source publishes messages that cannot be handled. Default: none, and such a message
    /// is acknowledged with an error and gone.
    pub parked: Option<String>,
    /// How long connecting may take, and each request to the server. Default: 5 s.
    pub connect_timeout: Duration,
    /// How long a confirmation may take. The relay has a deadline of its own, which is shorter by default.
    /// This one is for callers that have no deadline. Default: 60 s.
    pub confirm_timeout: Duration,
    /// A file with the certificates of the authorities to trust. Default: none, the authorities of the system
    /// are trusted.
    pub ca: Option<PathBuf>,
}

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// How a sink publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// The server acknowledges, and keeps the message for subscribers that are away.
    Session,
    /// To the subscribers that are connected at that moment.
    Qos0,
}

of_urls!(Options);

impl Options {
    fn read(url: &str, allowed: &[&str]) -> Result<Self> {
        // The parser's own error is shown without the URL, which holds a password.
        let parsed = Url::parse(url).map_err(|error| Error::invalid(format!("not a URL: {error}")))?;
        let (server, medium) = server(&parsed)?;
        let allowed = match medium {
            Medium::Session => allowed,
            Medium::Qos0 if allowed == OF_SINKS => &OF_QOS_0,
            Medium::Qos0 => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "a message of quality of service 0 is not kept and cannot be acknowledged, so there is nothing to \
                     consume or to read. Subscribe with a client of your own, or consume with a session: mqtt://…",
                ));
            }
        };
        let mut options = Self {
            server,
            login: login(&parsed)?,
            medium,
            topic: path(&parsed)?.parse()?,
            qos: 1,
            source: "pillarbox".into(),
            group: None,
            client_id: None,
            session_expiry: Duration::from_secs(7 * 24 * 3600),
            nack_delay: Duration::from_millis(100),
            prefetch: 64,
            parked: None,
            connect_timeout: Duration::from_secs(5),
            confirm_timeout: Duration::from_secs(60),
            ca: None,
        };
        parameters::read(parsed.query_pairs(), allowed, |name, value| options.set(name, value))?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "qos" => self.qos = parameters::number(value)?,
            "source" => self.source = value.to_owned(),
            "group" => self.group = Some(value.to_owned()),
            "client_id" => self.client_id = Some(value.to_owned()),
            "session_expiry" => self.session_expiry = parse_duration(value)?,
            "nack_delay" => self.nack_delay = parse_duration(value)?,
            "prefetch" => self.prefetch = parameters::number(value)?,
            "parked" => self.parked = Some(value.to_owned()),
            "connect_timeout" => self.connect_timeout = parse_duration(value)?,
            "confirm_timeout" => self.confirm_timeout = parse_duration(value)?,
            _ => self.ca = Some(value.into()),
        }
        Ok(())
    }

    /// Refuses what cannot work, before anything connects.
    pub(crate) fn check(&self) -> Result<()> {
        parameters::more_than_zero([
            ("session_expiry", self.session_expiry),
            ("connect_timeout", self.connect_timeout),
            ("confirm_timeout", self.confirm_timeout),
        ])?;
        if self.qos == 0 {
            return Err(Error::invalid(
                "qos must be 1 or 2. Quality of service 0 loses messages; if that is acceptable, name it in the \
                 scheme: mqtt+qos0://…",
            ));
        }
        if self.qos > 2 {
            return Err(Error::invalid("qos must be 1 or 2"));
        }
        if self.prefetch == 0 {
            return Err(Error::invalid(format!("prefetch must be 1 to {PREFETCH_MAX}")));
        }
        if self.source.is_empty() {
            return Err(Error::invalid("source must not be empty"));
        }
        let parked = self.parked.as_deref();
        parked.map_or(Ok(()), |topic| publishable(topic).map_err(|error| error.context("parked=")))
    }

    /// Refuses what no sink can work with.
    pub(crate) fn check_sink(&self) -> Result<()> {
        self.check()?;
        match self.topic.constant() {
            Some("") => Err(Error::invalid(
                "the topic is missing; write it as the URL's path, for example mqtt://host/orders/{type}",
            )),
            Some(topic) => publishable(topic),
            // What the entry brings is escaped, so only the text between can be wrong.
            None => publishable(&self.topic.to_string()),
        }
    }

    /// Refuses what no source can work with, and gives the filter to subscribe to and the session's name.
    pub(crate) fn check_source(&self) -> Result<(String, &str)> {
        self.check()?;
        let filter = match self.topic.constant() {
            Some("") => Err(Error::invalid(
                "the topic is missing; write it as the URL's path, for example mqtt://host/orders/%23",
            )),
            None => Err(Error::invalid("a source cannot have a placeholder like {type} in its topic")),
            Some(filter) => topic::consumable(filter).map(|()| filter),
        }?;
        let client_id = self.client_id.as_deref().ok_or_else(|| {
            Error::invalid(
                "client_id= is missing; it names the session in which the server keeps messages for this consumer. \
                 Every consumer that runs at the same time needs its own, and the same one after a restart",
            )
        })?;
        pillarbox_core::check_name("client_id", client_id)?;
        let Some(group) = &self.group else { return Ok((filter.to_owned(), client_id)) };
        pillarbox_core::check_name("group", group)?;
        if group.contains(['/', '+', '#']) {
            return Err(Error::invalid(format!("group {group:?} must not contain /, + or #")));
        }
        Ok((format!("$share/{group}/{filter}"), client_id))
    }

    /// The quality of service with which a sink publishes.
    pub(crate) fn publish_qos(&self) -> QoS {
        match (self.medium, self.qos) {
            (Medium::Qos0, _) => QoS::AtMostOnce,
            (Medium::Session, 2) => QoS::ExactlyOnce,
            (Medium::Session, _) => QoS::AtLeastOnce,
        }
    }

    /// The server, as texts for people may name it: no user, no password.
    pub(crate) fn address(&self) -> String {
        let Server { tls, host, port } = &self.server;
        format!("{}://{host}:{port}", if *tls { "mqtts" } else { "mqtt" })
    }
}

setters! {
    impl Options {
        /// Sets the `source` attribute of the events that a sink publishes.
        source: String as into;
        /// Sets the topic to publish to, or the filter of the topics to consume.
        topic: Template;
        /// Sets the quality of service with which a sink publishes.
        qos: u8;
        /// Sets the group in which a source consumes.
        group: String as some_into;
        /// Sets the name of the session that the server keeps for a source.
        client_id: String as some_into;
        /// Sets how long the server keeps the session of a source that is away.
        session_expiry: Duration;
        /// Sets how long a message that was given back waits before it is handed out again.
        nack_delay: Duration;
        /// Sets how many unanswered messages the server may send to a source.
        prefetch: u16;
        /// Sets the topic to which a source publishes messages that cannot be handled.
        parked: String as some_into;
        /// Sets how long connecting may take, and each request to the server.
        connect_timeout: Duration;
        /// Sets how long a confirmation may take.
        confirm_timeout: Duration;
        /// Sets the file with the certificates of the authorities to trust.
        ca: PathBuf as some_into;
    }
}

// By hand, so that no password is ever printed.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("server", &self.address())
            .field("topic", &self.topic.to_string())
            .field("group", &self.group)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

fn server(url: &Url) -> Result<(Server, Medium)> {
    if url.cannot_be_a_base() {
        // What stands before the colon may be a user's name, and is not shown.
        return Err(Error::invalid("not a URL: it must begin with mqtt:// or mqtts://"));
    }
    let (scheme, medium) = match url.scheme().strip_suffix("+qos0") {
        Some(scheme) => (scheme, Medium::Qos0),
        None => (url.scheme(), Medium::Session),
    };
    let tls = match scheme {
        "mqtt" => false,
        "mqtts" => true,
        _ => {
            let scheme = url.scheme();
            return Err(Error::invalid(format!(
                "unknown scheme {scheme:?}; the allowed ones are mqtt and mqtts, each also with +qos0"
            )));
        }
    };
    if url.fragment().is_some() {
        return Err(Error::invalid("the URL must not have a fragment: write a # in a topic as %23"));
    }
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| Error::invalid("the URL has no host"))?.to_owned();
    let port = url.port().unwrap_or(if tls { PORT_DEFAULT_TLS } else { PORT_DEFAULT });
    Ok((Server { tls, host, port }, medium))
}

fn login(url: &Url) -> Result<Option<(String, String)>> {
    let decode = |text: &str| decode(text).ok_or_else(|| Error::invalid("the user or password is not UTF-8"));
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        (name, password) => Ok(Some((decode(name)?, decode(password.unwrap_or_default())?))),
    }
}

fn path(url: &Url) -> Result<String> {
    let path = url.path().strip_prefix('/').unwrap_or(url.path());
    decode(path).ok_or_else(|| Error::invalid("the topic is not UTF-8"))
}

/// Undoes percent-encoding. `None`: it is malformed, or not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    decoded.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        decoded.push(u8::from_str_radix(code, 16).ok()?);
        decoded.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests;
