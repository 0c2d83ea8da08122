//! Where the broker is and how it is used, read from a URL.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lapin::uri::AMQPUri;
use pillarbox_core::{Error, Result, Template, parameters, parse_duration, redact_url, setters};
use url::Url;

/// What a sink's URL may set.
const OF_SINKS: [&str; 9] = [
    "exchange",
    "routing_key",
    "source",
    "header_prefix",
    "payload_bytes_max",
    "confirm_timeout",
    "connect_timeout",
    "heartbeat",
    "ca",
];
/// What a source's URL may set.
const OF_SOURCES: [&str; 7] =
    ["queue", "queue_type", "prefetch", "header_prefix", "connect_timeout", "heartbeat", "ca"];
/// What a transcript's URL may set.
const OF_TRANSCRIPTS: [&str; 5] = ["queue", "prefetch", "connect_timeout", "heartbeat", "ca"];

/// Below the 20 s that a relay gives a publish.
const CONFIRM_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(10);
const PREFETCH_DEFAULT: u16 = 100;
/// The longest heartbeat that the protocol can carry.
const HEARTBEAT_MAX: Duration = Duration::from_secs(u16::MAX as u64);

/// Settings of a sink, a source or a transcript: `amqp://user:password@host:port/vhost?name=value&…`.
///
/// `amqps://` is TLS. The default user is `guest`, the default port is that of the scheme, and the default
/// vhost is `/` (written `%2f`).
///
/// ```
/// # use pillarbox_transport_amqp::Options;
/// let options = Options::of_sink("amqp://127.0.0.1/%2f?exchange=orders&routing_key={type}")?;
/// assert_eq!(options.exchange.to_string(), "orders");
/// assert!(Options::of_sink("amqp://127.0.0.1/?exchnage=orders").is_err());
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The exchange to publish to. It may contain `{type}`, `{key}` and `{route}`. Default: the default
    /// exchange, which routes to the queue that the routing key names.
    pub exchange: Template,
    /// The routing key. It may contain the same placeholders. Default: `{type}`.
    pub routing_key: Template,
    /// The `source` attribute of published events. Default: `pillarbox`.
    pub source: String,
    /// The prefix of attribute names among the headers. Default: none. A sink then writes `cloudEvents:`, as
    /// the binding says. A source accepts whichever of the known prefixes a message has.
    pub header_prefix: Option<HeaderPrefix>,
    /// The largest payload in bytes. A larger one is rejected before it is sent. Default: none. The sink then
    /// learns the broker's own limit when a payload exceeds it for the first time.
    pub payload_bytes_max: Option<usize>,
    /// The queue to consume. A source needs it. Default: none.
    pub queue: Option<String>,
    /// The type of that queue, as far as a consumer must know it. Default: none. The source then finds it out
    /// from what it receives.
    pub queue_type: Option<QueueType>,
    /// The most messages that are received and not yet answered. Default: 100.
    pub prefetch: u16,
    /// How long a broker that still answers may confirm nothing before it counts as down. Keep it below the
    /// relay's `publish_timeout`: a delivery that reaches `publish_timeout` has spent an attempt. Default: 15
    /// s.
    pub confirm_timeout: Duration,
    /// How long opening a connection may take, and each later request to the broker. Keep it below the
    /// relay's `publish_timeout`. Default: 10 s.
    pub connect_timeout: Duration,
    /// The interval at which each side shows that it is alive. After twice this time without a sign the
    /// connection ends. In whole seconds. The broker may ask for a shorter interval. Default: 10 s.
    pub heartbeat: Duration,
    /// A file with the certificates of authorities to trust, in addition to those of the system. Default:
    /// none.
    pub ca: Option<PathBuf>,
    server: AMQPUri,
}

/// The prefix of the names of CloudEvents attributes among the headers of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderPrefix {
    /// `cloudEvents:`, the prefix of the CloudEvents binding for AMQP.
    #[default]
    Colon,
    /// `cloudEvents_`, the binding's second form, for clients that cannot read a colon.
    Underscore,
    /// `ce-`, the prefix that Knative and Python's `cloudevents` read from RabbitMQ.
    Ce,
}

impl HeaderPrefix {
    pub(crate) const ALL: [Self; 3] = [Self::Colon, Self::Underscore, Self::Ce];

    /// The prefix as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Colon => "cloudEvents:",
            Self::Underscore => "cloudEvents_",
            Self::Ce => "ce-",
        }
    }
}

impl FromStr for HeaderPrefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|prefix| prefix.as_str() == text);
        found.ok_or_else(|| {
            Error::invalid(format!("{text:?} is not allowed; write cloudEvents:, cloudEvents_ or ce-"))
        })
    }
}

/// The types of queue that differ for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueType {
    /// A classic queue: it reports whether a message was delivered before, not how often.
    Classic,
    /// A quorum queue: it counts deliveries.
    Quorum,
}

impl Options {
    /// Reads the URL of a sink.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part that is wrong and what is allowed.
    pub fn of_sink(url: &str) -> Result<Self> {
        Self::read(url, &OF_SINKS)
    }

    /// Reads the URL of a source.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part that is wrong and what is allowed.
    pub fn of_source(url: &str) -> Result<Self> {
        let options = Self::read(url, &OF_SOURCES)?;
        if options.queue.as_ref().is_none_or(String::is_empty) {
            return Err(Error::invalid("queue= is missing; it names the queue to consume"));
        }
        Ok(options)
    }

