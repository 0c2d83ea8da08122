//! What is killed: a process that runs sagas to their end, and ends itself at the point that it was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::operate::{SagaFilter, SagaRecord};
use pillarbox::port::{
    AuditSink, NewAudit, SagaEnd, SagaHooks, Sagas, StepSettleRequest, StepsSettled, SweepRequest, Swept,
};
use pillarbox::sink::{HandlerError, Handlers, Handling};
use pillarbox::{Backoff, Jitter, Reference, Relay, RelayOptions, Result, Saga, SagaAdmin, SagaStatus, Step};

use super::Point;
use super::backend::{Backend, Postgres, ROUTE, Sqlite};

/// Where it works; unset in an ordinary run of the tests, which has nothing to do here.
pub(super) const AT: &str = "PILLARBOX_TEST_CRASH_AT";
/// Where it ends, and the how many-th time; unset: nowhere.
pub(super) const POINT: &str = "PILLARBOX_TEST_CRASH_POINT";
pub(super) const NTH: &str = "PILLARBOX_TEST_CRASH_NTH";

/// What one child erases: three steps at once.
pub(super) fn erasure(n: u32) -> Saga {
    let saga = Saga::group("erase", Reference::new("person", format!("p-{n}")))
        .step(Step::new("crm", "do"))
        .step(Step::new("files", "do"))
        .step(Step::new("payments", "do"));
    saga.build().unwrap()
}

/// What one child books: the card is declined, and what was reserved goes back.
pub(super) fn booking(n: u32) -> Saga {
    let saga = Saga::ordered("booking", Reference::new("booking", format!("b-{n}")))
        .step(Step::compensatable("hotel", "do", "undo"))
        .step(Step::compensatable("car", "do", "undo"))
        .step(Step::pivot("card", "decline"));
    saga.build().unwrap()
}

/// Ends the process at one point, without a word to anybody.
struct Fuse {
    point: Option<Point>,
    nth: usize,
    seen: AtomicUsize,
}

impl Fuse {
    fn from_environment() -> Self {
        let point = std::env::var(POINT).ok().map(|name| Point::named(&name));
        let nth = std::env::var(NTH).map_or(1, |nth| nth.parse().unwrap());
        Self { point, nth, seen: AtomicUsize::new(0) }
    }

    fn at(&self, point: Point, times: usize) {
        if self.point == Some(point) && self.seen.fetch_add(times, Ordering::SeqCst) + times >= self.nth {
            std::process::abort();
        }
    }
}

/// The sagas of a store, before and after a settle.
struct Watched {
    sagas: Arc<dyn Sagas>,
    fuse: Arc<Fuse>,
}

#[async_trait]
impl Sagas for Watched {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        self.fuse.at(Point::StepDoneBeforeRecord, 1);
        let settled = self.sagas.settle_steps(request).await?;
        self.fuse.at(Point::EndedBeforeKnown, settled.ended.len());
        Ok(settled)
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        self.sagas.sweep(request).await
    }
}

/// In the transaction in which a saga moves.
struct Inside<P> {
    place: Arc<P>,
    fuse: Arc<Fuse>,
}

#[async_trait]
impl<P: Backend> AuditSink<P::Tx> for Inside<P> {
    async fn record(&self, tx: &mut P::Tx, records: &[NewAudit]) -> Result<()> {
        for record in records {
            let step = record.step.as_deref().unwrap_or("-");
            self.place.insert_in(tx, "told", &format!("{} {step}", record.kind)).await?;
        }
        self.fuse.at(Point::AuditBeforeStatus, 1);
        Ok(())
    }
}

#[async_trait]
impl<P: Backend> SagaEnd<P::Tx> for Inside<P> {
    async fn ended(&self, tx: &mut P::Tx, saga: &SagaRecord) -> Result<()> {
        self.place.insert_in(tx, "ended", &saga.id.to_string()).await?;
        self.fuse.at(Point::LastStepBeforeComplete, 1);
        Ok(())
    }
}

fn handlers<P: Backend>(place: &Arc<P>) -> Handlers {
    let effect = |place: &Arc<P>| {
        let place = Arc::clone(place);
        move |handling: Handling| {
            let place = Arc::clone(&place);
            async move {
                place.insert("effects", &handling.idempotency_key().to_string()).await?;
                Ok::<_, HandlerError>(())
            }
        }
    };
    let declined =
        async |_: Handling| Err::<(), _>(HandlerError::reject("declined", "the card was declined"));
    let handlers = Handlers::new().on("do", effect(place)).unwrap();
    handlers.on("undo", effect(place)).unwrap().on("decline", declined).unwrap()
}

/// Leases that a crash leaves behind are short.
fn policy() -> RelayOptions {
    let mut policy = RelayOptions::handlers();
    policy.lease = Duration::from_secs(2);
    policy.reap_interval = Duration::from_millis(200);
    let wait = Duration::from_millis(20);
    policy.backoff = Backoff::new(wait, wait, Jitter::None).unwrap();
    policy
}

/// Resolves when every saga has ended.
async fn all_over<P: Backend>(place: &P) {
    for status in [SagaStatus::Running, SagaStatus::Compensating] {
        while !place.store().list_sagas(SagaFilter::default().status(status)).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn work<P: Backend>() {
    let Ok(at) = std::env::var(AT) else { return };
    let place = Arc::new(P::open(&at).await);
    let fuse = Arc::new(Fuse::from_environment());
    let inside = Arc::new(Inside { place: Arc::clone(&place), fuse: Arc::clone(&fuse) });
    let hooks = SagaHooks::default().sink(Arc::clone(&inside) as _).end(inside);
    let sagas = Watched { sagas: place.sagas(hooks), fuse };
    let relay = Relay::sagas(place.store(), Arc::new(sagas), Arc::new(handlers(&place)));
    let relay = relay.route(ROUTE).options(policy()).build().unwrap();
    let _ = relay.run(all_over(&*place)).await.unwrap();
}

#[tokio::test]
async fn child_on_sqlite() {
    work::<Sqlite>().await;
}

#[tokio::test]
async fn child_on_postgres() {
    work::<Postgres>().await;
}
