//! Webhooks as routes configure them.

use std::sync::Arc;

use pillarbox_core::Result;
use pillarbox_core::port::Sink;

use super::Destination;

pub(crate) use transport::{PORTS_DEFAULT, Secret};

/// What a route says about its webhook, apart from the URL.
#[derive(Clone, Debug, Default)]
pub struct Webhook {
    /// Whether private and loopback addresses may be called, also without TLS.
    pub allow_private: bool,
    /// Whether `http://` may go to the public internet.
    pub allow_http: bool,
    /// Ports that the URL may name. `None`: the transport's default.
    pub ports: Option<Vec<u16>>,
    /// The keys that sign, the newest first.
    pub secrets: Vec<Secret>,
    /// The `source` attribute of what is delivered. `None`: the transport's default.
    pub source: Option<String>,
}

impl Webhook {
    /// The sink of a webhook.
    pub(crate) fn sink(&self, url: &str) -> Result<Arc<dyn Sink>> {
        transport::sink(self, url)
    }

    /// Refuses a webhook that is not allowed, before anything runs.
    pub fn check(&self, to: &Destination) -> Result<()> {
        match to {
            Destination::Http(url) => self.sink(&url.0).map(drop),
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "http")]
mod transport {
    use std::sync::Arc;

    use pillarbox_core::Result;
    use pillarbox_core::port::Sink;
    use pillarbox_transport_http::{HttpSink, Options};
    pub(crate) use pillarbox_transport_http::{PORTS_DEFAULT, Secret};

    use super::Webhook;

    pub(super) fn sink(webhook: &Webhook, url: &str) -> Result<Arc<dyn Sink>> {
        let options = Options::of_sink(url)?;
        let options = options.allow_private(webhook.allow_private).allow_http(webhook.allow_http);
        let options = match &webhook.ports {
            Some(ports) => options.ports(ports.clone()),
            None => options,
        };
        let options = match &webhook.source {
            Some(source) => options.source(source),
            None => options,
        };
        let options = webhook.secrets.iter().cloned().fold(options, Options::secret);
        Ok(Arc::new(HttpSink::with_options(options)?))
    }
}

/// A build without webhooks refuses every one of them, and every secret.
#[cfg(not(feature = "http"))]
mod transport {
    use std::str::FromStr;
    use std::sync::Arc;

    use pillarbox_core::port::Sink;
    use pillarbox_core::{Error, Result};

    use super::Webhook;
    use crate::destination::broker::left_out;

    pub(crate) const PORTS_DEFAULT: [u16; 2] = [443, 80];

    #[derive(Clone, Debug)]
    pub enum Secret {}

    impl FromStr for Secret {
        type Err = Error;

        fn from_str(_: &str) -> Result<Self> {
            Err(left_out("https", "http"))
        }
    }

    pub(super) fn sink(_: &Webhook, _: &str) -> Result<Arc<dyn Sink>> {
        Err(left_out("https", "http"))
    }
}
