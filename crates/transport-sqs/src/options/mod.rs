//! Where to send and what to consume, as a URL says it.

mod queue;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pillarbox_core::{Error, Result, Template, of_urls, parameters, parse_duration, setters};
use url::Url;

pub(crate) use queue::{check_queue, escape, is_fifo};

/// The longest visibility timeout that SQS knows.
const VISIBILITY_MAX: Duration = Duration::from_secs(12 * 3600);
/// The longest that SQS lets a request wait for messages.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// The smallest and the largest limit of a message that a queue can have, in bytes.
const MESSAGE_BYTES_MIN: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Most requests at the same time, and most messages that a source may hold.
const IN_FLIGHT_MAX: usize = 256;
const PREFETCH_MAX: usize = 10_000;
/// What a sink's URL may set.
const OF_SINKS: [&str; 9] = [
    "endpoint",
    "account",
    "profile",
    "source",
    "in_flight",
    "message_bytes_max",
    "connect_timeout",
    "confirm_timeout",
    "ca",
];
/// What a source's URL may set.
const OF_SOURCES: [&str; 11] = [
    "endpoint",
    "account",
    "profile",
    "visibility",
    "hold",
    "wait",
    "nack_delay",
    "prefetch",
    "parked",
    "connect_timeout",
    "ca",
];
/// What a transcript's URL may set.
const OF_TRANSCRIPTS: [&str; 5] = ["endpoint", "account", "profile", "connect_timeout", "ca"];

/// Settings of a sink or a source: `sqs://region/queue?name=value&…`.
///
/// The parameters have the names of the fields. Credentials are never part of the URL.
///
/// ```
/// # use pillarbox_transport_sqs::Options;
/// let options = Options::of_sink("sqs://eu-west-1/orders-{type}.fifo?profile=shop")?;
/// assert_eq!(options.region, "eu-west-1");
/// assert_eq!(options.queue.to_string(), "orders-{type}.fifo");
/// assert!(Options::of_sink("sqs://eu-west-1/orders?profil=shop").is_err());
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The region, which is the host of the URL.
    pub region: String,
    /// The queue's name, which is the path of the URL. A sink's may contain `{type}`, `{key}` and `{route}`. In their
    /// values, characters that no queue's name may contain become `_`. A name that ends with `.fifo` is a FIFO queue.
    pub queue: Template,
    /// The address of the server, for servers that are not Amazon's. Default: none, the region's own.
    pub endpoint: Option<String>,
    /// The account that owns the queue. Default: none, the account of the credentials.
    pub account: Option<String>,
    /// The profile of the AWS configuration files whose credentials are used. Default: none, the usual search.
    pub profile: Option<String>,
    /// The `source` attribute of the events that a sink sends. Default: `pillarbox`.
    pub source: String,
    /// How many requests a sink sends at the same time, with ten messages in each at most. Default: 8.
    pub in_flight: usize,
    /// The most bytes of one message, and of all messages of one request. A queue can allow up to 1 MiB. Default:
    /// 262,144 (256 KiB).
    pub message_bytes_max: usize,
    /// How long a message that a source has received is hidden from others. It is extended while the message is held, so
    /// this is how long messages of a dead consumer wait. Whole seconds. Default: 30 s.
    pub visibility: Duration,
    /// How long a message is held at most. After that it is no longer extended, and comes again although its handler may
    /// still run. Default: 1 h.
    pub hold: Duration,
    /// How long one request waits for messages. Whole seconds, at most 20. Default: 20 s.
    pub wait: Duration,
    /// How long a message that was given back waits before it comes again. Whole seconds. Default: 1 s.
    pub nack_delay: Duration,
    /// How many unanswered messages a source may hold. Default: 64.
    pub prefetch: usize,
    /// The queue to which a source sends messages that cannot be handled. Default: none. Such a message then goes to the
    /// dead-letter queue of the redrive policy; if there is none, it is deleted.
    pub parked: Option<String>,
    /// How long connecting may take, and each request for something else than messages. Default: 5 s.
    pub connect_timeout: Duration,
    /// How long the confirmation of a request may take. The relay has a deadline of its own, which is shorter by
    /// default. This one is for callers that have no deadline. Default: 60 s.
    pub confirm_timeout: Duration,
    /// A file with the certificates of the authorities to trust. Default: none, the authorities of the system
    /// are trusted.
    pub ca: Option<PathBuf>,
}

