//! Order per key, through everything that happens to a relay.

mod failing;
mod per_key;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::{Admin, Effect, Lanes, Selection, SelectionRequest, Sink, SinkCapabilities};
use pillarbox_core::{CRASHES_IN_COMPANY, Event, EventId, Outcome, Status};
use pillarbox_engine::{OnDead, Relay, RelayBuilder, RelayOptions};
use pillarbox_testkit::{MemoryOutbox, Reply, Which};
use tokio::time::sleep;

use crate::rig::{ROUTE, Rig, options};

impl Rig {
    fn ordered(&self, options: RelayOptions) -> RelayBuilder {
        let lanes: Arc<dyn Lanes> = Arc::new(self.store.clone());
        let sink: Arc<dyn Sink> = Arc::new(self.sink.clone());
        Relay::ordered(lanes, sink).route(ROUTE).options(options).owner("relay")
    }

    async fn stage_keyed(&self, key: &str, count: usize) -> Vec<EventId> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.stage(Event::new("order.placed", "{}").key(key)).await);
        }
        ids
    }

    /// What was received of each key, first deliveries only.
    fn first_received(&self) -> BTreeMap<String, Vec<EventId>> {
        let mut received: BTreeMap<String, Vec<EventId>> = BTreeMap::new();
        for entry in self.sink.received() {
            let of_key = received.entry(entry.key.unwrap_or_default()).or_default();
            if !of_key.contains(&entry.event_id) {
                of_key.push(entry.event_id);
            }
        }
        received
    }

    async fn requeue(&self, id: EventId) {
        let _ = self.store.requeue(of(id)).await.unwrap();
    }

    async fn discard(&self, id: EventId) {
        let _ = self.store.discard(of(id)).await.unwrap();
    }
}

fn of(id: EventId) -> SelectionRequest {
    let selection = Selection::Ids(vec![id]);
    SelectionRequest { selection, limit: None, actor: "operator".into(), effect: Effect::Apply, now: None }
}

fn fails() -> Reply {
    Reply::Answer(Outcome::failed("busy", ""))
}

fn in_order() -> SinkCapabilities {
    let mut capabilities = SinkCapabilities::default();
    capabilities.ordered_prefix = true;
    capabilities
}

#[tokio::test(start_paused = true)]
async fn entries_of_a_key_arrive_in_the_order_of_staging() {
    for capabilities in [SinkCapabilities::default(), in_order()] {
        let rig = Rig::new();
        rig.sink.set_capabilities(capabilities);
        let mut staged = BTreeMap::new();
        for round in 0..20 {
            for key in ["a", "b", "c", "d", "e"] {
                staged
                    .entry(key.to_owned())
                    .or_insert_with(Vec::new)
                    .extend(rig.stage_keyed(key, round % 4).await);
            }
        }
        let tally = rig.ordered(options()).build().unwrap().drain().await.unwrap();
        assert_eq!(tally.delivered, 150);
        assert_eq!(rig.first_received(), staged);
        assert_eq!(rig.with_status(Status::Delivered), 150);
    }
}

#[tokio::test(start_paused = true)]
async fn entries_without_a_key_are_never_held_back() {
    let rig = Rig::new();
    let ids = rig.stage_many(50).await;
    rig.sink.on(Which::Event(ids[0]), fails());
    let tally = rig.ordered(options()).build().unwrap().drain().await.unwrap();
    assert_eq!((tally.delivered, tally.retried), (49, 1));
}

#[tokio::test(start_paused = true)]
async fn a_failed_head_holds_back_its_own_key_only() {
    let rig = Rig::new();
    let bad = rig.stage_keyed("bad", 30).await;
    let good = rig.stage_keyed("good", 30).await;
    for nth in 1..=3 {
        rig.sink.on_nth(Which::Event(bad[0]), nth, fails());
    }
    let relay = rig.ordered(options()).build().unwrap();
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.delivered, tally.retried), (30, 1));
    assert_eq!(rig.first_received(), BTreeMap::from([("good".to_owned(), good.clone())]));
    // One second, two, four: then it works.
    relay.run(sleep(Duration::from_secs(10))).await.unwrap();
    assert_eq!(
        rig.first_received(),
        BTreeMap::from([("good".to_owned(), good), ("bad".to_owned(), bad.clone())])
    );
    assert_eq!(rig.entry(bad[0]).attempts, 4);
    assert_eq!(rig.entry(bad[1]).attempts, 1, "who waits for its head spends nothing");
}

