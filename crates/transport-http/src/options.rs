//! Where a webhook is sent, and how: keys, limits, and what it may reach.
//!
//! The URL sets nothing but the endpoint: its query belongs to the endpoint too.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::Clock;
use pillarbox_core::{Error, Result, check_name, parameters, setters};
use pillarbox_host::SystemClock;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::endpoint::Endpoint;
use crate::resolver::{Resolver, SystemResolver};
use crate::secret::Secret;
use crate::signature;

/// The default of [`Options::concurrency`]: requests to one endpoint at the same time.
pub const CONCURRENCY_DEFAULT: usize = 32;
/// The highest value of [`Options::concurrency`].
pub const CONCURRENCY_MAX: usize = 1024;
/// The default of [`Options::ports`]: ports that a URL may name.
pub const PORTS_DEFAULT: [u16; 2] = [443, 80];
/// The default of [`Options::connect_timeout`]: how long the name lookup and the connection may take.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// The default of [`Options::timeout`]: how long an answer may take once the request is on its way.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
/// The default of [`Options::idle_max`]: how long a connection may be idle before it is no longer used.
///
/// It is below the five seconds after which Node.js closes an idle connection. A request that is written just
/// then is lost, and the sender cannot know whether it was read.
pub const IDLE_MAX_DEFAULT: Duration = Duration::from_secs(4);

/// Settings of a sink: `https://host/path?query`. Path and query may contain `{type}`, `{key}` and `{route}`.
/// The `Debug` output shows no key, no path and no query.
///
/// ```
/// # use pillarbox_transport_http::Options;
/// let options = Options::of_sink("https://example.org/hooks/{type}")?.source("/shop");
/// assert_eq!(options.source, "/shop");
/// assert!(Options::of_sink("example.org/hooks").is_err());
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The CloudEvents `source` of every event. Default: `pillarbox`.
    pub source: String,
    /// Keys for signing. Every request is signed with all of them. During a key rotation the newest comes
    /// first. Default: none, and requests are not signed.
    pub secrets: Vec<Secret>,
    /// Whether the endpoint may be in a private network or on this machine, where it needs no TLS. The URL
    /// may then name any port. Default: false.
    pub allow_private: bool,
    /// Whether `http://` may be used on the public internet, where it can be read in transit. Default: false.
    pub allow_http: bool,
    /// Ports that the URL may name. With `allow_private`, any port is allowed. Default: 443 and 80.
    pub ports: Vec<u16>,
    /// How many requests run at the same time, over all batches. With 1, everything stays in order. With
    /// more, the entries of each key stay in order. Default: [`CONCURRENCY_DEFAULT`].
    pub concurrency: usize,
    /// How long the name lookup and the connection may take. Default: [`CONNECT_TIMEOUT_DEFAULT`].
    pub connect_timeout: Duration,
    /// How long an answer may take once the request is on its way. Default: [`TIMEOUT_DEFAULT`].
    pub timeout: Duration,
    /// How long a connection may be idle before it is no longer used. Default: [`IDLE_MAX_DEFAULT`].
    pub idle_max: Duration,
    /// The largest payload in bytes that the endpoint takes. A larger one is rejected without being sent.
    /// Default: none.
    pub payload_bytes_max: Option<usize>,
    /// Certificate authorities to trust instead of the system's. Default: none, the system's are trusted.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The resolver that looks up host names. Default: the operating system.
    pub resolver: Arc<dyn Resolver>,
    /// The clock for `webhook-timestamp` and `Retry-After`. Default: the system's clock.
    pub clock: Arc<dyn Clock>,
    pub(crate) endpoint: Endpoint,
}

