//! Where to publish and what to consume, as a URL says it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pillarbox_core::{Error, ErrorKind, Result, Template, of_urls, parameters, parse_duration, setters};
use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use url::Url;

/// The port of a URL that names none.
const PORT_DEFAULT: u16 = 6379;
/// Most entries that a source takes ahead.
const PREFETCH_MAX: usize = 10_000;
/// What a sink's URL may set.
const OF_SINKS: [&str; 6] = ["stream", "maxlen", "source", "connect_timeout", "confirm_timeout", "ca"];
/// What the URL of a sink to channels may set.
const OF_CHANNELS: [&str; 5] = ["channel", "source", "connect_timeout", "confirm_timeout", "ca"];
/// What a source's URL may set.
const OF_SOURCES: [&str; 9] = [
    "stream",
    "group",
    "consumer",
    "create_group",
    "reclaim_after",
    "nack_delay",
    "prefetch",
    "connect_timeout",
    "ca",
];
/// What a transcript's URL may set.
const OF_TRANSCRIPTS: [&str; 3] = ["stream", "connect_timeout", "ca"];

/// Settings of a sink, a source or a transcript: `redis://user:password@host:port/db?name=value&…`.
///
/// `rediss://` is TLS. `valkey://` and `valkeys://` mean the same as `redis://` and `rediss://`. The default
/// database is 0. The parameters have the names of the fields.
///
/// `redis+pubsub://host?channel=orders.{type}`, and the same with the other schemes, publishes to a channel and not to a
/// stream. Redis keeps nothing of it: a service that is not subscribed at that moment never gets the event.
///
/// ```
/// # use pillarbox_transport_redis::Options;
/// let options = Options::of_sink("redis://127.0.0.1/0?stream=orders:{type}")?;
/// assert_eq!(options.stream.to_string(), "orders:{type}");
/// assert!(Options::of_sink("redis://127.0.0.1/0?steam=orders").is_err());
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The address of the server and the user. Holds the password: never to be printed.
    server: ConnectionInfo,
    address: String,
    pub(crate) medium: Medium,
    /// The key of the stream, or the channel. For a sink it may contain `{type}`, `{key}` and `{route}`. Default: none, and
    /// both a sink and a source need one.
    pub stream: Template,
    /// About how many entries a sink lets the stream hold. Older entries are deleted, whether they were read
    /// or not. Default: none, nothing is deleted.
    pub maxlen: Option<u64>,
    /// The `source` attribute of the events that a sink publishes. Default: `pillarbox`.
    pub source: String,
    /// The consumer group in which a source reads. The members of a group share the entries. Default: none,
    /// and a source needs one.
    pub group: Option<String>,
    /// The name of this member of the group. Members that run at the same time must have different names. A
    /// member that restarts under its old name begins with the entries that it left unanswered. Default:
    /// none, a fresh name each time.
    pub consumer: Option<String>,
    /// Whether a source creates the group and the stream if they do not exist. It then begins with the oldest
    /// entry. Default: true.
    pub create_group: bool,
    /// How long an entry waits for its answer before another member takes it over. Default: 60 s.
    pub reclaim_after: Duration,
    /// How long an entry that was given back waits before it is redelivered. Default: none, it is redelivered
    /// at once.
    pub nack_delay: Duration,
    /// How many entries a source takes ahead. `reclaim_after` applies to each of them. Default: 64.
    pub prefetch: usize,
    /// How long connecting may take, and each request to the server. Default: 5 s.
    pub connect_timeout: Duration,
    /// How long a confirmation may take. The relay has a deadline of its own, which is shorter by default.
    /// This one is for callers that have no deadline. Default: 60 s.
    pub confirm_timeout: Duration,
    /// A file with the certificates of the authorities to trust. Default: none, the authorities of the system
    /// are trusted.
    pub ca: Option<PathBuf>,
}

/// Where a sink publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Redis keeps what is added.
    Stream,
    /// Redis passes on what is published, and forgets it.
    Channel,
}

impl Medium {
    /// Its name in texts for people, and as the parameter that names it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Channel => "channel",
        }
    }
}

of_urls!(Options);

