//! Where to publish and what to consume, as a URL says it.

mod servers;
mod topic;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use krafka::Compression;
use pillarbox_core::{Error, Result, Template, of_urls, parameters, parse_duration, setters};

pub(crate) use servers::Servers;
pub(crate) use topic::{check as check_topic, escape};

/// Least and most bytes of a record batch. Kafka's own limit of a batch is 1 MiB unless the topic says otherwise.
const BATCH_BYTES: (usize, usize) = (1024, 16 * 1024 * 1024);
/// Most messages that a source hands out before it has answers.
const PREFETCH_MAX: u16 = u16::MAX;
/// What a sink's URL may set.
const OF_SINKS: [&str; 7] =
    ["source", "compression", "batch_bytes", "sasl", "connect_timeout", "confirm_timeout", "ca"];
/// What a source's URL may set.
const OF_SOURCES: [&str; 9] = [
    "group",
    "start",
    "session_timeout",
    "nack_delay",
    "prefetch",
    "parked",
    "sasl",
    "connect_timeout",
    "ca",
];
/// What a transcript's URL may set.
const OF_TRANSCRIPTS: [&str; 3] = ["sasl", "connect_timeout", "ca"];

/// Settings of a sink, a source or a transcript: `kafka://user:password@host:port,host:port/topic?name=value&…`.
///
/// `kafkas://` is TLS. The hosts are those that the client asks first; they name the others. The parameters have the
/// names of the fields.
///
/// ```
/// # use pillarbox_transport_kafka::Options;
/// let options = Options::of_sink("kafka://127.0.0.1:9092/orders.{type}?compression=lz4")?;
/// assert_eq!(options.topic.to_string(), "orders.{type}");
/// assert!(Options::of_sink("kafka://127.0.0.1/orders?compresion=lz4").is_err());
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    pub(crate) servers: Servers,
    /// User and password. Never shown.
    pub(crate) login: Option<(String, String)>,
    /// The path of the URL. For a sink it is the topic to publish to, which may contain `{type}`, `{key}` and
    /// `{route}`. For a source it is the topic to consume. Default: none, and both need one.
    pub topic: Template,
    /// The `source` attribute of the events that a sink publishes. Default: `pillarbox`.
    pub source: String,
    /// How a sink compresses: `none`, `gzip`, `snappy` or `lz4`. Default: `none`.
    pub compression: String,
    /// Most bytes of the records that a sink writes together, before compression. It must not be more than the topic's
    /// `max.message.bytes`. Default: 512 KiB.
    pub batch_bytes: usize,
    /// How the user and password of the URL are shown to the server: `plain`, `scram-sha-256` or `scram-sha-512`.
    /// Default: `plain`.
    pub sasl: String,
    /// The group in which a source consumes: the members of a group share the partitions. Default: none, and a source
    /// needs one.
    pub group: Option<String>,
    /// Where a group begins that has no committed offset: `earliest` or `latest`. Default: `earliest`.
    pub start: String,
    /// After how long without a sign of life the server takes the partitions from a source. Default: 45 s.
    pub session_timeout: Duration,
    /// How long a message that was given back waits before it is handed out again. Default: 100 ms.
    pub nack_delay: Duration,
    /// How many unanswered messages a source hands out at most. Default: 500.
    pub prefetch: u16,
    /// The topic to which a source publishes messages that cannot be handled. Default: none, and such a message
    /// is passed over.
    pub parked: Option<String>,
    /// How long connecting may take, and each question to the server. Default: 5 s.
    pub connect_timeout: Duration,
    /// How long a confirmation may take, with all repetitions of the client. The relay has a deadline of its own, which
    /// is shorter by default. This one is for callers that have no deadline. Default: 60 s.
    pub confirm_timeout: Duration,
    /// A file with the certificates of the authorities to trust. Default: none, the authorities of the system
    /// are trusted.
    pub ca: Option<PathBuf>,
}

/// How a user is shown to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sasl {
    Plain,
    Scram256,
    Scram512,
}

impl FromStr for Sasl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "plain" => Ok(Self::Plain),
            "scram-sha-256" => Ok(Self::Scram256),
            "scram-sha-512" => Ok(Self::Scram512),
            _ => Err(Error::invalid(format!(
                "sasl {text:?} is not known; write plain, scram-sha-256 or scram-sha-512"
            ))),
        }
    }
}

of_urls!(Options);

