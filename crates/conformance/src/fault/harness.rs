//! What the author of a sink writes so that the suites for faults can run on it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::Sink;
use pillarbox_core::{Entry, EventId};

use crate::delivery::ids;
use crate::process::OwnServer;
use pillarbox_testkit::FaultProxy;

/// A destination on a real server, in front of which a proxy can be placed.
#[async_trait]
pub trait FaultHarness: Send + Sync + Sized + 'static {
    /// The server's name in the output of the suite.
    const NAME: &'static str;

    /// Creates a fresh, empty destination of its own.
    async fn start() -> Self;

    /// The URL of the server. Its host is an address with a port.
    fn server(&self) -> String;

    /// A new sink to the destination. `server` is [`server`](Self::server), or the URL of a proxy in front of
    /// it.
    fn sink(&self, server: &str, timeouts: Timeouts) -> Arc<dyn Sink>;

    /// The event ids of all messages that arrived so far, in the order of arrival, with repetitions. This
    /// must not go through the proxy.
    async fn received(&self) -> Vec<EventId>;

    /// How the sink reports each fault.
    fn told(&self) -> Told {
        Told::default()
    }
}

/// The timeouts of a sink. `None` stands for the sink's default.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Timeouts {
    /// The timeout for a connection.
    pub connect: Option<Duration>,
    /// The timeout for a confirmation.
    pub confirm: Option<Duration>,
}

impl Timeouts {
    /// The timeouts that are set, as parameters of a URL: `connect_timeout=300ms&confirm_timeout=300ms`.
    #[must_use]
    pub fn parameters(&self) -> String {
        let parameter = |(name, timeout): (&str, Option<Duration>)| {
            timeout.map(|timeout| format!("{name}={}ms", timeout.as_millis()))
        };
        let both = [("connect_timeout", self.connect), ("confirm_timeout", self.confirm)];
        both.into_iter().filter_map(parameter).collect::<Vec<_>>().join("&")
    }

    pub(super) fn connect(millis: u64) -> Self {
        Self { connect: Some(Duration::from_millis(millis)), confirm: None }
    }

    pub(super) fn confirm(self, millis: u64) -> Self {
        Self { confirm: Some(Duration::from_millis(millis)), ..self }
    }
}

/// The kind and the code that a sink reports for each fault, such as `down/unreachable`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Told {
    /// The server has not confirmed in time. Default: `unknown/no_answer`.
    pub withheld: &'static str,
    /// The connection was lost after the message was written. Default: `unknown/connection_lost`.
    pub lost: &'static str,
    /// No server listens at the address. Default: `down/unreachable`.
    pub unreachable: &'static str,
    /// A server accepts the connection but does not answer. Default: `down/no_answer`.
    pub silent: &'static str,
    /// Whether the sink has one connection, and asks the server again after losing it. If the server then
    /// answers, the outcome is unknown. Default: true.
    pub asks: bool,
    /// Whether the sink's client itself repeats what was not confirmed, and the server writes it once. While the server is
    /// there, a lost connection then ends with a confirmation, and [`lost`](Self::lost) is not told. Default: false.
    pub repeats: bool,
    /// How many entries a sink that asks writes in one piece. Default: 20.
    pub together: usize,
    /// Whether the reason for [`unreachable`](Self::unreachable) names the server's address. Default: true.
    pub names_server: bool,
    /// The most connections that fifty deliveries at once open to a server that accepts and says nothing. Default: 2.
    pub connections_max: u64,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            withheld: "unknown/no_answer",
            lost: "unknown/connection_lost",
            unreachable: "down/unreachable",
            silent: "down/no_answer",
            asks: true,
            repeats: false,
            together: 20,
            names_server: true,
            connections_max: 2,
        }
    }
}

/// A server that belongs to one test, which may kill and pause it.
#[async_trait]
pub trait ServerHarness: Send + Sync + Sized + 'static {
    /// The server's name in the output of the suite.
    const NAME: &'static str;

    /// Starts a server that does not lose confirmed messages when it is killed.
    async fn start() -> Self;

    /// A new sink to the server.
    fn sink(&self, timeouts: Timeouts) -> Arc<dyn Sink>;

    /// The event ids of all messages that arrived so far, in the order of arrival, with repetitions.
    async fn received(&self) -> Vec<EventId>;

    /// The server's process. `None`: the harness kills and starts the server in its own way, and the case
    /// that pauses the server prints that it was skipped.
    fn process(&self) -> Option<&OwnServer>;

    /// Whether the server still has what it confirmed when it starts again. `false` is for a server that keeps
    /// everything in memory. The case that needs it prints that it was skipped.
    fn keeps(&self) -> bool {
        true
    }

    /// Kills the server as a power cut would.
    async fn kill(&self) {
        self.process().expect("a process").kill();
    }

    /// Starts the server again on the data that it stored, and waits until it answers.
    async fn start_again(&self) {
        self.process().expect("a process").restart().await;
    }
}

/// The input of a case: a destination, and a proxy in front of its server.
pub struct FaultInput<H> {
    /// The destination.
    pub harness: H,
    /// The proxy.
    pub proxy: FaultProxy,
    through: String,
}

impl<H: FaultHarness> FaultInput<H> {
    pub(super) async fn start() -> Self {
        let harness = H::start().await;
        let (proxy, through) = FaultProxy::before(&harness.server());
        Self { harness, proxy, through }
    }

    /// A sink through the proxy.
    pub(super) fn sink(&self, timeouts: Timeouts) -> Arc<dyn Sink> {
        self.harness.sink(&self.through, timeouts)
    }

    /// Every entry has arrived, and nothing else has; each once where the server knows repetitions by their ids.
    pub(super) async fn check_arrived(&self, batch: &[Entry], sink: &dyn Sink) {
        let received = self.harness.received().await;
        let distinct: BTreeSet<_> = received.iter().copied().collect();
        assert_eq!(distinct, ids(batch).into_iter().collect());
        let repeated = received.len() - distinct.len();
        assert!(repeated == 0 || !sink.capabilities().deduplicates, "{repeated} arrived twice");
    }
}
