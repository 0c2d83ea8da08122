//! A network that loses answers: between the store and the server stands a small proxy that does so on request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, CountBy, CountByRequest, ExtendRequest, Filter, Store, Verdict};
use pillarbox_core::{ErrorKind, Retry};
use pillarbox_store_postgres::{Options, PostgresStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::harness::{Direct, server};
use crate::steps::{ROUTE, claim, claim_request, events, settle_request, stage, verdicts};

/// What happens to the next answer with this command tag in it.
#[derive(Clone, Copy)]
enum Fault {
    /// It is lost, and its connection with it.
    Cut(&'static str),
    /// It is lost, like all that follow, and nobody says so.
    Swallow(&'static str),
    /// All are lost.
    Silence,
}

/// Forwards bytes; what the server answers can be lost.
struct Proxy {
    url: String,
    fault: Arc<Mutex<Option<Fault>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = server();
        let (head, rest) = url.rsplit_once('@').unwrap();
        let (target, database) = rest.split_once('/').unwrap();
        let url = format!("{head}@{}/{database}", listener.local_addr().unwrap());
        let (target, fault) = (target.to_owned(), Arc::default());
        let faults = Arc::clone(&fault);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, target.clone(), Arc::clone(&faults)));
            }
        });
        Self { url, fault, _tasks: tasks }
    }

    fn inject(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
    }

    async fn store(&self, options: Options) -> PostgresStore {
        PostgresStore::connect(&self.url, options).await.unwrap()
    }
}

async fn forward(client: TcpStream, target: String, fault: Arc<Mutex<Option<Fault>>>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (mut client_read, mut client_write) = client.into_split();
    let (mut server_read, mut server_write) = server.into_split();
    let answers = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(bytes @ 1..) = server_read.read(&mut buffer).await {
            let answer = &buffer[..bytes];
            match meet(&fault, answer) {
                None if client_write.write_all(answer).await.is_err() => return,
                None | Some(Fault::Silence | Fault::Swallow(_)) => {}
                Some(Fault::Cut(_)) => return,
            }
        }
    };
    tokio::select! {
        () = answers => {}
        _ = copy(&mut client_read, &mut server_write) => {}
    }
}

/// The fault that this answer meets.
fn meet(fault: &Mutex<Option<Fault>>, answer: &[u8]) -> Option<Fault> {
    let mut fault = fault.lock().unwrap();
    let has = |tag: &str| answer.windows(tag.len()).any(|window| window == tag.as_bytes());
    match *fault {
        Some(Fault::Cut(tag)) if has(tag) => fault.take(),
        Some(Fault::Swallow(tag)) if has(tag) => fault.replace(Fault::Silence),
        Some(Fault::Silence) => Some(Fault::Silence),
        _ => None,
    }
}

async fn in_flight(harness: &Direct) -> i64 {
    harness.number("select count(*) from {s}.pillarbox_outbox where status = 'in_flight'").await
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_is_unknown_and_is_not_sent_again() {
    let (harness, proxy) = (Direct::start().await, Proxy::start().await);
    let store = proxy.store(harness.options.clone()).await;
    stage(&harness.outbox(ROUTE), store.pool(), events(4)).await;
    assert_eq!(claim(&store, 1).await.len(), 1);
    proxy.inject(Fault::Cut("UPDATE 1"));
    let error = store.claim(claim_request(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Unknown), "{error}");
    while in_flight(&harness).await < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(claim(&store, 10).await.len(), 2, "what the lost claim took waits for its lease");
}

#[tokio::test]
async fn a_settle_whose_answer_is_lost_is_unknown_and_fenced_when_sent_again() {
    let (harness, proxy) = (Direct::start().await, Proxy::start().await);
    let store = proxy.store(harness.options.clone()).await;
    stage(&harness.outbox(ROUTE), store.pool(), events(2)).await;
    let held = claim(&store, 2).await;
    let settle = |n: usize| settle_request(verdicts(&held[n..=n], &Verdict::Delivered));
    assert_eq!(store.settle(settle(0)).await.unwrap().accepted, 1);
    proxy.inject(Fault::Cut("SELECT 1"));
    let error = store.settle(settle(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Unknown), "{error}");
    while in_flight(&harness).await > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.settle(settle(1)).await.unwrap().fenced, [held[1].held()]);
}

#[tokio::test]
async fn what_may_be_done_twice_is_sent_again_by_itself() {
    let (harness, proxy) = (Direct::start().await, Proxy::start().await);
    let store = proxy.store(harness.options.clone()).await;
    stage(&harness.outbox(ROUTE), store.pool(), events(1)).await;
    let held = claim(&store, 1).await;
    let extend = || ExtendRequest { held: vec![held[0].held()], lease: Duration::from_secs(60), now: None };
    assert!(store.extend(extend()).await.unwrap().fenced.is_empty());
    proxy.inject(Fault::Cut("SELECT 1"));
    assert!(store.extend(extend()).await.unwrap().fenced.is_empty());
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 1);
    proxy.inject(Fault::Cut("SELECT 1"));
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 1);
    proxy.inject(Fault::Cut("SELECT 1"));
    let by_type = CountByRequest { filter: Filter::default(), by: CountBy::Type };
    assert_eq!(store.count_by(by_type).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_unknown_and_staging_again_tells() {
    let (harness, proxy) = (Direct::start().await, Proxy::start().await);
    let store = proxy.store(harness.options.clone()).await;
    let outbox = harness.outbox(ROUTE);
    let mut tx = store.pool().begin().await.unwrap();
    let staged = outbox.stage(&mut tx, events(1).remove(0)).await.unwrap();
    proxy.inject(Fault::Cut("COMMIT"));
    let error = outbox.commit(tx).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Unknown), "{error}");
    while harness.number("select count(*) from {s}.pillarbox_outbox").await < 1 {
        tokio::task::yield_now().await;
    }
    let mut tx = store.pool().begin().await.unwrap();
    assert!(outbox.stage(&mut tx, events(1).remove(0).id(staged.event_id())).await.unwrap().is_duplicate());
    outbox.commit(tx).await.unwrap();
}

#[tokio::test]
async fn a_server_that_goes_silent_is_a_timeout_and_not_a_hang() {
    let (harness, proxy) = (Direct::start().await, Proxy::start().await);
    let store = proxy.store(harness.options.clone().statement_timeout(Duration::from_millis(100))).await;
    assert!(claim(&store, 1).await.is_empty());
    proxy.inject(Fault::Swallow("UPDATE 0"));
    let error = store.claim(claim_request(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Timeout, Retry::Unknown), "{error}");
}
