//! From a destination to the sink behind it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pillarbox_core::port::Sink;
use pillarbox_core::{Result, RouteName};
use pillarbox_engine::sink::{FileSink, NullSink, StdoutSink};

use super::{Destination, Webhook};

/// One sink per file, however many routes share it.
#[derive(Default)]
pub struct Sinks(BTreeMap<PathBuf, FileSink>);

impl Sinks {
    /// The sink of a route. Files are opened here; brokers are connected to when something is delivered.
    pub fn sink(&mut self, route: &RouteName, to: &Destination, webhook: &Webhook) -> Result<Arc<dyn Sink>> {
        Ok(match to {
            Destination::Null => Arc::new(NullSink),
            Destination::Stdout => Arc::new(StdoutSink),
            Destination::Broker(url) => (url.ends()?.sink)(&url.0)?,
            Destination::Http(url) => webhook.sink(&url.0)?,
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
