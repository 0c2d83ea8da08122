//! What the proxy and everything that it forwards share: the gate, the fault and the counters.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::fault::{Direction, Fault, State};
use super::gate::Gate;

pub(super) struct Wire {
    target: Mutex<SocketAddr>,
    gate: Mutex<Gate>,
    state: watch::Sender<State>,
    /// What is left of [`Fault::CutAfter`].
    budget: AtomicU64,
    accepted: AtomicU64,
    open: AtomicU64,
    broken: AtomicU64,
    to_server: AtomicU64,
    to_client: AtomicU64,
}

impl Wire {
    pub(super) fn new(target: SocketAddr, gate: Gate) -> Self {
        Self {
            target: Mutex::new(target),
            gate: Mutex::new(gate),
            state: watch::Sender::new(State::default()),
            budget: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            to_server: AtomicU64::new(0),
            to_client: AtomicU64::new(0),
        }
    }

    /// Where the next connections lead to.
    pub(super) fn target(&self) -> SocketAddr {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lead_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Changes the fault. When it returns, nothing that begins later sees the one before.
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    pub(super) fn set(&self, fault: Option<Fault>) {
        let mut gate = self.gate();
        let mut state = *self.state.borrow();
        match fault {
            Some(Fault::Cut) => state.cuts += 1,
            Some(Fault::Reset) => state.resets += 1,
            other => state.fault = other,
        }
        match fault {
            Some(Fault::Down) => state.cuts += 1,
            Some(Fault::CutAfter { bytes, .. }) => self.budget.store(bytes, Ordering::SeqCst),
            _ => {}
        }
        if state.is_closed() {
            gate.close();
        } else {
            gate.open().expect("the port is still ours");
        }
        // Connections that are not yet accepted are cut with the others.
        if matches!(fault, Some(Fault::Cut | Fault::Reset)) {
            gate.turn_away();
        }
        drop(gate);
        // Also wakes the accepting task: the gate may have lost its waker.
        self.state.send_replace(state);
    }

    /// The fault as it is now, and a way to hear of the next.
    pub(super) fn listen(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// The next connection.
    pub(super) async fn accept(&self) -> io::Result<TcpStream> {
        poll_fn(|context| self.gate().poll_accept(context)).await
    }

    /// How many of these bytes may still be forwarded.
    pub(super) fn spend(&self, bytes: usize) -> usize {
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX);
        let spent = |left: u64| Some(left.saturating_sub(wanted));
        let left = self.budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spent).unwrap_or(0);
        usize::try_from(left.min(wanted)).unwrap_or(bytes)
    }

    /// Whether nothing is left to forward.
    pub(super) fn is_spent(&self) -> bool {
        self.budget.load(Ordering::SeqCst) == 0
    }

    pub(super) fn count_forwarded(&self, direction: Direction, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        match direction {
            Direction::ToServer => self.to_server.fetch_add(bytes, Ordering::SeqCst),
            Direction::ToClient | Direction::Both => self.to_client.fetch_add(bytes, Ordering::SeqCst),
        };
    }

    pub(super) fn forwarded(&self, direction: Direction) -> u64 {
        let (to_server, to_client) =
            (self.to_server.load(Ordering::SeqCst), self.to_client.load(Ordering::SeqCst));
        match direction {
            Direction::ToServer => to_server,
            Direction::ToClient => to_client,
            Direction::Both => to_server + to_client,
        }
    }

    pub(super) fn count_accepted(&self) -> Open<'_> {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_add(1, Ordering::SeqCst);
        Open(self)
    }

    pub(super) fn count_broken(&self) {
        self.broken.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(super) fn open(&self) -> u64 {
        self.open.load(Ordering::SeqCst)
    }

    pub(super) fn broken(&self) -> u64 {
        self.broken.load(Ordering::SeqCst)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open connection, for as long as it is held.
pub(super) struct Open<'a>(&'a Wire);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}