impl Options {
    fn read(url: &str, allowed: &[&str]) -> Result<Self> {
        // The parser's own error is shown without the URL, which holds a password.
        let parsed = Url::parse(url).map_err(|error| Error::invalid(format!("not a URL: {error}")))?;
        let (server, address, medium) = server(&parsed)?;
        let allowed = match medium {
            Medium::Stream => allowed,
            Medium::Channel if allowed == OF_SINKS => &OF_CHANNELS,
            Medium::Channel => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "Redis keeps nothing of what is published to a channel, so there is nothing to consume or to read. \
                     Subscribe with a client of your own, or publish to a stream: redis://…?stream=NAME",
                ));
            }
        };
        let mut options = Self {
            server,
            address,
            medium,
            stream: "".parse()?,
            maxlen: None,
            source: "pillarbox".into(),
            group: None,
            consumer: None,
            create_group: true,
            reclaim_after: Duration::from_secs(60),
            nack_delay: Duration::ZERO,
            prefetch: 64,
            connect_timeout: Duration::from_secs(5),
            confirm_timeout: Duration::from_secs(60),
            ca: None,
        };
        parameters::read(parsed.query_pairs(), allowed, |name, value| options.set(name, value))?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "stream" | "channel" => self.stream = value.parse()?,
            "maxlen" => self.maxlen = Some(parameters::number(value)?),
            "source" => self.source = value.to_owned(),
            "group" => self.group = Some(value.to_owned()),
            "consumer" => self.consumer = Some(value.to_owned()),
            "create_group" => self.create_group = parameters::switch(value)?,
            "reclaim_after" => self.reclaim_after = parse_duration(value)?,
            "nack_delay" => self.nack_delay = parse_duration(value)?,
            "prefetch" => self.prefetch = parameters::number(value)?,
            "connect_timeout" => self.connect_timeout = parse_duration(value)?,
            "confirm_timeout" => self.confirm_timeout = parse_duration(value)?,
            _ => self.ca = Some(value.into()),
        }
        Ok(())
    }

    /// Refuses what cannot work, before anything connects.
    fn check(&self) -> Result<()> {
        parameters::more_than_zero([
            ("reclaim_after", self.reclaim_after),
            ("connect_timeout", self.connect_timeout),
            ("confirm_timeout", self.confirm_timeout),
        ])?;
        if !(1..=PREFETCH_MAX).contains(&self.prefetch) {
            return Err(Error::invalid(format!("prefetch must be 1 to {PREFETCH_MAX}")));
        }
        if self.maxlen == Some(0) {
            return Err(Error::invalid("maxlen must be at least 1"));
        }
        if self.source.is_empty() {
            return Err(Error::invalid("source must not be empty"));
        }
        Ok(())
    }

    /// Refuses what no sink can work with.
    pub(crate) fn check_sink(&self) -> Result<()> {
        self.check()?;
        if self.stream.constant() == Some("") {
            let medium = self.medium.as_str();
            return Err(Error::invalid(format!("{medium}= is missing; it names the {medium} to publish to")));
        }
        Ok(())
    }

    /// Refuses what cannot be read, and gives the stream to read.
    pub(crate) fn check_transcript(&self) -> Result<&str> {
        self.check()?;
        match self.stream.constant() {
            Some("") => Err(Error::invalid("stream= is missing; it names the stream to read")),
            None => {
                Err(Error::invalid("only one stream can be read, but stream= has a placeholder like {type}"))
            }
            Some(stream) => Ok(stream),
        }
    }

    /// Refuses what no source can work with, and gives the stream and the group to consume.
    pub(crate) fn check_source(&self) -> Result<(&str, &str)> {
        self.check()?;
        let stream = match self.stream.constant() {
            Some("") => Err(Error::invalid("stream= is missing; it names the stream to consume")),
            None => Err(Error::invalid("a source cannot have a placeholder like {type} in stream=")),
            Some(stream) => Ok(stream),
        }?;
        let group = self.group.as_deref();
        let group = group.ok_or_else(|| Error::invalid("group= is missing; it names the consumer group"))?;
        pillarbox_core::check_name("group", group)?;
        self.consumer
            .as_deref()
            .map_or(Ok(()), |consumer| pillarbox_core::check_name("consumer", consumer))?;
        Ok((stream, group))
    }

    /// Where to connect. Holds the password: never to be printed.
    pub(crate) fn server(&self) -> ConnectionInfo {
        self.server.clone()
    }

    /// The server, as texts for people may name it: no user, no password.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

setters! {
    impl Options {
        /// Sets the `source` attribute of the events that a sink publishes.
        source: String as into;
        /// Sets the key of the stream.
        stream: Template;
        /// Sets about how many entries a sink lets the stream hold.
        maxlen: u64 as some;
        /// Sets the consumer group in which a source reads.
        group: String as some_into;
        /// Sets the name of this member of the group.
        consumer: String as some_into;
        /// Sets whether a source creates the group and the stream if they do not exist.
        create_group: bool;
        /// Sets how long an entry waits for its answer before another member takes it over.
        reclaim_after: Duration;
        /// Sets how long an entry that was given back waits before it is redelivered.
        nack_delay: Duration;
        /// Sets how many entries a source takes ahead.
        prefetch: usize;
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
            .field("server", &self.address)
            .field("stream", &self.stream.to_string())
            .field("group", &self.group)
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}

fn server(url: &Url) -> Result<(ConnectionInfo, String, Medium)> {
    if url.cannot_be_a_base() {
        // What stands before the colon may be a user's name, and is not shown.
        return Err(Error::invalid("not a URL: it must begin with redis:// or rediss://"));
    }
    let (scheme, medium) = match url.scheme().strip_suffix("+pubsub") {
        Some(scheme) => (scheme, Medium::Channel),
        None => (url.scheme(), Medium::Stream),
    };
    if !matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys") {
        let scheme = url.scheme();
        return Err(Error::invalid(format!(
            "unknown scheme {scheme:?}; the allowed ones are redis, rediss, valkey and valkeys, each also with +pubsub"
        )));
    }
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| Error::invalid("the URL has no host"))?;
    let database = url.path().trim_matches('/');
    if !database.is_empty() && database.parse::<u32>().is_err() {
        return Err(Error::invalid(format!(
            "the URL's path is {database:?}; it must be the number of a database, for example /0"
        )));
    }
    // A fragment would switch the check of certificates off.
    if url.fragment().is_some() {
        return Err(Error::invalid("the URL must not have a fragment (#)"));
    }
    let address = format!("{}://{host}:{}", url.scheme(), url.port().unwrap_or(PORT_DEFAULT));
    let mut bare = url.clone();
    bare.set_query(None);
    // The client's own error may quote what it was given.
    let refused = || Error::invalid("the URL's user, password or host cannot be read");
    bare.set_scheme(scheme).map_err(|()| refused())?;
    let info = bare.into_connection_info().map_err(|_| refused())?;
    // The newer protocol tells when a connection is lost, even while nobody asks.
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    Ok((info.set_redis_settings(redis), address, medium))
}

#[cfg(test)]
mod tests;
