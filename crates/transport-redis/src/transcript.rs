//! Reading all that a stream holds, without a group.

use async_trait::async_trait;
use pillarbox_core::port::{Pages, Transcript};
use pillarbox_core::{Attributes, Error, ErrorKind, Result, RouteName};
use redis::{Cmd, Value};

use crate::binding;
use crate::connection::{Connection, Live};
use crate::error;
use crate::options::Options;
use crate::source::reply::{self, Read};

/// Entries of one question. They come with their payloads, so that many at once may be much.
const PAGE: usize = 200;

/// All entries that a stream holds, in their order. Reading does not affect the stream's consumers.
pub struct RedisTranscript {
    options: Options,
    stream: String,
}

impl RedisTranscript {
    /// The transcript of this URL, such as `redis://127.0.0.1:6379/0?stream=orders`.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the part of the URL that is wrong.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_transcript(url)?)
    }

    /// The transcript of the stream to which a sink of this URL delivers the entries of a route.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) when the entries do not all go to one stream.
    pub fn of_sink(url: &str, route: &RouteName) -> Result<Self> {
        let mut options = Options::of_sink(url)?;
        options.stream = options.stream.of_route(route);
        Self::with_options(options)
    }

    /// A transcript with these settings.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the setting that cannot work.
    pub fn with_options(options: Options) -> Result<Self> {
        let stream = options.check_transcript()?.to_owned();
        Ok(Self { options, stream })
    }
}

#[async_trait]
impl Transcript for RedisTranscript {
    async fn open(&self) -> Result<Box<dyn Pages>> {
        let connection = Connection::new(self.options.clone());
        let live = connection.live().await?;
        let mut pages = Entries {
            connection,
            live,
            stream: self.stream.clone(),
            start: "-".into(),
            end: String::new(),
            total: 0,
            deleted: 0,
        };
        pages.find_the_end().await?;
        Ok(Box::new(pages))
    }
}

/// A stream that is being read.
struct Entries {
    connection: Connection,
    live: Live,
    stream: String,
    /// Where to go on, and the newest entry when it was opened.
    start: String,
    end: String,
    total: u64,
    deleted: u64,
}

impl Entries {
    async fn find_the_end(&mut self) -> Result<()> {
        let mut command = redis::cmd("XINFO");
        command.arg("STREAM").arg(&self.stream);
        let told = match self.ask(&command).await {
            // There is no code of its own for it.
            Err(error) if error.message().contains("no such key") => {
                let text = format!("there is no stream {:?}", self.stream);
                return Err(Error::new(ErrorKind::NotFound, text).with_code("no_stream"));
            }
            told => fields(told?),
        };
        let number = |name: &str| match told.iter().find(|(field, _)| field == name) {
            Some((_, Value::Int(number))) => u64::try_from(*number).ok(),
            _ => None,
        };
        self.total = number("length").unwrap_or(0);
        // Servers before 7.0 do not count what was added.
        self.deleted = number("entries-added").map_or(0, |added| added.saturating_sub(self.total));
        let last = told.into_iter().find(|(field, _)| field == "last-generated-id");
        self.end = last.and_then(|(_, id)| reply::text(id)).ok_or_else(unreadable)?;
        Ok(())
    }

    async fn ask(&self, command: &Cmd) -> Result<Value> {
        let bound = self.connection.options().connect_timeout;
        let mut commands = self.live.commands.clone();
        match tokio::time::timeout(bound, command.query_async(&mut commands)).await {
            Ok(answer) => {
                answer.map_err(|cause| error::consuming(&cause, &format!("stream {:?}", self.stream)))
            }
            Err(_) => {
                Err(Error::new(ErrorKind::Timeout, format!("no answer within {bound:?}"))
                    .with_code("no_answer"))
            }
        }
    }
}

#[async_trait]
impl Pages for Entries {
    fn total(&self) -> Option<u64> {
        Some(self.total)
    }

    fn deleted(&self) -> u64 {
        self.deleted
    }

    async fn next(&mut self) -> Result<Vec<Attributes>> {
        let mut command = redis::cmd("XRANGE");
        command.arg(&self.stream).arg(&self.start).arg(&self.end).arg("COUNT").arg(PAGE);
        let read = reply::entries(self.ask(&command).await?);
        if let Some(last) = read.last() {
            self.start = format!("({}", last.id);
        }
        Ok(read.into_iter().map(|Read { fields, .. }| binding::read(fields).0).collect())
    }
}

/// Names and values, of either protocol.
fn fields(answer: Value) -> Vec<(String, Value)> {
    let pairs: Vec<(Value, Value)> = match answer {
        Value::Map(pairs) => pairs,
        other => {
            let mut flat = reply::list(other).into_iter();
            std::iter::from_fn(|| flat.next().zip(flat.next())).collect()
        }
    };
    pairs.into_iter().filter_map(|(name, value)| Some((reply::text(name)?, value))).collect()
}

fn unreadable() -> Error {
    Error::new(ErrorKind::Corrupt, "an answer of Redis cannot be read")
}
