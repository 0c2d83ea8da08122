//! What was published cannot be read back: an MQTT server keeps no record of it.

use async_trait::async_trait;
use pillarbox_core::port::{Pages, Transcript};
use pillarbox_core::{Error, ErrorKind, Result, RouteName};

use crate::options::Options;

/// The transcript of an MQTT topic, which cannot be opened. An MQTT server passes messages on to its subscribers and
/// keeps no record of them, so there is nothing to compare with the staged events.
pub struct MqttTranscript(());

impl MqttTranscript {
    /// The transcript of this URL, such as `mqtt://127.0.0.1:1883/orders`. It cannot be opened.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the part of the URL that is wrong.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_transcript(url)?)
    }

    /// The transcript of the topics to which a sink of this URL delivers the entries of a route. It cannot be opened.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the part of the URL that is wrong.
    pub fn of_sink(url: &str, _route: &RouteName) -> Result<Self> {
        Self::with_options(Options::of_sink(url)?)
    }

    /// A transcript with these settings. It cannot be opened.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the setting that cannot work.
    pub fn with_options(options: Options) -> Result<Self> {
        options.check()?;
        Ok(Self(()))
    }
}

#[async_trait]
impl Transcript for MqttTranscript {
    async fn open(&self) -> Result<Box<dyn Pages>> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "an MQTT server keeps no record of the messages that it passed on, so there is nothing to read. \
             Let a consumer write one CloudEvents JSON object per line, and compare with that file: \
             pillarbox verify --from file:PATH",
        ))
    }
}
