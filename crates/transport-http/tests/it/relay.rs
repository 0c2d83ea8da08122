//! A relay from an outbox to a webhook receiver with an inbox: at least once over the wire, once in effect.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::post;
use pillarbox_core::port::{AcceptRequest, Accepted, Inbox as _};
use pillarbox_core::{Backoff, Event, EventId, Jitter, Status};
use pillarbox_engine::{CircuitState, Relay, RelayOptions};
use pillarbox_testkit::{MemoryInbox, MemoryOutbox, MemoryStore, eventually};
use pillarbox_transport_http::{HttpSink, Receiver, VerifiedEvent, Verifier};
use tokio::net::TcpListener;

use super::harness::{PATIENCE, SECRET, Server, private, secret};

/// Stages events of a few keys.
async fn stage(store: &MemoryStore, events: u32) {
    let outbox = MemoryOutbox::new(store, "orders");
    let mut tx = store.begin();
    for n in 0..events {
        outbox
            .stage(&mut tx, Event::new("order.placed", n.to_string()).key(format!("o-{}", n % 7)))
            .await
            .unwrap();
    }
    tx.commit();
}

fn options() -> RelayOptions {
    let soon = Backoff::new(Duration::from_millis(1), Duration::from_millis(20), Jitter::None).unwrap();
    let mut options = RelayOptions::broker();
    options.backoff = soon;
    options.circuit = soon;
    // Every delivery of this sink ends by itself.
    options.publish_timeout = None;
    options
}

fn relay(store: &MemoryStore, url: &str) -> Relay {
    let sink = HttpSink::with_options(private(url).secret(secret(SECRET))).unwrap();
    Relay::builder(Arc::new(store.clone()), Arc::new(sink))
        .route("orders")
        .options(options())
        .build()
        .unwrap()
}

/// The other service: an inbox in its own database, and what it did.
#[derive(Clone)]
struct Service {
    receiver: Receiver,
    database: MemoryStore,
    effects: Arc<Mutex<Vec<EventId>>>,
    arrived: Arc<AtomicUsize>,
}

impl FromRef<Service> for Receiver {
    fn from_ref(service: &Service) -> Self {
        service.receiver.clone()
    }
}

impl Service {
    fn new() -> Self {
        Self {
            receiver: Receiver::new(Verifier::new([secret(SECRET)]).unwrap()),
            database: MemoryStore::new(),
            effects: Arc::default(),
            arrived: Arc::default(),
        }
    }

    fn router(self) -> Router {
        Router::new().route("/hooks", post(take)).with_state(self)
    }
}

/// Accepts and applies in one transaction; the first answer to every third event is lost on its way back.
async fn take(State(service): State<Service>, VerifiedEvent(event): VerifiedEvent) -> StatusCode {
    service.arrived.fetch_add(1, Ordering::SeqCst);
    let mut tx = service.database.begin();
    let request = AcceptRequest::new("billing", event.event_id);
    let accepted = MemoryInbox::new(&service.database).accept(&mut tx, request).await.unwrap();
    if accepted == Accepted::Fresh {
        service.effects.lock().unwrap().push(event.event_id);
    }
    tx.commit();
    let third = event.json::<u32>().unwrap().payload % 3 == 0;
    if third && accepted == Accepted::Fresh { StatusCode::BAD_GATEWAY } else { StatusCode::NO_CONTENT }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_delivered_twice_is_applied_once() {
    let (store, service) = (MemoryStore::new(), Service::new());
    stage(&store, 200).await;
    let server = Server::routing(service.clone().router()).await;
    let relay = relay(&store, &server.url());
    eventually(PATIENCE, async || {
        relay.drain().await.unwrap();
        store.entries().iter().all(|entry| entry.status == Status::Delivered)
    })
    .await;
    let staged: BTreeSet<_> = store.entries().iter().map(|entry| entry.event_id).collect();
    let effects = service.effects.lock().unwrap().clone();
    assert_eq!(effects.len(), 200, "once each");
    assert_eq!(effects.into_iter().collect::<BTreeSet<_>>(), staged);
    assert_eq!(service.arrived.load(Ordering::SeqCst), 200 + 67, "every third came twice");
}

/// Runs a relay while `meanwhile` goes on, and stops it.
async fn run_while(relay: &Relay, meanwhile: impl Future<Output = ()>) {
    let stop = tokio::sync::Notify::new();
    let (tally, ()) = tokio::join!(relay.run(stop.notified()), async {
        meanwhile.await;
        stop.notify_one();
    });
    tally.unwrap();
}

async fn all_delivered(store: &MemoryStore) {
    eventually(PATIENCE, async || store.entries().iter().all(|entry| entry.status == Status::Delivered))
        .await;
}

fn attempts(store: &MemoryStore) -> Vec<u32> {
    store.entries().iter().map(|entry| entry.attempts).collect()
}

#[tokio::test]
async fn an_endpoint_that_is_down_for_a_while_spends_no_attempt() {
    let store = MemoryStore::new();
    stage(&store, 100).await;
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let relay = relay(&store, &format!("http://{address}/hooks"));
    let handle = relay.handle();
    run_while(&relay, async {
        // Long enough for far more probes than an entry has attempts.
        eventually(PATIENCE, async || handle.state().tally.released > 120).await;
        assert_ne!(handle.state().circuit, CircuitState::Closed);
        let released = store.entries();
        let error = released.iter().find_map(|entry| entry.last_error.as_ref()).unwrap();
        assert_eq!(error.code(), "refused");
        let listener = TcpListener::bind(address).await.unwrap();
        let server = Server::on(listener, async |_| StatusCode::OK.into_response());
        all_delivered(&store).await;
        assert_eq!(server.seen().len(), 100);
    })
    .await;
    assert!(attempts(&store).iter().all(|attempts| *attempts == 1), "{:?}", attempts(&store));
}

#[tokio::test]
async fn a_wrong_key_holds_the_route_and_lets_nothing_die() {
    let (store, service) = (MemoryStore::new(), Service::new());
    stage(&store, 20).await;
    let server = Server::routing(service.clone().router()).await;
    let sink = Arc::new(HttpSink::with_options(private(&server.url())).unwrap());
    let relay = Relay::builder(Arc::new(store.clone()), Arc::<HttpSink>::clone(&sink))
        .route("orders")
        .options(options())
        .build()
        .unwrap();
    let handle = relay.handle();
    run_while(&relay, async {
        eventually(PATIENCE, async || handle.state().tally.released > 40).await;
        assert!(store.entries().iter().all(|entry| entry.status != Status::Dead));
        sink.set_secrets([secret(SECRET)]).unwrap();
        all_delivered(&store).await;
    })
    .await;
    assert_eq!(service.effects.lock().unwrap().len(), 20);
}
