//! The steps that cases are made of.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{
    ClaimRequest, Keep, SagaAdmin, SagaEnd, SagaHooks, SagaStory, Stage, StageSaga, StagedSaga, StepOutcome,
    StepSettleRequest, StepSettlement, Steps, StepsSettled, Store, SweepRequest, Swept,
};
use pillarbox_core::{
    AuditKind, Backoff, Direction, Entry, Error, ErrorKind, Event, EventId, Failure, FailureKind, Jitter,
    Reference, Result, Saga, SagaBuilder, SagaId, SagaRecord, Step, Timestamp, step_key,
};
use pillarbox_engine::sink::Handlers;
use pillarbox_engine::{Relay, RelayBuilder, RelayOptions};
use tokio::sync::watch;

use super::SagaHarness;
use crate::store::steps::{ROUTE, claim_request, soon};
use crate::{Ruin, store};

pub(super) fn person(n: u32) -> Reference {
    Reference::new("person", format!("p-{n}"))
}

/// Three steps at once.
pub(super) fn erasure(n: u32) -> SagaBuilder {
    Saga::group("erase", person(n))
        .step(Step::new("crm", "crm.erase").reference(Reference::new("contact", "c-1").extra("region", "eu")))
        .step(Step::new("files", "files.erase"))
        .step(Step::new("payments", "payments.erase"))
}

/// Two steps that can be undone, a pivot, and one that only goes forward.
pub(super) fn booking(n: u32) -> SagaBuilder {
    Saga::ordered("booking", person(n))
        .step(Step::compensatable("hotel", "hotel.book", "hotel.cancel"))
        .step(Step::compensatable("car", "car.book", "car.cancel"))
        .step(Step::pivot("pay", "card.charge"))
        .step(Step::retryable("mail", "mail.send"))
}

/// Stages in a transaction of its own and commits it.
pub(super) async fn stage<H: SagaHarness>(harness: &H, saga: SagaBuilder) -> SagaId {
    let mut tx = harness.begin().await;
    let staged = harness.outbox(ROUTE).stage_saga(&mut tx, saga.build().unwrap()).await.unwrap();
    harness.commit(tx).await;
    assert!(matches!(staged, StagedSaga::Fresh { .. }), "{staged:?}");
    staged.id()
}

pub(super) fn forward(saga: SagaId, step: &str) -> EventId {
    step_key(saga, step, Direction::Forward)
}

pub(super) fn back(saga: SagaId, step: &str) -> EventId {
    step_key(saga, step, Direction::Compensation)
}

pub(super) fn done() -> StepOutcome {
    StepOutcome::Done { data: None }
}

pub(super) fn dead(kind: FailureKind) -> StepOutcome {
    StepOutcome::Dead { failure: Failure::new(kind, "gone", "it does not work") }
}

/// What came of these claims, without callbacks.
pub(super) async fn settle<H: SagaHarness>(
    harness: &H,
    outcomes: Vec<(&Entry, StepOutcome)>,
    now: Timestamp,
) -> StepsSettled {
    try_settle(harness, SagaHooks::default(), outcomes, now).await.unwrap()
}

pub(super) async fn try_settle<H: SagaHarness>(
    harness: &H,
    hooks: SagaHooks<H::Tx>,
    outcomes: Vec<(&Entry, StepOutcome)>,
    now: Timestamp,
) -> Result<StepsSettled> {
    let settlements =
        outcomes.into_iter().map(|(entry, outcome)| StepSettlement { held: entry.held(), outcome }).collect();
    harness.sagas(hooks).settle_steps(request(settlements, now)).await
}

pub(super) fn request(settlements: Vec<StepSettlement>, now: Timestamp) -> StepSettleRequest {
    StepSettleRequest { owner: "worker-1".into(), settlements, keep: Keep::UntilPurged, now: Some(now) }
}

/// Claims as a relay that knows sagas does.
pub(super) async fn claim<H: SagaHarness>(harness: &H, limit: u32, now: Timestamp) -> Vec<Entry> {
    let request = ClaimRequest { steps: Steps::Take, ..claim_request(limit, now) };
    let claim = harness.store().claim(request).await.unwrap();
    assert!(claim.undecodable.is_empty(), "{:?}", claim.undecodable);
    claim.entries
}

/// What another relay with sagas gets once leases have expired.
pub(super) async fn overtake<H: SagaHarness>(harness: &H, limit: u32, now: Timestamp) -> Vec<Entry> {
    store::steps::overtake(harness, ClaimRequest { steps: Steps::Take, ..claim_request(limit, now) }).await
}