of_urls!(Options);

impl Options {
    fn read(url: &str, allowed: &[&str]) -> Result<Self> {
        // The parser's own error is shown without the URL, which may hold what somebody took for a place for secrets.
        let parsed = Url::parse(url).map_err(|error| Error::invalid(format!("not a URL: {error}")))?;
        let mut options = Self {
            region: region(&parsed)?,
            queue: queue::path(&parsed)?.parse()?,
            endpoint: None,
            account: None,
            profile: None,
            source: "pillarbox".into(),
            in_flight: 8,
            message_bytes_max: 256 * 1024,
            visibility: Duration::from_secs(30),
            hold: Duration::from_secs(3600),
            wait: WAIT_MAX,
            nack_delay: Duration::from_secs(1),
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
            "endpoint" => self.endpoint = Some(value.to_owned()),
            "account" => self.account = Some(value.to_owned()),
            "profile" => self.profile = Some(value.to_owned()),
            "source" => self.source = value.to_owned(),
            "in_flight" => self.in_flight = parameters::number(value)?,
            "message_bytes_max" => self.message_bytes_max = parameters::number(value)?,
            "visibility" => self.visibility = parse_duration(value)?,
            "hold" => self.hold = parse_duration(value)?,
            "wait" => self.wait = parse_duration(value)?,
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
            ("visibility", self.visibility),
            ("wait", self.wait),
            ("connect_timeout", self.connect_timeout),
            ("confirm_timeout", self.confirm_timeout),
        ])?;
        let limits = [
            ("visibility", self.visibility, VISIBILITY_MAX),
            ("hold", self.hold, VISIBILITY_MAX),
            ("nack_delay", self.nack_delay, VISIBILITY_MAX),
            ("wait", self.wait, WAIT_MAX),
        ];
        for (name, value, most) in limits {
            if value > most {
                return Err(Error::invalid(format!("{name} must be at most {} s", most.as_secs())));
            }
            if value.subsec_nanos() != 0 {
                return Err(Error::invalid(format!(
                    "{name} must be whole seconds; SQS knows no smaller unit"
                )));
            }
        }
        check_range("in_flight", self.in_flight, 1, IN_FLIGHT_MAX)?;
        check_range("prefetch", self.prefetch, 1, PREFETCH_MAX)?;
        check_range("message_bytes_max", self.message_bytes_max, MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX)?;
        if self.source.is_empty() {
            return Err(Error::invalid("source must not be empty"));
        }
        check_region(&self.region)?;
        if let Some(account) = &self.account
            && !(account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit()))
        {
            return Err(Error::invalid("account= must be the twelve digits of an AWS account"));
        }
        self.endpoint.as_deref().map_or(Ok(()), check_endpoint)?;
        let parked = self.parked.as_deref();
        parked.map_or(Ok(()), |queue| check_queue(queue).map_err(|error| error.context("parked=")))
    }

    /// Refuses what no sink can work with.
    pub(crate) fn check_sink(&self) -> Result<()> {
        self.check()?;
        match self.queue.constant() {
            Some("") => Err(missing()),
            Some(queue) => check_queue(queue),
            // What the entry brings is escaped and may be too long; the text between can be wrong as well.
            None => queue::check_template(&self.queue.to_string()),
        }
    }

    /// Refuses what no source can work with, and gives the name of the queue.
    pub(crate) fn check_source(&self) -> Result<&str> {
        self.check()?;
        match self.queue.constant() {
            Some("") => Err(missing()),
            None => Err(Error::invalid("a source cannot have a placeholder like {type} in its queue")),
            Some(queue) => check_queue(queue).map(|()| queue),
        }
    }

    /// Whether the queues are FIFO queues. What an entry brings has no dot, so it decides nothing.
    pub(crate) fn is_fifo(&self) -> bool {
        is_fifo(&self.queue.to_string())
    }

    /// The server, as texts for people name it.
    pub(crate) fn address(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => format!("SQS in region {:?}", self.region),
        }
    }
}

