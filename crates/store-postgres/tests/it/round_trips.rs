//! What settling costs on the wire: between the store and the server stands a forwarder that counts answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{
    self, AcceptRequest, Accepted, ClaimRequest, Entropy as _, Keep, SagaHooks, Sagas, StepOutcome,
    StepSettleRequest, StepSettlement, Steps, Store, Transactions as _, Verdict,
};
use pillarbox_core::{Entry, Failure, FailureKind, Reference, Saga, Step};
use pillarbox_host::OsEntropy;
use pillarbox_store_postgres::{Mode, PostgresStore};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Postgres, Transaction};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::harness::{Direct, server};
use crate::steps::{ROUTE, claim, claim_request, dead, events, settle_request, stage, verdicts};

/// Entries of one settle: a batch costs what one costs.
const BATCH: u32 = 30;

type Hooks = SagaHooks<Transaction<'static, Postgres>>;

/// Forwards bytes and counts how often the server has answered.
struct Counter {
    url: String,
    answers: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Counter {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = server();
        let (head, rest) = url.rsplit_once('@').unwrap();
        let (target, database) = rest.split_once('/').unwrap();
        // In plain text, from the first byte on: what is encrypted cannot be counted.
        let url = format!("{head}@{}/{database}?sslmode=disable", listener.local_addr().unwrap());
        let (target, answers) = (target.to_owned(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&answers);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, target.clone(), Arc::clone(&counted)));
            }
        });
        Self { url, answers, _tasks: tasks }
    }

    fn answers(&self) -> u64 {
        self.answers.load(Ordering::SeqCst)
    }
}

async fn forward(client: TcpStream, target: String, counted: Arc<AtomicU64>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (mut client_read, mut client_write) = client.into_split();
    let (mut server_read, mut server_write) = server.into_split();
    let answers = async {
        let mut said_more = false;
        // Message by message: a byte of its kind, and its length with itself included.
        while let Ok(kind) = server_read.read_u8().await {
            let Ok(length) = server_read.read_u32().await else { return };
            let mut message = vec![kind];
            message.extend(length.to_be_bytes());
            message.resize(length as usize + 1, 0);
            if server_read.read_exact(&mut message[5..]).await.is_err() {
                return;
            }
            if kind == b'Z' {
                // An answer that is nothing but `ready` is the pool's test of its connection. Counted before it is forwarded, so that who has it finds it counted.
                counted.fetch_add(u64::from(said_more), Ordering::SeqCst);
            }
            said_more = kind != b'Z';
            if client_write.write_all(&message).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = answers => {}
        _ = copy(&mut client_read, &mut server_write) => {}
    }
}

/// A store behind the counter, on the tables of a harness.
struct Wire {
    harness: Direct,
    counter: Counter,
    store: PostgresStore,
}

impl Wire {
    async fn start(mode: Mode) -> Self {
        let (harness, counter) = (Direct::start().await, Counter::start().await);
        let mut options = harness.options.clone();
        options.mode = Some(mode);
        // One connection: what one call has prepared on it, the next finds there.
        let pool = PgPoolOptions::new().max_connections(1).connect(&counter.url).await.unwrap();
        let store = PostgresStore::new(pool, options).unwrap();
        Self { harness, counter, store }
    }

    /// The round trips of this work.
    async fn trips(&self, work: impl Future<Output = ()>) -> u64 {
        let before = self.counter.answers();
        work.await;
        self.counter.answers() - before
    }

    async fn plain(&self, verdict: &Verdict) -> u64 {
        stage(&self.harness.outbox(ROUTE), self.harness.store().pool(), events(BATCH)).await;
        let held = claim(&self.store, BATCH).await;
        let request = settle_request(verdicts(&held, verdict));
        self.trips(async { assert_eq!(self.store.settle(request).await.unwrap().accepted, u64::from(BATCH)) })
            .await
    }

    /// Stages sagas of this many steps, and claims the entries of all.
    async fn steps(&self, sagas: u32, steps: u32) -> Vec<Entry> {
        let mut tx = self.harness.begin().await;
        for n in 0..sagas {
            let mut saga = Saga::group("erase", Reference::new("person", format!("p-{n}")));
            for step in 0..steps {
                saga = saga.step(Step::new(format!("step-{step}"), "erase"));
            }
            let staged = self.harness.outbox(ROUTE).stage_saga(&mut tx, saga.build().unwrap()).await;
            let _ = staged.unwrap();
        }
        self.harness.commit(tx).await;
        let request = ClaimRequest { steps: Steps::Take, ..claim_request(sagas * steps) };
        let held = self.store.claim(request).await.unwrap().entries;
        assert_eq!(held.len(), (sagas * steps) as usize);
        held
    }

    async fn settle(&self, held: &[Entry], outcome: &StepOutcome, keep: Keep, hooks: Hooks) -> u64 {
        let settlements = held
            .iter()
            .map(|entry| StepSettlement { held: entry.held(), outcome: outcome.clone() })
            .collect();
        let request = StepSettleRequest { owner: "worker-1".into(), settlements, keep, now: None };
        let sagas = self.store.sagas().hooks(hooks);
        self.trips(async {
            let settled = sagas.settle_steps(request).await.unwrap();
            assert_eq!(settled.accepted, held.len() as u64);
        })
        .await
    }
}

fn done() -> StepOutcome {
    StepOutcome::Done { data: None }
}

fn given_up() -> StepOutcome {
    StepOutcome::Dead { failure: Failure::new(FailureKind::Rejected, "unroutable", "nobody wants it") }
}

/// A callback that asks the server nothing: what it costs is what the store adds for it.
fn with_callback() -> Hooks {
    struct Silent;
    #[async_trait::async_trait]
    impl port::SagaEnd<Transaction<'static, Postgres>> for Silent {
        async fn ended(
            &self,
            _: &mut Transaction<'static, Postgres>,
            _: &pillarbox_core::SagaRecord,
        ) -> pillarbox_core::Result<()> {
            Ok(())
        }
    }
    SagaHooks::default().end(Arc::new(Silent))
}

