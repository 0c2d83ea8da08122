//! Presence: relays announce themselves, and every process can read which circuit is open.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use pillarbox_core::limits::RELAY_SWEPT_AFTER;
use pillarbox_core::port::{AnnounceRequest, Outage, Presence, RelaySeen, RunId};
use pillarbox_core::{Backoff, CircuitState, ErrorKind, Failure, FailureKind, Jitter, Outcome, Timestamp};
use tokio::sync::oneshot;

use super::between::*;
use super::steps::*;
use crate::StoreHarness;
use pillarbox_testkit::{MemorySink, Reply, Which, eventually};

/// Ends the case, and says so, where relays have no place to say that they are there.
macro_rules! presence {
    ($harness:expr) => {
        match $harness.presence() {
            Some(presence) => presence,
            None => {
                $crate::case::skip("the store keeps no presence of relays");
                return;
            }
        }
    };
}

const LEASE_OF_PRESENCE: Duration = Duration::from_secs(7);

fn announcement(run: i64, now: Timestamp) -> AnnounceRequest {
    AnnounceRequest {
        run: RunId(run),
        route: route(ROUTE),
        owner: "worker-1".into(),
        mode: "run".into(),
        wake: "poll".into(),
        in_flight: 0,
        circuit: CircuitState::Closed,
        outage: None,
        lease: LEASE_OF_PRESENCE,
        on_dead: None,
        now: Some(now),
    }
}

fn outage() -> Outage {
    let failure = Failure::new(FailureKind::Down, "unreachable", "connection refused");
    Outage { lasted: Duration::from_secs(90), found: 4, failure }
}

async fn announce(presence: &Arc<dyn Presence>, request: AnnounceRequest) {
    presence.announce(request).await.unwrap();
}

async fn seen(presence: &Arc<dyn Presence>, now: Timestamp) -> Vec<RelaySeen> {
    presence.relays(Some(now)).await.unwrap()
}

/// Every field, and since when by the database's clock.
pub async fn an_announced_relay_is_listed_as_it_said<H: StoreHarness>(harness: &H) {
    let presence = presence!(harness);
    let now = harness.now().await;
    assert_eq!(seen(&presence, now).await, []);
    let open = AnnounceRequest {
        in_flight: 7,
        circuit: CircuitState::Open,
        outage: Some(outage()),
        ..announcement(-5, now)
    };
    announce(&presence, open).await;
    let later = now.saturating_add(SECOND);
    let mut wanted = RelaySeen::new(RunId(-5), route(ROUTE), "worker-1", now);
    (wanted.mode, wanted.wake) = ("run".into(), "poll".into());
    (wanted.in_flight, wanted.circuit) = (7, CircuitState::Open);
    wanted.down_since = Some(now.saturating_sub(Duration::from_secs(90)));
    (wanted.outages, wanted.reason) = (4, Some(outage().failure));
    wanted.unseen_for = SECOND;
    wanted.lease_until = now.saturating_add(LEASE_OF_PRESENCE);
    let listed = seen(&presence, later).await;
    assert_eq!(listed, [wanted]);
    assert!(listed[0].is_down() && !listed[0].is_gone());
}

/// The newest word counts; when it started is kept; a circuit that closed has no outage left.
pub async fn an_announcement_replaces_the_one_before<H: StoreHarness>(harness: &H) {
    let presence = presence!(harness);
    let now = harness.now().await;
    let down =
        AnnounceRequest { circuit: CircuitState::Open, outage: Some(outage()), ..announcement(1, now) };
    announce(&presence, down).await;
    let later = now.saturating_add(SECOND);
    announce(&presence, announcement(1, later)).await;
    let listed = seen(&presence, later).await;
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].started_at, listed[0].seen_at), (now, later));
    assert_eq!((listed[0].circuit, listed[0].down_since), (CircuitState::Closed, None));
    assert_eq!((listed[0].outages, &listed[0].reason), (0, &None));
}

/// Names are for people: two runs of one name stand side by side, in the order of route, owner and start.
pub async fn two_relays_of_one_name_are_two<H: StoreHarness>(harness: &H) {
    let presence = presence!(harness);
    let now = harness.now().await;
    let later = now.saturating_add(SECOND);
    announce(&presence, announcement(1, later)).await;
    announce(&presence, announcement(2, now)).await;
    announce(&presence, AnnounceRequest { owner: "worker-0".into(), ..announcement(3, later) }).await;
    announce(&presence, AnnounceRequest { route: route("mail"), ..announcement(4, later) }).await;
    let runs: Vec<_> = seen(&presence, later).await.iter().map(|relay| relay.run.0).collect();
    assert_eq!(runs, [4, 3, 2, 1]);
}