setters! {
    impl Options {
        /// Sets the region.
        region: String as into;
        /// Sets the queue's name.
        queue: Template;
        /// Sets the address of the server.
        endpoint: String as some_into;
        /// Sets the account that owns the queue.
        account: String as some_into;
        /// Sets the profile of the AWS configuration files whose credentials are used.
        profile: String as some_into;
        /// Sets the `source` attribute of the events that a sink sends.
        source: String as into;
        /// Sets how many requests a sink sends at the same time.
        in_flight: usize;
        /// Sets the most bytes of one message, and of all messages of one request.
        message_bytes_max: usize;
        /// Sets how long a message that a source has received is hidden from others.
        visibility: Duration;
        /// Sets how long a message is held at most.
        hold: Duration;
        /// Sets how long one request waits for messages.
        wait: Duration;
        /// Sets how long a message that was given back waits before it comes again.
        nack_delay: Duration;
        /// Sets how many unanswered messages a source may hold.
        prefetch: usize;
        /// Sets the queue to which a source sends messages that cannot be handled.
        parked: String as some_into;
        /// Sets how long connecting may take, and each request for something else than messages.
        connect_timeout: Duration;
        /// Sets how long the confirmation of a request may take.
        confirm_timeout: Duration;
        /// Sets the file with the certificates of the authorities to trust.
        ca: PathBuf as some_into;
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("server", &self.address())
            .field("queue", &self.queue.to_string())
            .field("profile", &self.profile)
            .field("parked", &self.parked)
            .finish_non_exhaustive()
    }
}

fn missing() -> Error {
    Error::invalid("the queue is missing; write it as the URL's path, for example sqs://eu-west-1/orders")
}

fn check_range(name: &str, value: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("{name} must be {least} to {most}")))
}

fn check_region(region: &str) -> Result<()> {
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !region.is_empty() && region.len() <= 63 && region.bytes().all(is_known) {
        return Ok(());
    }
    Err(Error::invalid(format!("{region:?} is no region; a region is a name like eu-west-1")))
}

fn check_endpoint(endpoint: &str) -> Result<()> {
    let wrong = |why: &str| Err(Error::invalid(format!("endpoint= {why}")));
    let Ok(url) = Url::parse(endpoint) else { return wrong("is not a URL like http://127.0.0.1:4566") };
    if !url.username().is_empty() || url.password().is_some() {
        return wrong(
            "must not have a user or a password; credentials come from the environment or a profile",
        );
    }
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return wrong("must begin with http:// or https:// and have a host");
    }
    Ok(())
}

fn region(url: &Url) -> Result<String> {
    if url.scheme() != "sqs" {
        let scheme = url.scheme();
        return Err(Error::invalid(format!("unknown scheme {scheme:?}; the allowed one is sqs")));
    }
    if url.cannot_be_a_base() {
        return Err(Error::invalid(
            "not a URL: it must begin with sqs://, for example sqs://eu-west-1/orders",
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::invalid(
            "the URL must not have a user or a password; credentials come from the environment or from profile=",
        ));
    }
    if url.port().is_some() {
        return Err(Error::invalid(
            "the URL must not have a port: its host is the region. Name a server with endpoint=",
        ));
    }
    if url.fragment().is_some() {
        return Err(Error::invalid("the URL must not have a fragment"));
    }
    let host = url.host_str().filter(|host| !host.is_empty());
    let region = host.ok_or_else(|| Error::invalid("the URL has no region; write sqs://eu-west-1/orders"))?;
    check_region(region)?;
    Ok(region.to_owned())
}

#[cfg(test)]
mod tests;
