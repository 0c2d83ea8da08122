//! Where to publish and what to consume, as a URL says it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pillarbox_core::{Error, ErrorKind, Result, Template, of_urls, parameters, parse_duration, setters};
use url::Url;

use crate::binding;

/// The port of a URL that names none.
const PORT_DEFAULT: u16 = 4222;
/// Most messages that a source asks for ahead.
const PREFETCH_MAX: usize = 10_000;
/// What a sink's URL may set.
const OF_SINKS: [&str; 6] = ["stream", "source", "connect_timeout", "confirm_timeout", "credentials", "ca"];
/// What the URL of a sink to core NATS may set.
const OF_CORE: [&str; 5] = ["source", "connect_timeout", "confirm_timeout", "credentials", "ca"];
/// What a source's URL may set.
const OF_SOURCES: [&str; 9] = [
    "stream",
    "durable",
    "ack_wait",
    "nack_delay",
    "prefetch",
    "parked",
    "connect_timeout",
    "credentials",
    "ca",
];
/// What a transcript's URL may set.
const OF_TRANSCRIPTS: [&str; 4] = ["stream", "connect_timeout", "credentials", "ca"];

/// Settings of a sink, a source or a transcript: `nats://host:port/subject?name=value&…`.
///
/// `tls://` always uses TLS. The host may be preceded by `user:password@` or `token@`.
/// Several hosts of one cluster are separated by commas. The parameters have the names of the fields.
///
/// `nats+core://` and `tls+core://` publish to core NATS and not to a stream. The server keeps nothing of it. A service
/// that is not subscribed at that moment never gets the event.
///
/// ```
/// # use pillarbox_transport_nats::Options;
/// let options = Options::of_sink("nats://127.0.0.1/orders.{type}?stream=ORDERS")?;
/// assert_eq!(options.subject.to_string(), "orders.{type}");
/// assert!(Options::of_sink("nats://127.0.0.1/orders?steam=ORDERS").is_err());
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Scheme, host and port of each server.
    pub(crate) servers: Vec<String>,
    pub(crate) login: Login,
    pub(crate) medium: Medium,
    /// The path of the URL. For a sink it is the subject to publish to, which may contain `{type}`, `{key}`
    /// and `{route}`. For a source it is the subjects to consume, and wildcards are allowed. Default: none,
    /// and a sink needs one.
    pub subject: Template,
    /// The stream. A sink has the server check that this stream takes the subject. Default: none. A source
    /// then looks for the stream of its subject.
    pub stream: Option<String>,
    /// The name of the durable consumer through which a source reads. Sources with the same name share the
    /// messages. Default: none, and a source needs one.
    pub durable: Option<String>,
    /// How long the server waits for the answer to a message before it redelivers it. This applies when the
    /// source creates the durable consumer. An existing consumer keeps its own value. Default: 30 s.
    pub ack_wait: Duration,
    /// How long the server waits before it redelivers a message that was given back. Default: 100 ms, so that
    /// the server does not send it to a consumer that is just stopping.
    pub nack_delay: Duration,
    /// How many messages a source requests ahead. `ack_wait` applies to each of them. Default: 64.
    pub prefetch: usize,
    /// The subject to which a source publishes messages that cannot be handled. A stream must take that
    /// subject. Default: none. Such a message is then only never redelivered.
    pub parked: Option<String>,
    /// The `source` attribute of the events that a sink publishes. Default: `pillarbox`.
    pub source: String,
    /// How long connecting may take, and each request to the server. Default: 5 s.
    pub connect_timeout: Duration,
    /// How long a confirmation may take. The relay has a deadline of its own, which is shorter by default.
    /// This one is for callers that have no deadline. Default: 60 s.
    pub confirm_timeout: Duration,
    /// A file with a JWT and an nkey, as `nsc` writes it. Default: none.
    pub credentials: Option<PathBuf>,
    /// A file with the certificates of the authorities to trust. Default: none, the authorities of the system
    /// are trusted.
    pub ca: Option<PathBuf>,
}

/// Where a sink publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// To a stream of JetStream, which keeps the message and confirms it.
    Stream,
    /// To the subscribers of that moment.
    Core,
}

/// The user that connects. Never shown.
#[derive(Clone)]
pub(crate) enum Login {
    Nobody,
    Token(String),
    User { name: String, password: String },
}

of_urls!(Options);