impl Options {
    /// Reads the URL of a sink. Whether the endpoint is allowed is checked when the sink is built.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part that is wrong.
    pub fn of_sink(url: &str) -> Result<Self> {
        Ok(Self {
            endpoint: Endpoint::new(url)?,
            source: "pillarbox".into(),
            secrets: Vec::new(),
            allow_private: false,
            allow_http: false,
            ports: PORTS_DEFAULT.to_vec(),
            concurrency: CONCURRENCY_DEFAULT,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            timeout: TIMEOUT_DEFAULT,
            idle_max: IDLE_MAX_DEFAULT,
            payload_bytes_max: None,
            authorities: Vec::new(),
            resolver: Arc::new(SystemResolver),
            clock: Arc::new(SystemClock),
        })
    }

    /// Adds a key for signing.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Trusts the certificate authorities of this PEM text instead of the system's.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) when the text contains no certificate.
    pub fn authorities_pem(mut self, pem: &[u8]) -> Result<Self> {
        let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let found = found.ok().filter(|found| !found.is_empty());
        self.authorities.extend(found.ok_or_else(|| Error::invalid("no certificate in the PEM text"))?);
        Ok(self)
    }

    /// Refuses what cannot work, before anything is sent.
    pub(crate) fn check(&self) -> Result<()> {
        check_name("source", &self.source)?;
        signature::check(&self.secrets)?;
        if self.concurrency == 0 || self.concurrency > CONCURRENCY_MAX {
            return Err(Error::invalid(format!("concurrency must be 1 to {CONCURRENCY_MAX}")));
        }
        parameters::more_than_zero([("connect_timeout", self.connect_timeout), ("timeout", self.timeout)])?;
        Ok(())
    }
}

setters! {
    impl Options {
        /// Sets the CloudEvents `source`.
        source: String as into;
        /// Sets whether the endpoint may be in a private network or on this machine.
        allow_private: bool;
        /// Sets whether `http://` may be used on the public internet.
        allow_http: bool;
        /// Sets the ports that the URL may name.
        ports: Vec<u16> as into;
        /// Sets how many requests run at the same time.
        concurrency: usize;
        /// Sets how long the name lookup and the connection may take.
        connect_timeout: Duration;
        /// Sets how long an answer may take once the request is on its way.
        timeout: Duration;
        /// Sets how long a connection may be idle before it is no longer used.
        idle_max: Duration;
        /// Sets the largest payload that the endpoint takes.
        payload_bytes_max: usize as some;
        /// Sets the resolver that looks up host names.
        resolver: Arc<dyn Resolver>;
        /// Sets the clock for `webhook-timestamp` and `Retry-After`.
        clock: Arc<dyn Clock>;
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("endpoint", &self.endpoint)
            .field("source", &self.source)
            .field("secrets", &self.secrets)
            .field("allow_private", &self.allow_private)
            .field("allow_http", &self.allow_http)
            .field("ports", &self.ports)
            .field("concurrency", &self.concurrency)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("idle_max", &self.idle_max)
            .field("payload_bytes_max", &self.payload_bytes_max)
            .field("authorities", &self.authorities.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: Options, with: &str) {
        let error = options.check().unwrap_err().to_string();
        assert!(error.contains(with), "{error}");
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let options = || Options::of_sink("https://example.org/").unwrap();
        options().check().unwrap();
        refused(options().concurrency(0), "concurrency must be 1 to 1024");
        refused(options().concurrency(1025), "concurrency");
        refused(options().connect_timeout(Duration::ZERO), "connect_timeout");
        refused(options().timeout(Duration::ZERO), "timeout");
        refused(options().source(""), "source");
        assert!(options().authorities_pem(b"canary").unwrap_err().to_string().contains("no certificate"));
    }

    #[test]
    fn debug_shows_no_key() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let options = Options::of_sink("https://example.org/canary?canary").unwrap();
        let shown = format!("{:?}", options.secret(secret));
        assert!(shown.contains("whsec_***") && !shown.contains("MfKQ9"), "{shown}");
        assert!(shown.contains("example.org") && !shown.contains("canary"), "{shown}");
    }
}
