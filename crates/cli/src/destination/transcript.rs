//! From a destination to what it has received, where it keeps that.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind as IoKind, Read, Take};
use std::path::PathBuf;

use async_trait::async_trait;
use pillarbox_core::port::{Pages, Transcript};
use pillarbox_core::{Attributes, Error, ErrorKind, Result, RouteName};
use serde::Deserialize;

use super::broker::Broker;
use super::{BrokerUrl, Destination};

/// What can be read.
const READABLE: &str = "file:PATH, amqp(s)://…?queue= of a stream, kafka(s)://…/TOPIC, nats://…/SUBJECT?stream= and redis(s)://…?stream=";
/// Lines that are read together.
const PAGE: usize = 500;

/// A place to read, named by itself and checked at once.
#[derive(Clone, Debug)]
pub(crate) enum Readable {
    File(String),
    Broker(BrokerUrl),
}

impl std::fmt::Display for Readable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{path}"),
            Self::Broker(url) => url.fmt(f),
        }
    }
}

impl std::str::FromStr for Readable {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if let Some(broker) = Broker::of_scheme(&scheme) {
            return (broker.ends()?.transcript)(url).map(|_| Self::Broker(BrokerUrl(url.to_owned())));
        }
        match scheme.as_str() {
            "file" => match url.parse()? {
                Destination::File(path) => Ok(Self::File(path)),
                _ => Err(Error::invalid("file: needs the path of a file")),
            },
            _ => Err(Error::invalid(format!("this destination cannot be read; these can: {READABLE}"))),
        }
    }
}

impl Readable {
    /// What is there.
    pub(crate) fn transcript(&self, route: &RouteName) -> Result<Box<dyn Transcript>> {
        Ok(match self {
            Self::File(path) => {
                let file = Destination::File(path.clone()).file(route);
                Box::new(FileTranscript(file.unwrap_or_default()))
            }
            Self::Broker(url) => (url.ends()?.transcript)(&url.0)?,
        })
    }
}

impl Destination {
    /// What a route has put there.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) where nothing is kept, and [`Invalid`](ErrorKind::Invalid) where the
    /// URL does not say where it is.
    pub(crate) fn transcript(&self, route: &RouteName) -> Result<Box<dyn Transcript>> {
        let unsupported = |why: &str| Err(Error::new(ErrorKind::Unsupported, format!("{self}: {why}")));
        let named = |error: Error| {
            let hint = "; name what to read with --from URL";
            Error::new(error.kind(), format!("{self}: {}{hint}", error.message()))
        };
        Ok(match self {
            Self::File(_) => Box::new(FileTranscript(self.file(route).unwrap_or_default())),
            Self::Broker(url) => (url.ends()?.sent)(&url.0, route).map_err(named)?,
            Self::Null => return unsupported("keeps no messages, so there is nothing to compare"),
            Self::Stdout => {
                return unsupported(
                    "printed events are not kept; write them to a file and name it with --from file:PATH",
                );
            }
            Self::Http(_) => {
                return unsupported(
                    "the messages of a webhook are only known to its receiver; let the receiver write one \
                     CloudEvents JSON object per line, and name that file with --from file:PATH",
                );
            }
        })
    }
}

/// The lines of a file, each one CloudEvent.
struct FileTranscript(PathBuf);

#[async_trait]
impl Transcript for FileTranscript {
    async fn open(&self) -> Result<Box<dyn Pages>> {
        let cannot = |error: std::io::Error| {
            let kind = match error.kind() {
                IoKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Invalid,
            };
            Error::new(kind, format!("cannot read {}: {error}", self.0.display()))
        };
        let file = File::open(&self.0).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        if metadata.is_dir() {
            return Err(Error::invalid(format!("cannot read {}: it is a directory", self.0.display())));
        }
        Ok(Box::new(Lines(BufReader::with_capacity(256 * 1024, file).take(metadata.len()))))
    }
}

/// The file as long as it was when it was opened.
struct Lines(Take<BufReader<File>>);

/// What is looked at of a line.
#[derive(Deserialize)]
struct StoredEvent {
    id: String,
    pillarboxseq: Option<String>,
}

#[async_trait]
impl Pages for Lines {
    fn total(&self) -> Option<u64> {
        None
    }

    fn deleted(&self) -> u64 {
        0
    }

    async fn next(&mut self) -> Result<Vec<Attributes>> {
        let mut page = Vec::with_capacity(PAGE);
        let mut line = Vec::new();
        while page.len() < PAGE {
            line.clear();
            let read = self.0.read_until(b'\n', &mut line);
            read.map_err(|error| Error::new(ErrorKind::Unavailable, format!("reading stopped: {error}")))?;
            // A line without its end is still being written.
            if line.last() != Some(&b'\n') {
                break;
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                page.push(attributes(&line));
            }
        }
        Ok(page)
    }
}

fn attributes(line: &[u8]) -> Attributes {
    let Ok(StoredEvent { id, pillarboxseq }) = serde_json::from_slice(line) else { return Attributes::new() };
    let seq = pillarboxseq.map(|seq| ("pillarboxseq".to_owned(), seq));
    seq.into_iter().chain([("id".to_owned(), id)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, with: &str) {
        let route = RouteName::new("orders").unwrap();
        let error = url.parse::<Destination>().unwrap().transcript(&route).map(drop).unwrap_err().to_string();
        assert!(error.contains(with), "{url}: {error}");
    }

    #[test]
    fn what_keeps_nothing_says_what_can_be_verified_instead() {
        refused("null:", "keeps no messages");
        refused("stdout:", "--from file:PATH");
        refused("https://h/hooks", "--from file:PATH");
        refused("amqp://h/%2f?exchange=orders", "--from URL");
        refused("redis://h/0?stream=orders:{type}", "--from URL");
        refused("nats://h/{type}", "--from URL");
        refused("kafka://h/{type}", "--from URL");
    }

    #[tokio::test]
    async fn what_mqtt_and_sqs_passed_on_cannot_be_read_back() {
        let route = RouteName::new("orders").unwrap();
        let sent = |url: &str| url.parse::<Destination>().unwrap().transcript(&route).unwrap();
        let named = |url: &str| url.parse::<Readable>().unwrap().transcript(&route).unwrap();
        let (mqtt, sqs) = ("mqtt://h/orders", "sqs://eu-west-1/orders");
        for transcript in [sent(mqtt), named(mqtt), sent(sqs), named(sqs)] {
            let error = transcript.open().await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("--from file:PATH"), "{error}");
        }
    }

    #[test]
    fn a_place_is_checked_at_once() {
        for (url, with) in [
            ("http://h/x", "this destination cannot be read"),
            ("redis://h/0", "stream= is missing"),
            ("redis://h/0?stream=s&group=g", "unknown parameter \"group\""),
            ("amqp://h/%2f", "queue= is missing"),
            ("nats://h", "stream="),
            ("file:", "path of a file"),
        ] {
            let error = url.parse::<Readable>().unwrap_err().to_string();
            assert!(error.contains(with), "{url}: {error}");
        }
        assert!(!"redis://a:canary@h/0?stream=s".parse::<Readable>().unwrap().to_string().contains("canary"));
    }
}