impl Options {
    fn read(url: &str, allowed: &[&str]) -> Result<Self> {
        let (medium, hosts, first) = split_hosts(url)?;
        let allowed = match medium {
            Medium::Stream => allowed,
            Medium::Core if allowed == OF_SINKS => &OF_CORE,
            Medium::Core => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "core NATS keeps no messages, so there is nothing to consume or to read. Subscribe with a client of \
                     your own, or publish to a stream of JetStream: nats://…",
                ));
            }
        };
        // The parser's own error is shown without the URL, which holds a password.
        let parsed = Url::parse(&first).map_err(|error| Error::invalid(format!("not a URL: {error}")))?;
        let mut options = Self {
            servers: servers(parsed.scheme(), &hosts)?,
            medium,
            login: login(&parsed)?,
            subject: path(&parsed)?.parse()?,
            stream: None,
            durable: None,
            ack_wait: Duration::from_secs(30),
            nack_delay: Duration::from_millis(100),
            prefetch: 64,
            parked: None,
            source: "pillarbox".into(),
            connect_timeout: Duration::from_secs(5),
            confirm_timeout: Duration::from_secs(60),
            credentials: None,
            ca: None,
        };
        parameters::read(parsed.query_pairs(), allowed, |name, value| options.set(name, value))?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "stream" => self.stream = Some(value.to_owned()),
            "durable" => self.durable = Some(value.to_owned()),
            "ack_wait" => self.ack_wait = parse_duration(value)?,
            "nack_delay" => self.nack_delay = parse_duration(value)?,
            "prefetch" => self.prefetch = parameters::number(value)?,
            "parked" => self.parked = Some(value.to_owned()),
            "source" => self.source = value.to_owned(),
            "connect_timeout" => self.connect_timeout = parse_duration(value)?,
            "confirm_timeout" => self.confirm_timeout = parse_duration(value)?,
            "credentials" => self.credentials = Some(value.into()),
            _ => self.ca = Some(value.into()),
        }
        Ok(())
    }

    /// Refuses what cannot work, before anything connects.
    fn check(&self) -> Result<()> {
        parameters::more_than_zero([
            ("ack_wait", self.ack_wait),
            ("connect_timeout", self.connect_timeout),
            ("confirm_timeout", self.confirm_timeout),
        ])?;
        if !(1..=PREFETCH_MAX).contains(&self.prefetch) {
            return Err(Error::invalid(format!("prefetch must be 1 to {PREFETCH_MAX}")));
        }
        if self.source.is_empty() {
            return Err(Error::invalid("source must not be empty"));
        }
        self.stream.as_deref().map_or(Ok(()), |stream| check_name("stream", stream))?;
        self.durable.as_deref().map_or(Ok(()), |durable| check_name("durable", durable))?;
        self.parked.as_deref().map_or(Ok(()), publishable)
    }

    /// Refuses what no sink can work with.
    pub(crate) fn check_sink(&self) -> Result<()> {
        self.check()?;
        match self.subject.constant() {
            Some("") => Err(Error::invalid(
                "the subject is missing; write it as the URL's path, for example nats://host/orders.{type}",
            )),
            Some(subject) => publishable(subject),
            None => Ok(()),
        }
    }

    /// Refuses what no source can work with, and gives the subjects to consume and the durable consumer's name.
    pub(crate) fn check_source(&self) -> Result<(&str, &str)> {
        self.check()?;
        let durable = self.durable.as_deref();
        let durable =
            durable.ok_or_else(|| Error::invalid("durable= is missing; it names the durable consumer"))?;
        Ok((self.check_subject()?, durable))
    }

    /// Refuses what cannot be read, and gives the subjects to read.
    pub(crate) fn check_transcript(&self) -> Result<&str> {
        self.check()?;
        self.check_subject()
    }

    fn check_subject(&self) -> Result<&str> {
        let subject = self.subject.constant();
        let subject = subject
            .ok_or_else(|| Error::invalid("a source cannot have a placeholder like {type} in its subject"))?;
        if !subject.is_empty() {
            consumable(subject)?;
        } else if self.stream.is_none() {
            return Err(Error::invalid("the URL has neither a subject nor stream=; add the one to consume"));
        }
        Ok(subject)
    }

    /// What a sink publishes of one route: the subjects that begin as its own does before the first place in it.
    pub(crate) fn published(mut self, route: &pillarbox_core::RouteName) -> Result<Self> {
        let subject = self.subject.of_route(route);
        if subject.constant().is_none() {
            let tokens = subject.prefix().rsplit_once('.').map(|(tokens, _)| tokens);
            let subject = tokens.map_or_else(String::new, |tokens| format!("{tokens}.>"));
            // A plain brace of the one is a plain brace of the other.
            self.subject = subject.replace('{', "{{").replace('}', "}}").parse()?;
        } else {
            self.subject = subject;
        }
        Ok(self)
    }

    /// The servers, as texts for people may name them: no user, no password, no token.
    pub(crate) fn address(&self) -> String {
        self.servers.join(",")
    }

    /// Whether the connection is made with TLS whatever the server says.
    pub(crate) fn tls(&self) -> bool {
        self.servers.iter().any(|server| server.starts_with("tls://"))
    }
}

