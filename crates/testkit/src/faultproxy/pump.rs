//! One direction of one connection: reads, waits as long as the fault says, and writes.

use std::collections::VecDeque;
use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

use super::fault::{Direction, State};
use super::wire::Wire;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Chunks that are under way at once while there is latency. A full pipe is not read, as on a real wire.
const CHUNKS_MAX: usize = 256;

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// By itself: both sides have ended, or one of them failed.
    Ended,
    Cut,
    Reset,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Self::Ended
    }
}

/// Forwards until the sender has ended; then the receiver is told so.
pub(super) async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    direction: Direction,
    wire: &Wire,
    born_in: State,
) -> Result<(), Stop> {
    let mut told = wire.listen();
    // What was read and is not written yet, each with the time at which it was read.
    let mut under_way: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut ended = false;
    loop {
        let state = *told.borrow_and_update();
        // A black hole is not read from: what is lost on the way is sent again by TCP, and arrives after it.
        // A connection that was cut brings nothing more, although the earlier fault is over.
        let dark = state.is_dark(direction) || state.has_ended(&born_in);
        let due = under_way.front().map(|(read_at, _)| *read_at + state.latency());
        if let Some((_, bytes)) =
            under_way.pop_front_if(|_| !dark && due.is_some_and(|due| due <= Instant::now()))
        {
            let counted = state.is_counted(direction);
            let may = if counted { wire.spend(bytes.len()) } else { bytes.len() };
            // Counted before it is written, so that a receiver finds it counted.
            wire.count_forwarded(direction, may);
            to.write_all(bytes.get(..may).unwrap_or_default()).await?;
            if counted && wire.is_spent() {
                return Err(Stop::Cut);
            }
            continue;
        }
        if ended && under_way.is_empty() && !dark {
            to.shutdown().await?;
            return Ok(());
        }
        tokio::select! {
            biased;
            _ = told.changed() => {}
            () = sleep_until(due.unwrap_or_else(Instant::now)), if !dark && due.is_some() => {}
            read = from.read(&mut buffer), if !dark && !ended && under_way.len() < CHUNKS_MAX => match read? {
                0 => ended = true,
                read => under_way.push_back((Instant::now(), buffer.get(..read).unwrap_or_default().to_vec())),
            },
        }
    }
}
