//! A network that loses answers: between the store and the server stands a small proxy that does so on request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Filter, Store, Verdict};
use pillarbox_core::{ErrorKind, Retry};
use pillarbox_store_mysql::{MySqlStore, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::harness::MySqlHarness;
use crate::steps::{ROUTE, claim, event, settling, stage, wish};

/// A statement that is a commit and nothing else, as it is sent.
const COMMIT: &str = "\u{3}commit";

/// What happens from the next request with this text in it on. The server gets the request.
#[derive(Clone, Copy)]
enum Fault {
    /// The answer is lost, and its connection with it.
    Cut(&'static str),
    /// The answer is lost, like all that follow, and nobody says so.
    Swallow(&'static str),
}

/// Forwards bytes; what the server answers can be lost.
struct Proxy {
    url: String,
    fault: Arc<Mutex<Option<Fault>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    async fn before(harness: &MySqlHarness) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = harness.database.url();
        let (head, rest) = url.rsplit_once('@').unwrap();
        let (target, database) = rest.split_once('/').unwrap();
        // Without encryption, which would hide what is asked.
        let url = format!("{head}@{}/{database}?ssl-mode=DISABLED", listener.local_addr().unwrap());
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

    async fn store(&self, options: Options) -> MySqlStore {
        MySqlStore::connect(&self.url, options).await.unwrap()
    }
}

async fn forward(client: TcpStream, target: String, fault: Arc<Mutex<Option<Fault>>>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (mut client_read, mut client_write) = client.into_split();
    let (mut server_read, mut server_write) = server.into_split();
    // What this connection has met.
    let met: Mutex<Option<Fault>> = Mutex::default();
    let requests = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(bytes @ 1..) = client_read.read(&mut buffer).await {
            let request = &buffer[..bytes];
            if let Some(fault) = meet(&fault, request) {
                *met.lock().unwrap() = Some(fault);
            }
            if server_write.write_all(request).await.is_err() {
                return;
            }
        }
    };
    let answers = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(bytes @ 1..) = server_read.read(&mut buffer).await {
            let met = *met.lock().unwrap();
            match met {
                None if client_write.write_all(&buffer[..bytes]).await.is_err() => return,
                None | Some(Fault::Swallow(_)) => {}
                Some(Fault::Cut(_)) => return,
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
}

/// The fault that this request meets. It happens once.
fn meet(fault: &Mutex<Option<Fault>>, request: &[u8]) -> Option<Fault> {
    let mut fault = fault.lock().unwrap();
    let (Fault::Cut(text) | Fault::Swallow(text)) = (*fault)?;
    let request = request.to_ascii_lowercase();
    if request.windows(text.len()).any(|window| window == text.as_bytes()) { fault.take() } else { None }
}

async fn in_flight(harness: &MySqlHarness) -> i64 {
    harness.database.number("select count(*) from pillarbox_outbox where status = 'in_flight'").await
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_is_unknown_and_is_not_sent_again() {
    let harness = MySqlHarness::start().await;
    let proxy = Proxy::before(&harness).await;
    let store = proxy.store(harness.options.clone()).await;
    stage(&harness, 4).await;
    assert_eq!(claim(&store, 1).await.len(), 1);
    proxy.inject(Fault::Cut(COMMIT));
    let error = store.claim(wish(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Unknown), "{error}");
    while in_flight(&harness).await < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(claim(&store, 10).await.len(), 2, "what the lost claim took waits for its lease");
}

#[tokio::test]
async fn a_settle_whose_answer_is_lost_is_unknown_and_fenced_when_sent_again() {
    let harness = MySqlHarness::start().await;
    let proxy = Proxy::before(&harness).await;
    let store = proxy.store(harness.options.clone()).await;
    stage(&harness, 2).await;
    let held = claim(&store, 2).await;
    let settle = |n: usize| settling(&held[n..=n], &Verdict::Delivered);
    assert_eq!(store.settle(settle(0)).await.unwrap().accepted, 1);
    proxy.inject(Fault::Cut(COMMIT));
    let error = store.settle(settle(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Unknown), "{error}");
    while in_flight(&harness).await > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.settle(settle(1)).await.unwrap().fenced, [held[1].held()]);
}

#[tokio::test]
async fn a_read_whose_answer_is_lost_is_sent_again_by_itself() {
    let harness = MySqlHarness::start().await;
    let proxy = Proxy::before(&harness).await;
    let store = proxy.store(harness.options.clone()).await;
    stage(&harness, 1).await;
    proxy.inject(Fault::Cut("pillarbox_outbox"));
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 1);
    assert!(proxy.fault.lock().unwrap().is_none(), "nothing was lost");
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_unknown_and_staging_again_tells() {
    let harness = MySqlHarness::start().await;
    let proxy = Proxy::before(&harness).await;
    let store = proxy.store(harness.options.clone()).await;
    let outbox = harness.outbox(ROUTE);
    let mut tx = store.pool().begin().await.unwrap();
    let staged = outbox.stage(&mut tx, event(1)).await.unwrap();
    proxy.inject(Fault::Cut(COMMIT));
    let error = outbox.commit(tx).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Unknown), "{error}");
    while harness.database.number("select count(*) from pillarbox_outbox").await < 1 {
        tokio::task::yield_now().await;
    }
    let mut tx = store.pool().begin().await.unwrap();
    assert!(outbox.stage(&mut tx, event(1).id(staged.event_id())).await.unwrap().is_duplicate());
    outbox.commit(tx).await.unwrap();
}

#[tokio::test]
async fn a_server_that_goes_silent_is_a_timeout_and_not_a_hang() {
    let harness = MySqlHarness::start().await;
    let proxy = Proxy::before(&harness).await;
    stage(&harness, 1).await;
    let store = proxy.store(harness.options.clone().statement_timeout(Duration::from_millis(100))).await;
    proxy.inject(Fault::Swallow(COMMIT));
    let error = store.claim(wish(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Timeout, Retry::Unknown), "{error}");
}