setters! {
    impl Options {
        /// Sets the `source` attribute of the events that a sink publishes.
        source: String as into;
        /// Sets the subject to publish to, or the subjects to consume.
        subject: Template;
        /// Sets the stream.
        stream: String as some_into;
        /// Sets the name of the durable consumer.
        durable: String as some_into;
        /// Sets how long the server waits for the answer to a message.
        ack_wait: Duration;
        /// Sets how long the server waits before it redelivers a message that was given back.
        nack_delay: Duration;
        /// Sets how many messages a source requests ahead.
        prefetch: usize;
        /// Sets the subject to which a source publishes messages that cannot be handled.
        parked: String as some_into;
        /// Sets how long connecting may take, and each request to the server.
        connect_timeout: Duration;
        /// Sets how long a confirmation may take.
        confirm_timeout: Duration;
        /// Sets the file with a JWT and an nkey.
        credentials: PathBuf as some_into;
        /// Sets the file with the certificates of the authorities to trust.
        ca: PathBuf as some_into;
    }
}

// By hand, so that no password and no token is ever printed.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("servers", &self.servers)
            .field("subject", &self.subject.to_string())
            .field("stream", &self.stream)
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}

/// Checks a subject to publish to: tokens between dots, none empty, no wildcard, no blank.
pub(crate) fn publishable(subject: &str) -> Result<()> {
    if subject.split('.').any(|token| token == "*" || token == ">") {
        return Err(Error::invalid(format!(
            "the subject {subject:?} has a wildcard, and a message needs one exact subject"
        )));
    }
    consumable(subject)
}

/// Checks a subject to consume: tokens between dots, none empty, no blank.
fn consumable(subject: &str) -> Result<()> {
    let blank = subject.contains(|c: char| c.is_whitespace() || c.is_control());
    if blank || subject.split('.').any(str::is_empty) {
        return Err(Error::invalid(format!(
            "{subject:?} is not a subject: it needs tokens separated by dots, without empty tokens or blanks"
        )));
    }
    Ok(())
}

/// Streams and consumers have names of one token.
fn check_name(what: &str, name: &str) -> Result<()> {
    pillarbox_core::check_name(what, name)?;
    if name.contains(|c: char| c.is_whitespace() || matches!(c, '.' | '*' | '>' | '/' | '\\')) {
        return Err(Error::invalid(format!(
            "{what} {name:?} must not contain blanks, dots, slashes, * or >"
        )));
    }
    Ok(())
}

/// Where to publish, the hosts, and the URL with the first of them alone: several hosts are no URL to others.
fn split_hosts(url: &str) -> Result<(Medium, Vec<String>, String)> {
    let unknown = || Error::invalid("not a URL: it must begin with nats:// or tls://");
    let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
    let (scheme, medium) = match scheme.strip_suffix("+core") {
        Some(scheme) => (scheme, Medium::Core),
        None => (scheme, Medium::Stream),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
    let first = format!("{scheme}://{user}{}{behind}", hosts.first().map_or("", String::as_str));
    Ok((medium, hosts, first))
}

fn servers(scheme: &str, hosts: &[String]) -> Result<Vec<String>> {
    if scheme != "nats" && scheme != "tls" {
        return Err(Error::invalid(format!(
            "unknown scheme {scheme:?}; the allowed ones are nats and tls, each also with +core"
        )));
    }
    let address = |host: &String| {
        let url = Url::parse(&format!("{scheme}://{host}")).ok()?;
        let host = url.host_str().filter(|host| !host.is_empty())?;
        Some(format!("{scheme}://{host}:{}", url.port().unwrap_or(PORT_DEFAULT)))
    };
    let missing = || Error::invalid("the URL has no host, or a malformed one");
    hosts.iter().map(|host| address(host).ok_or_else(missing)).collect()
}

fn login(url: &Url) -> Result<Login> {
    let decode = |text: &str| binding::decode(text).ok_or_else(|| Error::invalid("the user is not UTF-8"));
    Ok(match (url.username(), url.password()) {
        ("", None) => Login::Nobody,
        (token, None) => Login::Token(decode(token)?),
        (name, Some(password)) => Login::User { name: decode(name)?, password: decode(password)? },
    })
}

fn path(url: &Url) -> Result<String> {
    let path = url.path().strip_prefix('/').unwrap_or(url.path());
    binding::decode(path).ok_or_else(|| Error::invalid("the subject is not UTF-8"))
}

#[cfg(test)]
mod tests;
