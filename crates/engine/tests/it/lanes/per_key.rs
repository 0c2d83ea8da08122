//! Several entries of one key under way together, to a sink that does not stop at a failure.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{Lanes, Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Status};
use pillarbox_engine::Relay;
use pillarbox_testkit::{MemorySink, Which};
use tokio::time::sleep;

use super::{fails, in_order};
use crate::rig::{ROUTE, Rig, options};

/// A sink that remembers how many entries each batch had.
struct Counting {
    sink: MemorySink,
    sizes: Arc<Mutex<Vec<usize>>>,
}

#[async_trait]
impl Sink for Counting {
    fn capabilities(&self) -> SinkCapabilities {
        self.sink.capabilities()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        self.sizes.lock().unwrap().push(batch.len());
        self.sink.deliver(batch, report).await;
    }
}

/// A relay with so many entries of a key at once, and the sizes of its batches.
fn relay(rig: &Rig, per_key: u32) -> (Relay, Arc<Mutex<Vec<usize>>>) {
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let lanes: Arc<dyn Lanes> = Arc::new(rig.store.clone());
    let sink = Counting { sink: rig.sink.clone(), sizes: Arc::clone(&sizes) };
    let relay = Relay::ordered(lanes, Arc::new(sink) as Arc<dyn Sink>).route(ROUTE);
    (relay.options(options().in_flight_per_key(per_key)).build().unwrap(), sizes)
}

#[tokio::test(start_paused = true)]
async fn as_many_of_a_key_as_allowed_are_in_one_batch_and_the_next_ones_wait() {
    for (count, most) in [(1, 1), (4, 4), (7, 7)] {
        let rig = Rig::new();
        let ids = rig.stage_keyed("k", 20).await;
        let (relay, sizes) = relay(&rig, count);
        let tally = relay.drain().await.unwrap();
        assert_eq!(tally.delivered, 20);
        assert_eq!(rig.first_received()["k"], ids);
        let sizes = sizes.lock().unwrap().clone();
        assert_eq!(sizes.iter().max(), Some(&most), "{sizes:?}");
        assert_eq!(sizes.len(), 20_usize.div_ceil(most), "{sizes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_comes_after_those_that_went_with_it_and_before_all_others() {
    let rig = Rig::new();
    let ids = rig.stage_keyed("k", 8).await;
    for nth in 1..=3 {
        rig.sink.on_nth(Which::Event(ids[1]), nth, fails());
    }
    let (relay, _) = relay(&rig, 4);
    relay.run(sleep(Duration::from_secs(10))).await.unwrap();
    let order = [0, 2, 3, 1, 4, 5, 6, 7].map(|index| ids[index]);
    assert_eq!(rig.first_received()["k"], order);
    assert_eq!(rig.with_status(Status::Delivered), 8);
    assert_eq!(rig.entry(ids[4]).attempts, 1, "who waits for the failed one spends nothing");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_stops_at_a_failure_gets_all_of_a_key_as_before() {
    let rig = Rig::new();
    rig.sink.set_capabilities(in_order());
    rig.stage_keyed("k", 20).await;
    let (relay, sizes) = relay(&rig, 4);
    relay.drain().await.unwrap();
    assert_eq!(*sizes.lock().unwrap(), [20]);
}