/// A clean stop leaves nothing behind; leaving twice is leaving once.
pub async fn a_withdrawn_relay_is_not_listed<H: StoreHarness>(harness: &H) {
    let presence = presence!(harness);
    let now = harness.now().await;
    announce(&presence, announcement(1, now)).await;
    announce(&presence, announcement(2, now)).await;
    for _ in 0..2 {
        presence.withdraw(RunId(1)).await.unwrap();
        let runs: Vec<_> = seen(&presence, now).await.iter().map(|relay| relay.run).collect();
        assert_eq!(runs, [RunId(2)]);
    }
}

/// A killed relay does not take its row with it: when its own lease has ended it shows as gone, later not at all, and the
/// next one sweeps it.
pub async fn a_silent_relay_is_gone_and_then_forgotten<H: StoreHarness>(harness: &H) {
    let presence = presence!(harness);
    let now = harness.now().await;
    let down =
        AnnounceRequest { circuit: CircuitState::Open, outage: Some(outage()), ..announcement(1, now) };
    announce(&presence, down).await;
    let gone =
        |listed: Vec<RelaySeen>| listed.iter().map(|relay| (relay.is_gone(), relay.is_down())).collect();
    let at = |after: Duration| now.saturating_add(after);
    let listed: Vec<_> = gone(seen(&presence, at(LEASE_OF_PRESENCE - SECOND)).await);
    assert_eq!(listed, [(false, true)]);
    let listed: Vec<_> = gone(seen(&presence, at(LEASE_OF_PRESENCE)).await);
    assert_eq!(listed, [(true, false)], "nobody knows how its destination is");
    announce(&presence, AnnounceRequest { lease: HOUR / 2, ..announcement(1, now) }).await;
    let listed: Vec<_> = gone(seen(&presence, at(LEASE_OF_PRESENCE)).await);
    assert_eq!(listed, [(false, false)], "it has said how long to wait");
    assert_eq!(seen(&presence, at(RELAY_SWEPT_AFTER)).await, []);
    announce(&presence, announcement(2, at(RELAY_SWEPT_AFTER))).await;
    // Back in time, only what is still stored can be seen.
    let runs: Vec<_> = seen(&presence, now).await.iter().map(|relay| relay.run).collect();
    assert_eq!(runs, [RunId(2)]);
}

/// As everywhere: refused with a typed error before anything is written.
pub async fn an_announcement_out_of_bounds_is_refused<H: StoreHarness>(harness: &H) {
    let presence = presence!(harness);
    let now = harness.now().await;
    for (request, kind) in [
        (AnnounceRequest { owner: String::new(), ..announcement(1, now) }, ErrorKind::Invalid),
        (AnnounceRequest { mode: "x".repeat(256), ..announcement(1, now) }, ErrorKind::TooLarge),
        (AnnounceRequest { wake: "a\nb".into(), ..announcement(1, now) }, ErrorKind::Invalid),
    ] {
        assert_eq!(presence.announce(request).await.unwrap_err().kind(), kind);
    }
    assert_eq!(seen(&presence, now).await, []);
}

/// From the start to the stop of a real relay, through an outage.
pub async fn a_running_relay_says_that_its_circuit_is_open_and_leaves_when_it_stops<H: StoreHarness>(
    harness: &H,
) {
    let presence = presence!(harness);
    let sink = MemorySink::new();
    sink.on(Which::Any, Reply::Answer(Outcome::down("refused", "nobody listens")));
    let mut hurried = options();
    let wait = Duration::from_millis(1);
    hurried.circuit = Backoff::new(wait, wait, Jitter::None).unwrap();
    let relay =
        relay_to(harness, sink.clone()).options(hurried).presence(Arc::clone(&presence)).build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let one = async || {
        let mut listed = presence.relays(None).await.unwrap();
        assert!(listed.len() <= 1, "{listed:?}");
        listed.pop()
    };
    let operator = async {
        eventually(PATIENCE, async || one().await.is_some()).await;
        let relay = one().await.unwrap();
        assert_eq!(
            (relay.route, relay.owner.as_str(), relay.mode.as_str()),
            (route(ROUTE), "relay-1", "run")
        );
        assert_eq!((relay.circuit, relay.outages, relay.reason), (CircuitState::Closed, 0, None));
        assert_eq!(stage(harness, events(2)).await.len(), 2);
        eventually(PATIENCE, async || one().await.is_some_and(|relay| relay.outages >= 2)).await;
        let relay = one().await.unwrap();
        assert!(relay.is_down() && relay.down_since.is_some(), "{relay:?}");
        assert_eq!(relay.reason.map(|failure| failure.code().to_owned()).as_deref(), Some("refused"));
        sink.heal();
        eventually(PATIENCE, async || one().await.is_some_and(|relay| !relay.is_down())).await;
        eventually(PATIENCE, async || undrained(harness).await == 0).await;
        stop.send(()).unwrap();
    };
    let (tally, ()) = join(relay.run(async { drop(stopped.await) }), operator).await;
    assert_eq!(tally.unwrap().delivered, 2);
    assert_eq!(presence.relays(None).await.unwrap(), []);
}