#[tokio::test]
async fn settling_a_step_costs_one_round_trip_more_than_settling_a_plain_entry() {
    let wire = Wire::start(Mode::Direct).await;
    // The first of each is also prepared.
    wire.plain(&Verdict::Delivered).await;
    wire.plain(&dead()).await;
    let first = wire.steps(1, 1).await;
    wire.settle(&first, &done(), Keep::UntilPurged, Hooks::default()).await;

    let (delivered, buried) = (wire.plain(&Verdict::Delivered).await, wire.plain(&dead()).await);
    assert_eq!((delivered, buried), (1, 1), "the counter counts");
    for keep in [Keep::UntilPurged, Keep::No] {
        let one = wire.steps(1, 3).await;
        for (n, entry) in one.iter().enumerate() {
            let trips = wire.settle(std::slice::from_ref(entry), &done(), keep, Hooks::default()).await;
            assert!(trips <= delivered + 1, "{trips} for step {n}, {keep:?}; the last completes the saga");
        }
        let many = wire.steps(BATCH / 3, 3).await;
        let trips = wire.settle(&many, &done(), keep, Hooks::default()).await;
        assert!(trips <= delivered + 1, "{trips} for a batch, {keep:?}");
        let doomed = wire.steps(BATCH / 3, 3).await;
        let trips = wire.settle(&doomed, &given_up(), keep, Hooks::default()).await;
        assert!(trips <= buried + 1, "{trips} for a batch of the dead, {keep:?}");
    }
}

#[tokio::test]
async fn a_callback_costs_the_begin_and_the_commit_of_its_transaction_and_only_at_the_end() {
    let wire = Wire::start(Mode::Direct).await;
    let first = wire.steps(1, 2).await;
    for entry in &first {
        wire.settle(std::slice::from_ref(entry), &done(), Keep::UntilPurged, with_callback()).await;
    }
    let held = wire.steps(1, 2).await;
    let step = wire.settle(&held[..1], &done(), Keep::UntilPurged, with_callback()).await;
    let last = wire.settle(&held[1..], &done(), Keep::UntilPurged, with_callback()).await;
    assert_eq!((step, last), (2, 4));
}

#[tokio::test]
async fn a_consumers_commit_that_is_known_costs_one_round_trip_as_any_other() {
    let wire = Wire::start(Mode::Direct).await;
    let inbox = wire.store.inbox();
    for _ in 0..3 {
        // What the last one left to roll back is in the pool's message by now.
        let mut tx = inbox.begin().await.unwrap();
        let accepted = inbox.accept(&mut tx, AcceptRequest::new("billing", OsEntropy.event_id())).await;
        assert_eq!(accepted.unwrap(), Accepted::Fresh);
        assert_eq!(wire.trips(async { inbox.commit(tx).await.unwrap() }).await, 1);
    }
}

#[tokio::test]
async fn through_a_pooler_a_step_costs_one_statement_more_in_the_same_transaction() {
    let wire = Wire::start(Mode::Pooled).await;
    // There nothing stays prepared: begin, parse, run, commit.
    let plain = wire.plain(&Verdict::Delivered).await;
    assert_eq!(plain, 4);
    let held = wire.steps(1, 2).await;
    for entry in &held {
        let trips =
            wire.settle(std::slice::from_ref(entry), &done(), Keep::UntilPurged, Hooks::default()).await;
        assert!(trips <= plain + 2, "{trips}: one more is parsed and run");
    }
}
