//! The client of a sink or a source, made at its first use, and the queues that it has found, one question at a time.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::{Builder, ProvideCredentials, SharedHttpClient, StalledStreamProtectionConfig};
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Lazy, error_of_all};
use tokio::time::timeout;

use crate::error;
use crate::options::Options;

/// Most queues whose addresses are remembered. A key in the name of the queue may make many.
const QUEUES_MAX: usize = 1_000;
/// How long the search for credentials may take. It asks the machine's own services, each of which has a limit.
const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(15);

/// The connection of a sink or a source. The client keeps a pool, closes a connection whose answer nobody waits for any
/// more, and repeats nothing: what may have been sent twice must be known here.
pub(crate) struct Connection {
    access: Arc<Access>,
    /// Queues that were asked for and not distrusted since.
    queues: Mutex<HashMap<String, Arc<Lazy<Live>>>>,
}

/// What a question needs.
struct Access {
    options: Options,
    client: Lazy<Client>,
}

/// A queue that has answered.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) client: Client,
    /// The address of the queue. It is a name for the server, and not where requests go.
    pub(crate) url: String,
}

impl Connection {
    pub(crate) fn new(options: Options) -> Self {
        Self { access: Arc::new(Access { options, client: Lazy::new() }), queues: Mutex::default() }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.access.options
    }

    /// The queue of this name. The server is asked for it if it was not found yet, or was distrusted since. Whoever waits
    /// for it shares one question and its answer.
    pub(crate) async fn queue(&self, name: &str) -> Result<Live> {
        let queue = {
            let mut queues = self.queues();
            if queues.len() >= QUEUES_MAX && !queues.contains_key(name) {
                queues.clear();
            }
            Arc::clone(queues.entry(name.to_owned()).or_default())
        };
        let ask = || {
            let (access, name) = (Arc::clone(&self.access), name.to_owned());
            async move { access.find(&name).await }
        };
        queue.get(|_| true, ask).await.map_err(|error| error_of_all(&error))
    }

    /// The next use of this queue asks for it first: an answer did not come, and somebody must find out why. If somebody
    /// asks just now, that is enough.
    pub(crate) fn distrust(&self, name: &str) {
        let mut queues = self.queues();
        if queues.get(name).is_some_and(|queue| queue.now(|_| true).is_some()) {
            queues.remove(name);
        }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<String, Arc<Lazy<Live>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Access {
    async fn find(self: &Arc<Self>, name: &str) -> Result<Live, Arc<Error>> {
        let make = || {
            let access = Arc::clone(self);
            async move { client(&access.options).await.map_err(Arc::new) }
        };
        let client = self.client.get(|_| true, make).await?;
        let asking = client.get_queue_url().queue_name(name);
        let asking = asking.set_queue_owner_aws_account_id(self.options.account.clone()).send();
        let answer = within(self.options.connect_timeout, asking).await;
        let answer = answer.map_err(|trouble| Arc::new(trouble.into_error(&self.options, name)))?;
        Ok(Live { client, url: answer.queue_url.unwrap_or_default() })
    }
}

/// Waits for an answer for so long.
pub(crate) async fn within<T, E, F>(limit: Duration, asking: F) -> Result<T, error::Trouble>
where
    F: Future<Output = Result<T, aws_sdk_sqs::error::SdkError<E>>>,
    E: aws_sdk_sqs::error::ProvideErrorMetadata + std::error::Error + 'static,
{
    match timeout(limit, asking).await {
        Ok(answer) => answer.map_err(|cause| error::Trouble::of(&cause)),
        Err(_) => Err(error::Trouble::no_answer(limit)),
    }
}

async fn client(options: &Options) -> Result<Client> {
    let (http, region) = (http(options)?, Region::new(options.region.clone()));
    let mut loading =
        aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(http.clone()).region(region.clone());
    if let Some(profile) = &options.profile {
        // That profile and no other place, also where the environment has credentials.
        let places = ProviderConfig::without_region().with_region(Some(region)).with_http_client(http);
        let provider = ProfileFileCredentialsProvider::builder().configure(&places).profile_name(profile);
        loading = loading.credentials_provider(provider.build());
    }
    let shared = timeout(CREDENTIALS_TIMEOUT, loading.load())
        .await
        .map_err(|_| error::credentials(options, "no answer"))?;
    let provider = shared.credentials_provider().ok_or_else(|| error::credentials(options, "none"))?;
    // Asked for here, so that missing ones are told as such and not as a request that failed. The client asks again.
    match timeout(CREDENTIALS_TIMEOUT, provider.provide_credentials()).await {
        Ok(Ok(_)) => {}
        Ok(Err(cause)) => return Err(error::credentials(options, &error::chain(&cause))),
        Err(_) => return Err(error::credentials(options, "no answer in time")),
    }
    let timeouts = TimeoutConfig::builder().connect_timeout(options.connect_timeout).build();
    let mut config = Builder::from(&shared)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    if let Some(endpoint) = &options.endpoint {
        config = config.endpoint_url(endpoint);
    }
    Ok(Client::from_conf(config.build()))
}

/// TLS by rustls with ring, named here, so that it does not depend on what else is in the process.
fn http(options: &Options) -> Result<SharedHttpClient> {
    let trusted = match &options.ca {
        None => TrustStore::default(),
        Some(file) => {
            let unreadable =
                |error: &dyn std::fmt::Display| Error::invalid(format!("ca= cannot be read: {error}"));
            let pem = std::fs::read(file).map_err(|error| unreadable(&error))?;
            // The client would refuse it with a panic.
            if !pem.windows(CERTIFICATE.len()).any(|part| part == CERTIFICATE) {
                return Err(unreadable(&"the file has no certificate in it"));
            }
            TrustStore::empty().with_pem_certificate(pem)
        }
    };
    let context = TlsContext::builder().with_trust_store(trusted).build();
    let context = context
        .map_err(|error| Error::new(ErrorKind::Internal, "TLS cannot be set up").with_source(error))?;
    let builder = aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring));
    Ok(builder.tls_context(context).build_https())
}

/// How a certificate begins in a file of certificates.
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";
