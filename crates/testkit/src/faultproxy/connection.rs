//! Accepting connections, and the life of one.

use std::sync::Arc;

use futures_util::future::try_join;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::fault::{Direction, State};
use super::pump::{Stop, pump};
use super::wire::Wire;

/// Accepts until it is dropped, and with it every connection.
pub(super) async fn accept(wire: Arc<Wire>) {
    let mut connections = JoinSet::new();
    let mut told = wire.listen();
    loop {
        // Read before the connection is there: a cut that comes in between cuts it.
        let born_in = *told.borrow_and_update();
        tokio::select! {
            biased;
            _ = told.changed() => {}
            accepted = wire.accept() => {
                if let Ok(client) = accepted {
                    connections.spawn(live(Arc::clone(&wire), client, born_in));
                }
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Forwards one connection until it ends by itself or by a fault.
async fn live(wire: Arc<Wire>, mut client: TcpStream, born_in: State) {
    let _open = wire.count_accepted();
    let Ok(mut server) = TcpStream::connect(wire.target()).await else {
        // As if there were no proxy: nobody is there.
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let stop = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let forward = try_join(
            pump(from_client, to_server, Direction::ToServer, &wire, born_in),
            pump(from_server, to_client, Direction::ToClient, &wire, born_in),
        );
        tokio::select! {
            biased;
            stop = stopped(wire.listen(), born_in) => stop,
            ended = forward => ended.err().unwrap_or(Stop::Ended),
        }
    };
    if stop != Stop::Ended {
        wire.count_broken();
    }
    if stop == Stop::Reset {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Waits for the next cut or reset.
async fn stopped(mut told: watch::Receiver<State>, born_in: State) -> Stop {
    loop {
        let state = *told.borrow_and_update();
        if state.resets != born_in.resets {
            return Stop::Reset;
        }
        if state.cuts != born_in.cuts || told.changed().await.is_err() {
            return Stop::Cut;
        }
    }
}