impl Options {
    fn read(url: &str, allowed: &[&str]) -> Result<Self> {
        let servers::Parsed { servers, login, rest } = servers::parse(url)?;
        let path = rest.path().strip_prefix('/').unwrap_or(rest.path());
        let topic = servers::decode(path).ok_or_else(|| Error::invalid("the topic is not UTF-8"))?;
        let mut options = Self {
            servers,
            login,
            topic: topic.parse()?,
            source: "pillarbox".into(),
            compression: "none".into(),
            batch_bytes: 512 * 1024,
            sasl: "plain".into(),
            group: None,
            start: "earliest".into(),
            session_timeout: Duration::from_secs(45),
            nack_delay: Duration::from_millis(100),
            prefetch: 500,
            parked: None,
            connect_timeout: Duration::from_secs(5),
            confirm_timeout: Duration::from_secs(60),
            ca: None,
        };
        parameters::read(rest.query_pairs(), allowed, |name, value| options.set(name, value))?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "source" => self.source = value.to_owned(),
            "compression" => self.compression = value.to_owned(),
            "batch_bytes" => self.batch_bytes = parameters::number(value)?,
            "sasl" => self.sasl = value.to_owned(),
            "group" => self.group = Some(value.to_owned()),
            "start" => self.start = value.to_owned(),
            "session_timeout" => self.session_timeout = parse_duration(value)?,
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
            ("session_timeout", self.session_timeout),
            ("connect_timeout", self.connect_timeout),
            ("confirm_timeout", self.confirm_timeout),
        ])?;
        self.codec()?;
        self.mechanism()?;
        self.starts_late()?;
        let (least, most) = BATCH_BYTES;
        if !(least..=most).contains(&self.batch_bytes) {
            return Err(Error::invalid(format!("batch_bytes must be {least} to {most}")));
        }
        if self.prefetch == 0 {
            return Err(Error::invalid(format!("prefetch must be 1 to {PREFETCH_MAX}")));
        }
        if self.source.is_empty() {
            return Err(Error::invalid("source must not be empty"));
        }
        let parked = self.parked.as_deref();
        parked.map_or(Ok(()), |topic| check_topic(topic).map_err(|error| error.context("parked=")))
    }

    /// Refuses what no sink can work with.
    pub(crate) fn check_sink(&self) -> Result<()> {
        self.check()?;
        match self.topic.constant() {
            Some("") => Err(Error::invalid(
                "the topic is missing; write it as the URL's path, for example kafka://host:9092/orders.{type}",
            )),
            Some(topic) => check_topic(topic),
            // What the entry brings is escaped, so only the text between can be wrong.
            None => check_topic(&self.topic.to_string().replace(['{', '}'], "")),
        }
    }

    /// Refuses what no source can work with, and gives the topic to consume and the group.
    pub(crate) fn check_source(&self) -> Result<(&str, &str)> {
        self.check()?;
        let topic = self.constant_topic("a source")?;
        let group = self.group.as_deref().ok_or_else(|| {
            Error::invalid(
                "group= is missing; it names the group whose members share the partitions, and under which the \
                 server keeps how far it has come",
            )
        })?;
        pillarbox_core::check_name("group", group)?;
        Ok((topic, group))
    }

    /// The topic of a reader, which cannot have placeholders.
    pub(crate) fn constant_topic(&self, who: &str) -> Result<&str> {
        match self.topic.constant() {
            Some("") => Err(Error::invalid(
                "the topic is missing; write it as the URL's path, for example kafka://host:9092/orders",
            )),
            None => {
                Err(Error::invalid(format!("{who} cannot have a placeholder like {{type}} in its topic")))
            }
            Some(topic) => check_topic(topic).map(|()| topic),
        }
    }

    pub(crate) fn codec(&self) -> Result<Compression> {
        match self.compression.as_str() {
            "none" => Ok(Compression::None),
            "gzip" => Ok(Compression::Gzip),
            "snappy" => Ok(Compression::Snappy),
            "lz4" => Ok(Compression::Lz4),
            "zstd" => Err(Error::invalid(
                "compression zstd can be read and not written; write lz4, snappy, gzip or none",
            )),
            other => Err(Error::invalid(format!(
                "compression {other:?} is not known; write none, gzip, snappy or lz4"
            ))),
        }
    }

    pub(crate) fn mechanism(&self) -> Result<Sasl> {
        self.sasl.parse()
    }

    /// Whether a new group begins with what is published from now on.
    pub(crate) fn starts_late(&self) -> Result<bool> {
        match self.start.as_str() {
            "earliest" => Ok(false),
            "latest" => Ok(true),
            other => Err(Error::invalid(format!("start {other:?} is not allowed; write earliest or latest"))),
        }
    }

    /// The servers, as texts for people may name them: no user, no password.
    pub(crate) fn address(&self) -> String {
        self.servers.to_string()
    }
}

setters! {
    impl Options {
        /// Sets the `source` attribute of the events that a sink publishes.
        source: String as into;
        /// Sets the topic to publish to, or to consume.
        topic: Template;
        /// Sets how a sink compresses.
        compression: String as into;
        /// Sets most bytes of the records that a sink writes together.
        batch_bytes: usize;
        /// Sets how the user and password are shown to the server.
        sasl: String as into;
        /// Sets the group in which a source consumes.
        group: String as some_into;
        /// Sets where a group begins that has no committed offset.
        start: String as into;
        /// Sets after how long without a sign of life the server takes the partitions from a source.
        session_timeout: Duration;
        /// Sets how long a message that was given back waits before it is handed out again.
        nack_delay: Duration;
        /// Sets how many unanswered messages a source hands out at most.
        prefetch: u16;
        /// Sets the topic to which a source publishes messages that cannot be handled.
        parked: String as some_into;
        /// Sets how long connecting may take, and each question to the server.
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
            .field("servers", &self.address())
            .field("topic", &self.topic.to_string())
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
