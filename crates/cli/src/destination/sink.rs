//! From a destination to the sink behind it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pillarbox_core::port::Sink;
use pillarbox_core::{Result, RouteName};
use pillarbox_engine::sink::{FileSink, NullSink, StdoutSink};
use pillarbox_transport_amqp::AmqpSink;
use pillarbox_transport_http::{HttpSink, Options, Secret};
use pillarbox_transport_nats::NatsSink;
use pillarbox_transport_redis::RedisSink;

use super::Destination;

/// What a route says of its webhook beside the URL.
#[derive(Clone, Debug, Default)]
pub struct Webhook {
    /// Whether private and loopback addresses may be called, also without TLS.
    pub allow_private: bool,
    /// Whether `http://` may go to the public internet.
    pub allow_http: bool,
    /// Ports that the URL may name. None: those of the transport.
    pub ports: Option<Vec<u16>>,
    /// The keys that sign, the newest first.
    pub secrets: Vec<Secret>,
}

impl Webhook {
    fn sink(&self, url: &str) -> Result<HttpSink> {
        let options = Options::of_sink(url)?;
        let options = options.allow_private(self.allow_private).allow_http(self.allow_http);
        let options = match &self.ports {
            Some(ports) => options.ports(ports.clone()),
            None => options,
        };
        HttpSink::with_options(self.secrets.iter().cloned().fold(options, Options::secret))
    }

    /// Refuses a webhook that is not allowed, before anything runs.
    pub fn check(&self, to: &Destination) -> Result<()> {
        match to {
            Destination::Http(url) => self.sink(&url.0).map(drop),
            _ => Ok(()),
        }
    }
}

/// One sink per file, however many routes share it.
#[derive(Default)]
pub struct Sinks(BTreeMap<PathBuf, FileSink>);

impl Sinks {
    /// The sink of a route. Files are opened here; brokers are connected to when something is delivered.
    pub fn sink(&mut self, route: &RouteName, to: &Destination, webhook: &Webhook) -> Result<Arc<dyn Sink>> {
        Ok(match to {
            Destination::Null => Arc::new(NullSink),
            Destination::Stdout => Arc::new(StdoutSink),
            Destination::Amqp(url) => Arc::new(AmqpSink::new(&url.0)?),
            Destination::Nats(url) => Arc::new(NatsSink::new(&url.0)?),
            Destination::Redis(url) => Arc::new(RedisSink::new(&url.0)?),
            Destination::Http(url) => Arc::new(webhook.sink(&url.0)?),
            Destination::File(_) => Arc::new(self.file(to.file(route).unwrap_or_default())?),
        })
    }

    fn file(&mut self, path: PathBuf) -> Result<FileSink> {
        if let Some(sink) = self.0.get(&path) {
            return Ok(sink.clone());
        }
        let sink = FileSink::open(&path)?;
        self.0.insert(path, sink.clone());
        Ok(sink)
    }
}
