//! Connecting, and giving up a connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lapin::tcp::OwnedTLSConfig;
use lapin::{Connection, ConnectionProperties};

use crate::error::Fault;
use crate::options::Options;

/// A connection that a caller may have given up.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    given_up: AtomicBool,
}

impl Link {
    /// Connects and logs in.
    pub(crate) async fn open(options: &Options) -> Result<Self, Fault> {
        let named = ConnectionProperties::default().with_connection_name("pillarbox".into());
        let trusted = OwnedTLSConfig { identity: None, cert_chain: authorities(options)? };
        let runtime = lapin::runtime::default_runtime()?;
        let opening = Connection::connect_uri_with_config(options.uri(), named, trusted, runtime);
        let connection = within(options.connect_timeout, "connect", opening).await?;
        Ok(Self { connection, given_up: AtomicBool::new(false) })
    }

    /// Whether it can be used, as far as anybody knows.
    pub(crate) fn is_up(&self) -> bool {
        self.connection.status().connected() && !self.given_up.load(Ordering::Relaxed)
    }

    /// The broker does not answer on it: the next use opens another.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// The certificates of the authorities to trust, read at each connect: the file may have been renewed.
fn authorities(options: &Options) -> Result<Option<String>, Fault> {
    let read = |file| std::fs::read_to_string(file).map_err(|error| Fault::unreadable("ca=", &error));
    options.ca.as_ref().map(read).transpose()
}

/// Bounds a question to the broker.
pub(crate) async fn within<T>(
    limit: Duration,
    doing: &str,
    question: impl Future<Output = lapin::Result<T>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(limit, question).await {
        Ok(answer) => answer.map_err(Fault::from),
        Err(_late) => Err(Fault::no_answer(doing, limit)),
    }
}
