//! A relay that keeps the order of keys, while its connection is cut in the middle of a `MULTI`, or the server refuses
//! something there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pillarbox_conformance::order::{Copies, CountingSink, Trouble, check_dead, check_order, relay_through};
use pillarbox_testkit::FaultProxy;
use pillarbox_transport_redis::RedisSink;

use crate::harness::{OwnStream, REDIS, Server, VALKEY};

#[tokio::test]
async fn keys_keep_their_order_while_connections_are_cut_in_the_middle_of_a_multi() {
    for server in [REDIS, VALKEY] {
        let place = OwnStream::new(server).await;
        let (proxy, through) = FaultProxy::before(&place.server);
        let sink = RedisSink::new(&place.via(&through)).unwrap();
        let entries = relay_through(&proxy, 8, Arc::new(sink)).await;
        check_order(&entries, &place.stored_ids().await, Copies::Several);
    }
}

/// The largest payload that the server takes, which is also the least that it can be told.
const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// The memory that is left when a round begins, in bytes times the number of the round: it ends at another place in each.
const ROOM_BYTES: u64 = 4 * 1024;

/// A server that refuses something in the middle of a round: entries for their size, or everything for want of memory.
struct Refusing {
    place: OwnStream,
    sink: Arc<CountingSink>,
    /// The refusals of this kind before the round.
    before: AtomicU64,
}

impl Refusing {
    /// The code of what is refused.
    fn planted(round: u64) -> &'static str {
        if round.is_multiple_of(2) { "oom" } else { "too_large" }
    }

    async fn limit_memory(&self, bytes: u64) {
        self.place.ask(&["CONFIG", "SET", "maxmemory", &bytes.to_string()]).await.unwrap();
    }

    async fn memory_used(&self) -> u64 {
        let mut info = redis::cmd("INFO");
        let info: String = info.arg("memory").query_async(&mut self.place.commands.clone()).await.unwrap();
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        used.unwrap().trim().parse().unwrap()
    }
}

impl Trouble for Refusing {
    async fn begin(&self, round: u64) {
        self.before.store(self.sink.failures(Self::planted(round)), Ordering::SeqCst);
        self.limit_memory(0).await;
        if Self::planted(round) == "oom" {
            self.limit_memory(self.memory_used().await + round * ROOM_BYTES).await;
        }
    }

    fn has_come(&self, round: u64) -> bool {
        self.sink.failures(Self::planted(round)) > self.before.load(Ordering::SeqCst)
    }

    async fn end(&self) {
        self.limit_memory(0).await;
    }

    /// Of the hot key and of others.
    fn payload(&self, round: u64, n: usize) -> Vec<u8> {
        let is_large = Self::planted(round) == "too_large" && n % 75 == 74;
        vec![b'7'; if is_large { PAYLOAD_BYTES_MAX + 1 } else { 1 + n % 50 }]
    }
}

#[tokio::test]
async fn keys_keep_their_order_while_entries_in_their_middle_are_refused() {
    let server = Server::start("proto-max-bulk-len 1mb\nmaxmemory-policy noeviction").await;
    let place = OwnStream::on(&server.url()).await;
    let sink = CountingSink::of(RedisSink::new(&place.to()).unwrap());
    let refusing = Refusing { place, sink: Arc::clone(&sink), before: AtomicU64::new(0) };
    let entries = relay_through(&refusing, 8, sink).await;
    check_dead(&entries, "too_large", |entry| entry.payload.len() > PAYLOAD_BYTES_MAX);
    check_order(&entries, &refusing.place.stored_ids().await, Copies::One);
}