#[tokio::test(start_paused = true)]
async fn a_dead_head_blocks_its_key_until_it_is_requeued_in_its_place() {
    let rig = Rig::new();
    let ids = rig.stage_keyed("k", 5).await;
    let other = rig.stage_keyed("other", 1).await;
    rig.sink.on(Which::Event(ids[1]), Reply::Answer(Outcome::rejected("no", "")));
    let relay = rig.ordered(options()).build().unwrap();
    relay.run(sleep(Duration::from_secs(60))).await.unwrap();
    let first = [("k".to_owned(), ids[..1].to_vec()), ("other".to_owned(), other.clone())];
    assert_eq!(rig.first_received(), BTreeMap::from(first));
    assert_eq!(rig.entry(ids[1]).status, Status::Dead);

    rig.sink.heal();
    let requeue = async {
        sleep(Duration::from_secs(30)).await;
        rig.requeue(ids[1]).await;
        sleep(Duration::from_secs(30)).await;
    };
    relay.run(requeue).await.unwrap();
    assert_eq!(rig.first_received()["k"], ids);
}

#[tokio::test(start_paused = true)]
async fn a_discarded_head_lets_its_key_go_on() {
    let rig = Rig::new();
    let ids = rig.stage_keyed("k", 3).await;
    rig.sink.on(Which::Event(ids[0]), Reply::Answer(Outcome::rejected("no", "")));
    let relay = rig.ordered(options()).build().unwrap();
    let discard = async {
        sleep(Duration::from_secs(30)).await;
        assert_eq!(rig.first_received(), BTreeMap::new());
        rig.discard(ids[0]).await;
        sleep(Duration::from_secs(30)).await;
    };
    relay.run(discard).await.unwrap();
    assert_eq!(rig.first_received()["k"], ids[1..]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_head_can_be_skipped() {
    let rig = Rig::new();
    let ids = rig.stage_keyed("k", 3).await;
    rig.sink.on(Which::Event(ids[0]), Reply::Answer(Outcome::rejected("no", "")));
    let mut options = options();
    options.on_dead = OnDead::Skip;
    rig.ordered(options).build().unwrap().drain().await.unwrap();
    assert_eq!(rig.first_received()["k"], ids[1..]);
}

#[tokio::test(start_paused = true)]
async fn a_lower_seq_that_commits_later_goes_before_what_was_staged_after_that() {
    // With one at a time, the first thing that is read after the commit is handed out at once.
    for batch in [1, 100] {
        let rig = Rig::new();
        let outbox = MemoryOutbox::new(&rig.store, ROUTE);
        let event = || Event::new("t", "{}").key("k");
        let mut held = rig.store.begin();
        let low = outbox.stage(&mut held, event()).await.unwrap().event_id();
        let before = rig.stage_keyed("k", 3).await;
        let mut options = options();
        options.batch = batch;
        let relay = rig.ordered(options).build().unwrap();
        let late = async {
            sleep(Duration::from_secs(20)).await;
            assert_eq!(rig.first_received()["k"], before, "an open transaction delays nothing");
            held.commit();
            let after = rig.stage_keyed("k", 2).await;
            sleep(Duration::from_secs(20)).await;
            assert_eq!(rig.first_received()["k"], [before.clone(), vec![low], after].concat());
        };
        relay.run(late).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_entry_waits_for_its_time() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("t", "{}").delay(Duration::from_secs(30))).await;
    let relay = rig.ordered(options()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 0);
    relay.run(sleep(Duration::from_secs(35))).await.unwrap();
    assert_eq!(rig.sink.received_ids(), [id]);
}

#[tokio::test(start_paused = true)]
async fn one_entry_of_a_key_is_under_way_where_a_failure_does_not_stop_what_follows() {
    let rig = Rig::new();
    rig.stage_keyed("k", 10).await;
    rig.sink.set_latency(Duration::from_secs(1));
    let relay = rig.ordered(options()).build().unwrap();
    let watch = async {
        for _ in 0..40 {
            sleep(Duration::from_millis(250)).await;
            assert!(relay.handle().state().in_flight <= 1);
        }
    };
    relay.run(watch).await.unwrap();
    assert!(rig.sink.received().len() >= 8);

    let rig = Rig::new();
    rig.sink.set_capabilities(in_order());
    rig.stage_keyed("k", 10).await;
    rig.sink.set_latency(Duration::from_secs(1));
    let relay = rig.ordered(options()).build().unwrap();
    let together = async {
        sleep(Duration::from_millis(500)).await;
        assert_eq!(relay.handle().state().in_flight, 10);
    };
    relay.run(together).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lanes_that_are_behind_are_read_first() {
    let rig = Rig::new();
    rig.sink.set_capabilities(in_order());
    // Some lanes have eight of these keys, some have none.
    let mut staged = Vec::new();
    for number in 0..8000 {
        staged.extend(rig.stage_keyed(&format!("k-{}", number % 200), 1).await);
    }
    let mut options = options();
    options.batch = 100;
    let tally = rig.ordered(options).build().unwrap().drain().await.unwrap();
    assert_eq!(tally.delivered, 8000);
    let received: BTreeMap<EventId, usize> =
        rig.sink.received().iter().enumerate().map(|(place, entry)| (entry.event_id, place)).collect();
    let late = staged.iter().enumerate().map(|(place, id)| received[id].saturating_sub(place)).max();
    assert!(late < Some(1500), "{late:?} were delivered before one that was staged before them");
}

#[tokio::test(start_paused = true)]
async fn a_drain_goes_on_with_a_key_although_another_one_takes_long() {
    let rig = Rig::new();
    let slow = rig.stage_keyed("slow", 2).await;
    let ids = rig.stage_keyed("k", 20).await;
    rig.sink.on(Which::Event(slow[0]), Reply::Hang);
    let watch = async {
        sleep(Duration::from_secs(5)).await;
        assert_eq!(rig.first_received(), BTreeMap::from([("k".to_owned(), ids)]));
    };
    let _ = rig.ordered(options()).build().unwrap().drain_until(watch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn relays_share_the_lanes_and_one_that_leaves_hands_its_own_over() {
    let rig = Rig::new();
    let (first, second) = (rig.ordered(options()).build().unwrap(), rig.ordered(options()).build().unwrap());
    let produce = async {
        for _ in 0..10 {
            for key in 0..40 {
                rig.stage_keyed(&format!("k-{key}"), 1).await;
            }
            sleep(Duration::from_secs(2)).await;
        }
    };
    let (one, (two, ())) = tokio::join!(first.run(sleep(Duration::from_secs(10))), async {
        tokio::join!(second.run(sleep(Duration::from_secs(40))), produce)
    });
    let (one, two) = (one.unwrap().delivered, two.unwrap().delivered);
    assert_eq!(one + two, 400);
    assert!(one > 50 && two > 200, "{one} and {two}");
    assert_eq!(rig.sink.received().len(), 400, "nothing twice");
    let keys = rig.first_received();
    assert!(keys.values().all(|ids| ids.len() == 10 && ids.is_sorted()), "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn relays_that_differ_in_lanes_deliver_everything_in_order_side_by_side() {
    for settings in [[64, 1], [1, 64], [2, 64]] {
        let rig = Rig::new();
        let relay = |name: &str, relays_max| {
            let mut options = options();
            options.relays_max = relays_max;
            rig.ordered(options).owner(name).build().unwrap()
        };
        let produce = async {
            for round in 0..10 {
                for key in 0..200 {
                    rig.stage_keyed(&format!("k-{key}"), 1).await;
                }
                sleep(Duration::from_secs(5)).await;
                // The first has left after half of them.
                assert_eq!(rig.sink.received().len(), 200 * (round + 1), "{settings:?}");
            }
        };
        let (first, second) = (relay("first", settings[0]), relay("second", settings[1]));
        let (one, two, ()) = tokio::join!(
            first.run(sleep(Duration::from_secs(22))),
            second.run(sleep(Duration::from_secs(60))),
            produce
        );
        assert_eq!(one.unwrap().delivered + two.unwrap().delivered, 2000, "{settings:?}");
        let keys = rig.first_received();
        assert!(keys.values().all(|ids| ids.len() == 10 && ids.is_sorted()), "{settings:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lanes_of_a_killed_relay_are_taken_over_and_its_attempt_counts() {
    let rig = Rig::new();
    let ids = rig.stage_keyed("k", 2).await;
    let alone = rig.stage_many(3).await;
    rig.sink.set_latency(Duration::from_secs(3600));
    let mut options = options();
    options.publish_timeout = None;
    {
        let killed = rig.ordered(options.clone()).build().unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(5), killed.run_once()).await.is_err());
    }
    rig.sink.set_latency(Duration::ZERO);
    let tally = rig.ordered(options.clone()).build().unwrap().run(sleep(options.lease * 2)).await.unwrap();
    assert_eq!(tally.delivered, 5);
    assert_eq!(rig.first_received()["k"], ids);
    for id in alone {
        assert_eq!(rig.entry(id).attempts, 2, "the spent attempt counts");
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_kills_every_relay_ends_as_dead_by_lanes_too() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("killer", "{}").key("k")).await;
    rig.sink.on(Which::Event(id), Reply::Hang);
    let mut options = options();
    options.max_attempts = 3;
    options.publish_timeout = None;
    options.lease = Duration::from_secs(8);
    let mut crashes = 0;
    while rig.entry(id).status != Status::Dead {
        let relay = rig.ordered(options.clone()).build().unwrap();
        let _ = tokio::time::timeout(Duration::from_secs(1), relay.run(std::future::pending())).await;
        sleep(options.lease * 2).await;
        crashes += 1;
        assert!(crashes < 10, "it loops for ever");
    }
    // Those that it may have had in company, and its own.
    assert_eq!(rig.sink.attempts().len(), CRASHES_IN_COMPANY as usize + 3);
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_is_down_costs_no_attempt_and_no_order() {
    let rig = Rig::new();
    let ids = rig.stage_keyed("k", 20).await;
    rig.sink.on(Which::Any, Reply::Answer(Outcome::down("refused", "")));
    let relay = rig.ordered(options()).build().unwrap();
    let heal = async {
        sleep(Duration::from_secs(60)).await;
        let why = rig.entry(ids[0]).last_error.expect("an operator sees why it waits");
        assert_eq!(why.to_string(), "down/refused");
        rig.sink.heal();
        sleep(Duration::from_secs(60)).await;
    };
    relay.run(heal).await.unwrap();
    assert_eq!(rig.first_received()["k"], ids);
    assert!(ids.iter().all(|id| rig.entry(*id).attempts == 1));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_entries_behind_a_failing_head_do_not_slow_the_others() {
    let rig = Rig::new();
    let hot = rig.stage_keyed("hot", 1_000).await;
    rig.sink.on(Which::Event(hot[0]), fails());
    let mut options = options();
    options.max_attempts = 1_000;
    let relay = rig.ordered(options).build().unwrap();
    let others = async {
        sleep(Duration::from_secs(5)).await;
        let ids = rig.stage_keyed("other", 30).await;
        // Whoever waits for the poll of an idle relay waits a second; nobody waits for the hot key.
        sleep(Duration::from_secs(3)).await;
        assert_eq!(rig.first_received(), BTreeMap::from([("other".to_owned(), ids)]));
    };
    relay.run(others).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_for_many_leases_is_not_handed_out_again() {
    let rig = Rig::new();
    let ids = rig.stage_keyed("k", 2).await;
    let mut options = options();
    options.publish_timeout = None;
    rig.sink.set_latency(options.lease * 5);
    let (relay, lease) = (rig.ordered(options.clone()).build().unwrap(), options.lease);
    relay.run(sleep(lease * 11)).await.unwrap();
    assert_eq!(rig.sink.received_ids(), ids);
    assert!(ids.iter().all(|id| rig.entry(*id).attempts == 1));
}

#[tokio::test(start_paused = true)]
async fn envelopes_carry_the_lane_and_the_fence_of_its_owner() {
    let rig = Rig::new();
    rig.stage_keyed("k", 1).await;
    rig.ordered(options()).build().unwrap().drain().await.unwrap();
    let before = rig.sink.received()[0].clone();
    rig.stage_keyed("k", 1).await;
    rig.ordered(options()).build().unwrap().drain().await.unwrap();
    let after = rig.sink.received()[1].clone();
    assert_eq!(before.lane, after.lane);
    assert!(before.lane.is_some() && before.fence < after.fence);
}
