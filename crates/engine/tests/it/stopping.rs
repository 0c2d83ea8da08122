use std::time::Duration;

use pillarbox_core::{Event, Status};
use pillarbox_testkit::{Reply, Which};
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, options};

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_what_is_under_way() {
    let rig = Rig::new();
    rig.stage_many(10).await;
    rig.sink.set_latency(Duration::from_secs(3));
    let started = Instant::now();
    let tally = rig.relay(options()).run(sleep(Duration::from_secs(1))).await.unwrap();
    assert_eq!((tally.delivered, tally.released), (10, 0));
    assert_eq!(started.elapsed(), Duration::from_secs(3), "no longer than it takes");
}

#[tokio::test(start_paused = true)]
async fn a_stop_releases_the_rest_after_its_grace_without_spending_the_attempt() {
    let rig = Rig::new();
    let slow = rig.stage(Event::new("slow", "{}")).await;
    let ids = rig.stage_many(3).await;
    rig.sink.on(Which::Event(slow), Reply::Hang);
    let mut options = options();
    options.publish_timeout = None;
    options.grace = Duration::from_secs(2);
    let started = Instant::now();
    let tally = rig.relay(options).run(sleep(Duration::from_secs(1))).await.unwrap();
    assert_eq!((tally.delivered, tally.released), (3, 1));
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    let entry = rig.entry(slow);
    assert_eq!((entry.status, entry.attempts, entry.due_at), (Status::Pending, 0, None), "due at once");
    assert!(ids.iter().all(|id| rig.entry(*id).status == Status::Delivered));
    assert_eq!(rig.with_status(Status::InFlight), 0, "nothing is left leased");
}

#[tokio::test(start_paused = true)]
async fn an_idle_relay_stops_at_once() {
    let rig = Rig::new();
    let started = Instant::now();
    let tally = rig.relay(options()).run(sleep(Duration::from_millis(1_234))).await.unwrap();
    assert_eq!((tally.claimed, started.elapsed()), (0, Duration::from_millis(1_234)));
}
