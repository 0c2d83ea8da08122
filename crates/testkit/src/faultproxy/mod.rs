//! A TCP proxy that fails as it is told: what stands between a relay and its server in tests of faults.

mod connection;
mod fault;
mod gate;
mod pump;
#[cfg(test)]
mod tests;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::AbortHandle;

pub use fault::{Direction, Fault};

use gate::Gate;
use wire::Wire;

/// A TCP proxy with faults. It listens on a free port of the loopback interface and forwards every connection
/// to one server. The fault can be changed while the proxy runs. If the proxy is dropped, all connections are
/// cut.
///
/// ```no_run
/// # async fn test(server: std::net::SocketAddr) {
/// use pillarbox_testkit::{Direction, Fault, FaultProxy};
///
/// let proxy = FaultProxy::start(server);
/// let url = format!("nats://{}", proxy.address());
/// // What the client sends arrives; what the server answers does not: confirmations that never come.
/// proxy.set(Fault::BlackHole(Direction::ToClient));
/// proxy.heal();
/// # }
/// ```
pub struct FaultProxy {
    address: SocketAddr,
    wire: Arc<Wire>,
    accepting: AbortHandle,
}

impl FaultProxy {
    /// A proxy without a fault. It runs in a task of the current runtime.
    ///
    /// # Panics
    /// Outside a runtime, or when no port is free.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    #[expect(clippy::disallowed_methods, reason = "whoever tests owns no future that could drive the proxy")]
    pub fn start(target: SocketAddr) -> Self {
        let gate = Gate::new().expect("the loopback has a free port");
        let address = gate.address();
        let wire = Arc::new(Wire::new(target, gate));
        let accepting = tokio::spawn(connection::accept(Arc::clone(&wire))).abort_handle();
        Self { address, wire, accepting }
    }

    /// A proxy in front of the server of this URL, and the URL that leads through the proxy. The host of the
    /// URL must be an address with a port, as test servers have it.
    ///
    /// # Panics
    /// As [`start`](Self::start), and when the URL has no address with a port.
    #[must_use]
    #[expect(clippy::panic, reason = "a test cannot go on without it")]
    pub fn before(url: &str) -> (Self, String) {
        let host = host_of(url);
        let Ok(target) = host.parse() else { panic!("the URL must name a host and a port") };
        let proxy = Self::start(target);
        let through = url.replacen(host, &proxy.address.to_string(), 1);
        (proxy, through)
    }

    /// The address to which clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards connections to this server from now on, as if a virtual address had moved. Open connections
    /// are cut.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn lead_to(&self, target: SocketAddr) {
        self.wire.lead_to(target);
        self.wire.set(Some(Fault::Reset));
    }

    /// Replaces the current fault. [`Fault::Cut`] and [`Fault::Reset`] happen once and leave the current
    /// fault in place.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn set(&self, fault: Fault) {
        self.wire.set(Some(fault));
    }

    /// Ends the fault. Data that a black hole held back is now forwarded. Connections that were cut stay cut.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn heal(&self) {
        self.wire.set(None);
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.wire.accepted()
    }

    /// How many connections are open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.wire.open()
    }

    /// How many connections a fault has ended so far.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.wire.broken()
    }

    /// How many bytes of this direction were forwarded so far.
    #[must_use]
    pub fn forwarded(&self, direction: Direction) -> u64 {
        self.wire.forwarded(direction)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The `127.0.0.1:80` of `http://user:password@127.0.0.1:80/path`.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}