/// Claims everything and says what came of it: `outcome` decides by the handler's name.
pub(super) async fn work<H: SagaHarness>(harness: &H, outcome: impl Fn(&str) -> StepOutcome) -> Vec<String> {
    let now = soon(harness).await;
    let entries = claim(harness, 100, now).await;
    let outcomes = entries.iter().map(|entry| (entry, outcome(&entry.event_type))).collect();
    let settled = settle(harness, outcomes, now).await;
    assert_eq!((settled.accepted, settled.fenced.len()), (entries.len() as u64, 0));
    entries.into_iter().map(|entry| entry.event_type).collect()
}

pub(super) async fn sweep<H: SagaHarness>(harness: &H, now: Timestamp) -> Swept {
    let request = SweepRequest { limit: 100, after: None, owner: "sweeper".into(), now: Some(now) };
    harness.sagas(SagaHooks::default()).sweep(request).await.unwrap()
}

pub(super) async fn show<H: SagaHarness>(harness: &H, id: SagaId) -> SagaStory {
    harness.store().show_saga(id).await.unwrap().expect("the saga")
}

/// The audit trail of a subject as kinds and steps, oldest first.
pub(super) async fn trail<H: SagaHarness>(
    harness: &H,
    subject: &Reference,
) -> Vec<(AuditKind, Option<String>)> {
    let records = harness.store().audit_of(subject).await.unwrap();
    assert!(records.is_sorted_by_key(|record| record.seq), "the trail is oldest first");
    records.into_iter().map(|record| (record.kind, record.step)).collect()
}

/// The kinds alone.
pub(super) async fn kinds<H: SagaHarness>(harness: &H, subject: &Reference) -> Vec<AuditKind> {
    trail(harness, subject).await.into_iter().map(|(kind, _)| kind).collect()
}

/// Stages an event on the route `ended` for each saga that ends, unless it is set to fail.
pub(super) struct StagesEnd<O> {
    outbox: O,
    pub(super) fails: Mutex<bool>,
}

impl<O> StagesEnd<O> {
    pub(super) fn new<H: SagaHarness<Outbox = O>>(harness: &H) -> Arc<Self> {
        Arc::new(Self { outbox: harness.outbox("ended"), fails: Mutex::new(false) })
    }
}

#[async_trait]
impl<Tx: Send + 'static, O: Stage<Tx> + 'static> SagaEnd<Tx> for StagesEnd<O> {
    async fn ended(&self, tx: &mut Tx, saga: &SagaRecord) -> Result<()> {
        let event = Event::new("saga.ended", saga.id.to_string()).key(saga.status.as_str());
        let staged = self.outbox.stage_all(tx, vec![event]).await?;
        assert_eq!(staged.len(), 1);
        if *self.fails.lock().unwrap() {
            return Err(Error::new(ErrorKind::Internal, "the callback failed"));
        }
        Ok(())
    }
}

/// Ruins the transaction in which a saga ends, takes no notice of it, and tells whether it could.
pub(super) struct RuinsEnd<H> {
    pub(super) how: Ruin,
    pub(super) told: watch::Sender<bool>,
    pub(super) store: PhantomData<fn() -> H>,
}

#[async_trait]
impl<H: SagaHarness> SagaEnd<H::Tx> for RuinsEnd<H> {
    async fn ended(&self, tx: &mut H::Tx, _: &SagaRecord) -> Result<()> {
        self.told.send_replace(H::ruin(tx, self.how).await);
        Ok(())
    }
}

/// The sagas that the callback was told of, as `id status`.
pub(super) async fn ended<H: SagaHarness>(harness: &H) -> Vec<String> {
    use pillarbox_core::port::{Admin, Filter};
    let filter = Filter::default().route(super::super::store::steps::route("ended"));
    let mut ended: Vec<String> = harness
        .store()
        .list(filter.limit(10_000))
        .await
        .unwrap()
        .into_iter()
        .map(|entry| format!("{} {}", String::from_utf8(entry.payload).unwrap(), entry.key.unwrap()))
        .collect();
    ended.sort();
    ended
}

/// Short waits, so that what is retried is soon due again.
pub(super) fn options() -> RelayOptions {
    let mut options = RelayOptions::handlers();
    let wait = Duration::from_millis(1);
    options.backoff = Backoff::new(wait, wait, Jitter::None).unwrap();
    options.poll_min = wait;
    options.poll_max = Duration::from_millis(20);
    options.max_attempts = 3;
    options.lease = Duration::from_secs(30);
    options
}

/// A relay whose handlers do the steps.
pub(super) fn relay<H: SagaHarness>(
    harness: &H,
    hooks: SagaHooks<H::Tx>,
    handlers: Handlers,
) -> RelayBuilder {
    let sagas = harness.sagas(hooks);
    Relay::sagas(harness.store(), sagas, handlers).route(ROUTE).options(options()).owner("relay-1").seed(1)
}
