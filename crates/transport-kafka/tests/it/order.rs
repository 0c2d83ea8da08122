//! A relay that keeps the order of keys, while the fake cluster fails in the middle of what it writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use krafka::error::ErrorCode;
use krafka::testing::{ApiKey, Control, FakeBroker};
use pillarbox_conformance::order::{Copies, Trouble, check_order, relay_through};
use pillarbox_core::Status;
use pillarbox_transport_kafka::KafkaSink;

use crate::harness::event_id;

/// What a cluster of two servers does in the middle of a round, one after the other.
#[derive(Clone, Copy)]
enum Planted {
    Cut,
    CutAfterItWasWritten,
    Refused,
    RefusedForNow,
    TooLargeTogether,
    LeaderMoved,
}

const PLANTED: [Planted; 6] = [
    Planted::Cut,
    Planted::CutAfterItWasWritten,
    Planted::Refused,
    Planted::RefusedForNow,
    Planted::TooLargeTogether,
    Planted::LeaderMoved,
];
/// Requests of a round that pass before it goes wrong.
const PASS: u32 = 3;

struct Cluster {
    broker: FakeBroker,
    /// How often a hook was asked for its fault.
    come: Arc<AtomicU64>,
}

impl Cluster {
    fn planted(round: u64) -> Planted {
        let index = usize::try_from(round).unwrap() - 1;
        PLANTED[index % PLANTED.len()]
    }

    /// The next requests pass, and the one behind them fails so.
    fn fail_once(&self, fault: impl Fn() -> Control + Send + Sync + 'static) {
        let come = Arc::clone(&self.come);
        self.broker.on_times(ApiKey::Produce, PASS, |_| Control::Pass);
        self.broker.on_once(ApiKey::Produce, move |_| {
            come.fetch_add(1, Ordering::SeqCst);
            fault()
        });
    }
}

impl Trouble for Cluster {
    async fn begin(&self, round: u64) {
        match Self::planted(round) {
            Planted::Cut => self.fail_once(|| Control::Disconnect),
            Planted::CutAfterItWasWritten => {
                self.fail_once(|| Control::ApplyThen(Box::new(Control::Disconnect)));
            }
            Planted::Refused => self.fail_once(|| Control::Error(ErrorCode::InvalidRecord)),
            Planted::RefusedForNow => self.fail_once(|| Control::Error(ErrorCode::UnknownServerError)),
            Planted::TooLargeTogether => self.fail_once(|| Control::Error(ErrorCode::MessageTooLarge)),
            Planted::LeaderMoved => {
                let nodes = self
                    .broker
                    .with_state(|state| state.brokers.iter().map(|node| node.node_id).collect::<Vec<_>>());
                for partition in 0..2 {
                    let leader = self.broker.with_state(|state| {
                        state.partition("orders", partition).map(|partition| partition.leader)
                    });
                    let other = nodes.iter().find(|node| Some(**node) != leader).unwrap();
                    self.broker.set_leader("orders", partition, *other);
                }
                self.fail_once(|| Control::Pass);
            }
        }
    }

    fn has_come(&self, round: u64) -> bool {
        self.come.load(Ordering::SeqCst) >= round
    }

    async fn end(&self) {
        self.broker.clear_hooks();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_keep_their_order_while_batches_are_refused_too_large_cut_or_their_leader_moves() {
    let broker = FakeBroker::start_cluster(2).await.unwrap();
    broker.create_topic("orders", 2);
    let url = format!("kafka://{}/orders?batch_bytes=4096", broker.bootstrap_servers());
    let sink = KafkaSink::new(&url).unwrap();
    let cluster = Cluster { broker, come: Arc::default() };
    let rounds = 2 * PLANTED.len() as u64;
    let entries = relay_through(&cluster, rounds, Arc::new(sink)).await;
    let dead = entries.iter().filter(|entry| entry.status == Status::Dead);
    let codes: Vec<&str> = dead.filter_map(|entry| Some(entry.last_error.as_ref()?.code())).collect();
    // How many share the refused request is a matter of time, but each of the two rounds has one.
    assert!(codes.len() >= 2 && codes.iter().all(|code| *code == "invalid_record"), "{codes:?}");
    let received: Vec<_> = cluster.broker.all_records("orders").unwrap().iter().map(event_id).collect();
    check_order(&entries, &received, Copies::One);
}
