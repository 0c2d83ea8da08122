//! The port that clients connect to: open, or refused, and ours all the time.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll, Waker};

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// A port that can be closed and opened again.
pub(super) struct Gate {
    address: SocketAddr,
    /// Bound to the same port and never listening: while the gate is closed, connecting is refused, and the
    /// system gives the port to nobody else.
    _placeholder: TcpSocket,
    listener: Option<TcpListener>,
}

impl Gate {
    pub(super) fn new() -> io::Result<Self> {
        let placeholder = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = placeholder.local_addr()?;
        let mut gate = Self { address, _placeholder: placeholder, listener: None };
        gate.open()?;
        Ok(gate)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens it if it is closed.
    pub(super) fn open(&mut self) -> io::Result<()> {
        if self.listener.is_none() {
            self.listener = Some(bind(self.address)?.listen(BACKLOG)?);
        }
        Ok(())
    }

    /// Closes it. Connections that nobody has accepted yet are reset.
    pub(super) fn close(&mut self) {
        self.listener = None;
    }

    /// Drops the connections that are not accepted yet. The waker of a task that waits for one is lost.
    pub(super) fn turn_away(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Ok(_)) = self.poll_accept(&mut context) {}
    }

    /// The next connection; pending while the gate is closed.
    pub(super) fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        match &self.listener {
            Some(listener) => listener.poll_accept(context).map_ok(|(stream, _)| stream),
            None => Poll::Pending,
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}
