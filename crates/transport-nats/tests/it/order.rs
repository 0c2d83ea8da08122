//! A relay that keeps the order of keys, while its connection is cut in the middle of what it writes, or the stream
//! refuses something there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use pillarbox_conformance::order::{Copies, CountingSink, Trouble, check_dead, check_order, relay_through};
use pillarbox_testkit::FaultProxy;
use pillarbox_transport_nats::NatsSink;

use crate::harness::{DEBIAN, LATEST, OwnStream, atomic, variable};

#[tokio::test]
async fn keys_keep_their_order_while_connections_are_cut_in_the_middle_of_batches() {
    for place in [OwnStream::atomic().await, OwnStream::new(DEBIAN).await] {
        let (proxy, through) = FaultProxy::before(&place.server);
        let sink = NatsSink::new(&place.via(&through)).unwrap();
        let entries = relay_through(&proxy, 8, Arc::new(sink)).await;
        check_order(&entries, &place.stored_ids().await, Copies::One);
    }
}

/// The largest message that the stream takes, and what the server takes.
const STREAM_BYTES_MAX: usize = 4 * 1024;
const SERVER_BYTES_MAX: usize = 1024 * 1024;
/// How many messages of a round the stream has room for, before it is full.
const ROOM: i64 = 150;

/// A stream that refuses something in the middle of a round: messages for their size, or all because it is full.
struct Refusing {
    place: OwnStream,
    sink: Arc<CountingSink>,
    /// The refusals of this kind before the round.
    before: AtomicU64,
}

impl Refusing {
    /// The code of what is refused.
    fn planted(round: u64) -> &'static str {
        if round.is_multiple_of(2) { "stream_full" } else { "too_large" }
    }

    /// Sets how many messages the stream may hold beside those that it has. `None`: any number.
    async fn make_room(&self, messages: Option<i64>) {
        let stream = self.place.stream().await;
        let info = stream.cached_info();
        let held = i64::try_from(info.state.messages).unwrap();
        let max_messages = messages.map_or(-1, |messages| held + messages);
        let config = Config { max_messages, ..info.config.clone() };
        self.place.context.update_stream(config).await.unwrap();
    }
}

impl Trouble for Refusing {
    async fn begin(&self, round: u64) {
        self.before.store(self.sink.failures(Self::planted(round)), Ordering::SeqCst);
        self.make_room((Self::planted(round) == "stream_full").then_some(ROOM)).await;
    }

    fn has_come(&self, round: u64) -> bool {
        self.sink.failures(Self::planted(round)) > self.before.load(Ordering::SeqCst)
    }

    async fn end(&self) {
        self.make_room(None).await;
    }

    /// Of the hot key and of others: too large for the server, which is known before anything is sent, and too large
    /// for the stream, which refuses it.
    fn payload(&self, round: u64, n: usize) -> Vec<u8> {
        let is_large = Self::planted(round) == "too_large" && n % 75 == 74;
        let bytes = match n % 75 {
            _ if !is_large => 1 + n % 50,
            _ if n < 200 => SERVER_BYTES_MAX,
            _ => STREAM_BYTES_MAX,
        };
        vec![b'7'; bytes]
    }
}

#[tokio::test]
async fn keys_keep_their_order_while_messages_in_their_middle_are_refused() {
    let full = |config| Config {
        max_message_size: i32::try_from(STREAM_BYTES_MAX).unwrap(),
        discard: DiscardPolicy::New,
        ..config
    };
    let batches = OwnStream::on(&variable(LATEST), |config| full(atomic(config))).await;
    for place in [batches, OwnStream::with(full).await] {
        let sink = CountingSink::of(NatsSink::new(&place.to()).unwrap());
        let refusing = Refusing { place, sink: Arc::clone(&sink), before: AtomicU64::new(0) };
        let entries = relay_through(&refusing, 4, sink).await;
        check_dead(&entries, "too_large", |entry| entry.payload.len() >= STREAM_BYTES_MAX);
        check_order(&entries, &refusing.place.stored_ids().await, Copies::One);
    }
}