    /// Reads the URL of a transcript.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part that is wrong and what is allowed.
    pub fn of_transcript(url: &str) -> Result<Self> {
        let options = Self::read(url, &OF_TRANSCRIPTS)?;
        if options.queue.as_ref().is_none_or(String::is_empty) {
            return Err(Error::invalid("queue= is missing; it names the stream to read"));
        }
        Ok(options)
    }

    fn read(url: &str, allowed: &[&str]) -> Result<Self> {
        // The parser's own error is shown without the URL, which holds a password.
        let parsed = Url::parse(url).map_err(|error| Error::invalid(format!("not a URL: {error}")))?;
        let mut options = Self {
            exchange: "".parse()?,
            routing_key: "{type}".parse()?,
            source: "pillarbox".into(),
            header_prefix: None,
            payload_bytes_max: None,
            queue: None,
            queue_type: None,
            prefetch: PREFETCH_DEFAULT,
            confirm_timeout: CONFIRM_TIMEOUT_DEFAULT,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            heartbeat: HEARTBEAT_DEFAULT,
            ca: None,
            server: server(&parsed)?,
        };
        parameters::read(parsed.query_pairs(), allowed, |name, value| options.set(name, value))?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "exchange" => self.exchange = value.parse()?,
            "routing_key" => self.routing_key = value.parse()?,
            "source" => self.source = value.to_owned(),
            "payload_bytes_max" => self.payload_bytes_max = Some(parameters::number(value)?),
            "header_prefix" => self.header_prefix = Some(value.parse()?),
            "confirm_timeout" => self.confirm_timeout = parse_duration(value)?,
            "queue" => self.queue = Some(value.to_owned()),
            "queue_type" => {
                self.queue_type = Some(match value {
                    "classic" => QueueType::Classic,
                    "quorum" => QueueType::Quorum,
                    _ => {
                        return Err(Error::invalid(format!(
                            "{value:?} is not allowed; write classic or quorum"
                        )));
                    }
                });
            }
            "prefetch" => self.prefetch = parameters::number(value)?,
            "connect_timeout" => self.connect_timeout = parse_duration(value)?,
            "heartbeat" => self.heartbeat = parse_duration(value)?,
            _ => self.ca = Some(value.into()),
        }
        Ok(())
    }

    /// Refuses what cannot work, before anything connects.
    pub(crate) fn check(&self) -> Result<()> {
        if self.prefetch == 0 {
            return Err(Error::invalid(
                "prefetch must be at least 1: with 0, the broker would send the whole queue at once",
            ));
        }
        parameters::more_than_zero([
            ("confirm_timeout", self.confirm_timeout),
            ("connect_timeout", self.connect_timeout),
        ])?;
        if self.heartbeat.subsec_nanos() != 0 || self.heartbeat.is_zero() || self.heartbeat > HEARTBEAT_MAX {
            return Err(Error::invalid("heartbeat must be 1 s to 65535 s, in whole seconds"));
        }
        if self.source.is_empty() {
            return Err(Error::invalid("source must not be empty"));
        }
        Ok(())
    }

    /// Where to connect. Holds the password: never to be printed.
    pub(crate) fn uri(&self) -> AMQPUri {
        let mut uri = self.server.clone();
        uri.query.heartbeat = u16::try_from(self.heartbeat.as_secs()).ok();
        uri
    }
}

setters! {
    impl Options {
        /// Sets the exchange to publish to.
        exchange: Template;
        /// Sets the routing key.
        routing_key: Template;
        /// Sets the `source` attribute of published events.
        source: String as into;
        /// Sets the prefix of attribute names among the headers.
        header_prefix: HeaderPrefix as some;
        /// Sets the largest payload in bytes.
        payload_bytes_max: usize as some;
        /// Sets the queue to consume.
        queue: String as some_into;
        /// Sets the type of the queue.
        queue_type: QueueType as some;
        /// Sets how many messages may be received and not yet answered.
        prefetch: u16;
        /// Sets how long a broker that still answers may confirm nothing before it counts as down.
        confirm_timeout: Duration;
        /// Sets how long opening a connection may take, and each later request to the broker.
        connect_timeout: Duration;
        /// Sets the interval at which each side shows that it is alive.
        heartbeat: Duration;
        /// Sets the file with the certificates of authorities to trust, in addition to those of the system.
        ca: PathBuf as some_into;
    }
}

// By hand, because the server's address holds the password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("server", &redact_url(&self.server.to_string()))
            .field("exchange", &self.exchange.to_string())
            .field("routing_key", &self.routing_key.to_string())
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

fn server(url: &Url) -> Result<AMQPUri> {
    if url.cannot_be_a_base() {
        // What stands before the colon may be a user's name, and is not shown.
        return Err(Error::invalid("not a URL: it must begin with amqp:// or amqps://"));
    }
    if !["amqp", "amqps"].contains(&url.scheme()) {
        return Err(Error::invalid(format!(
            "unknown scheme {:?}; the allowed ones are amqp and amqps",
            url.scheme()
        )));
    }
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| Error::invalid("the URL has no host"))?;
    if url.path().matches('/').count() > 1 {
        return Err(Error::invalid("the URL's path must be one vhost; write each slash of its name as %2f"));
    }
    let mut bare = url.clone();
    bare.set_query(None);
    let undecodable = |_| Error::invalid("the URL's user, password or vhost is not percent-encoded UTF-8");
    let mut server: AMQPUri = bare.as_str().parse().map_err(undecodable)?;
    // The client's own parser does not know IPv6 addresses, which stand in brackets in a URL only.
    server.authority.host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    if server.vhost.is_empty() {
        server.vhost = "/".into();
    }
    Ok(server)
}

#[cfg(test)]
mod tests;
