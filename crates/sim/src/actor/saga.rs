//! Who lives in a world with sagas: producers that stage them, handlers that do their steps, an operator.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox_core::port::{
    AcceptRequest, Accepted, Admin, Effect, Filter, Inbox, Intervention, InterventionRequest, SagaAdmin,
    SagaFilter, Sagas, Selection, SelectionRequest,
};
use pillarbox_core::{Error, ErrorKind, EventId, Reference, Result, Saga, SagaRecord, Step, StepState};
use pillarbox_engine::sink::{Handled, HandlerError, Handlers, Handling};
use serde_json::json;

use super::super::chaos::{Chaos, Gate};
use super::super::fault::Fault;
use super::super::history::Happened;
use super::super::plan::SagaPlan;
use super::super::rng::Rng;
use super::super::world::{ENDED, ROUTE, World};
use pillarbox_testkit::{MemoryInbox, MemoryOutbox};

/// Sagas of one producer.
const SAGAS_MAX: u32 = 6;

pub(crate) async fn stage_sagas(world: &World, number: u32) {
    let who = format!("producer-{number}");
    let mut rng = world.rng.fork(&who);
    let mut outbox = MemoryOutbox::new(&world.store, ROUTE);
    if world.plan.wakes {
        outbox = outbox.wake(Arc::clone(&world.wakers) as _);
    }
    for _ in 0..world.plan.transactions.min(SAGAS_MAX) {
        let wait = rng.millis(0..=3_000);
        tokio::time::sleep(wait).await;
        let Ok(saga) = draw(world.plan.sagas, &mut rng) else { continue };
        let mut tx = world.store.begin();
        let Ok(staged) = outbox.stage_saga(&mut tx, saga).await else { continue };
        if world.chaos.strikes(&mut rng, Fault::HeldOpen) {
            let wait = rng.millis(10..=4_000);
            tokio::time::sleep(wait).await;
        }
        if world.chaos.strikes(&mut rng, Fault::Rollback) {
            tx.rollback();
            continue;
        }
        outbox.commit(tx);
        world.chaos.record(&who, Happened::SagaStaged { id: staged.id() });
    }
}

fn draw(plan: Option<SagaPlan>, rng: &mut Rng) -> Result<Saga> {
    // Few subjects, so that some are met again.
    let subject = Reference::new("person", rng.between(1..=5).to_string());
    let mut steps = vec![];
    let ordered = rng.permille(600);
    if ordered {
        let undoable = rng.between(0..=3);
        steps.extend((0..undoable).map(|n| Step::compensatable(format!("s{n}"), "do", "undo")));
        if rng.permille(500) || steps.is_empty() {
            steps.push(Step::pivot(format!("s{}", steps.len()), "do"));
        }
        for _ in 0..rng.between(0..=2) {
            steps.push(Step::retryable(format!("s{}", steps.len()), "do"));
        }
    } else {
        steps.extend((0..rng.between(1..=4)).map(|n| Step::new(format!("s{n}"), "do")));
    }
    let mut saga = if ordered { Saga::ordered("ordered", subject) } else { Saga::group("group", subject) };
    for step in steps {
        let few = rng.permille(300).then(|| rng.between_u32(1..=3));
        saga = saga.step(few.into_iter().fold(step, Step::max_attempts));
    }
    if let Some(plan) = plan
        && rng.permille(plan.timeout_permille)
    {
        let longest = u64::try_from(plan.timeout_max.as_millis()).unwrap_or(u64::MAX);
        saga = saga.timeout(rng.millis(2_000..=longest));
    }
    saga.build()
}

/// What becomes of one run of a handler.
struct Fate {
    slow: Duration,
    dies: Option<bool>,
    hangs: bool,
    panics: bool,
    rejects: bool,
    fails: bool,
    parks: Option<Duration>,
    lost: bool,
}

impl Fate {
    fn draw(chaos: &Chaos, rng: &mut Rng) -> Self {
        let strikes = |rng: &mut Rng, fault| chaos.strikes(rng, fault);
        Self {
            slow: if strikes(rng, Fault::SinkIsSlow) { rng.millis(1..=4_000) } else { Duration::ZERO },
            dies: strikes(rng, Fault::CrashAtCall).then(|| rng.permille(500)),
            hangs: strikes(rng, Fault::SinkHangs),
            panics: strikes(rng, Fault::SinkPanics),
            rejects: strikes(rng, Fault::SinkRejects),
            fails: strikes(rng, Fault::SinkFails),
            parks: strikes(rng, Fault::SinkFailsWithWait).then(|| rng.millis(1..=3_000)),
            lost: strikes(rng, Fault::ConfirmationLost),
        }
    }
}

struct Worker {
    chaos: Chaos,
    gate: Gate,
    who: Arc<str>,
    rng: Mutex<Rng>,
}

impl Worker {
    fn rng(&self) -> MutexGuard<'_, Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self: Arc<Self>, handling: Handling) -> Result<Handled, HandlerError> {
        let step = handling.step()?;
        let (saga, direction) = (step.saga, step.direction);
        let number = step.step.trim_start_matches('s').parse().unwrap_or(u32::MAX);
        let fate = Fate::draw(&self.chaos, &mut self.rng());
        self.chaos.record_as(&self.who, Happened::StepBegan { saga, step: number, direction });
        let answered =
            || self.chaos.record_as(&self.who, Happened::StepAnswered { saga, step: number, direction });
        tokio::time::sleep(fate.slow).await;
        if fate.dies == Some(false) {
            self.gate.kill();
            pending::<()>().await;
        }
        if fate.panics {
            answered();
            std::panic::resume_unwind(Box::new("the handler panicked"));
        }
        if fate.rejects {
            answered();
            return Err(HandlerError::reject("refused", ""));
        }
        if let Some(wait) = fate.parks {
            answered();
            return Ok(Handled::ParkFor(wait));
        }
        if fate.fails {
            answered();
            return Err(HandlerError::retry("busy", ""));
        }
        self.chaos.record_as(&self.who, Happened::StepDone { saga, step: number, direction });
        if fate.dies == Some(true) {
            self.gate.kill();
            pending::<()>().await;
        }
        if fate.hangs {
            // For as long as anything goes wrong.
            self.chaos.healed().await;
        }
        if fate.lost {
            return Err(HandlerError::unknown("lost", ""));
        }
        answered();
        Ok(Handled::DoneWith(json!(number)))
    }
}

/// The handlers of one relay.
pub(crate) fn handlers(chaos: &Chaos, gate: &Gate, who: &Arc<str>, rng: Rng) -> Result<Handlers> {
    let (chaos, gate, who) = (chaos.clone(), gate.clone(), Arc::clone(who));
    let worker = Arc::new(Worker { chaos, gate, who, rng: Mutex::new(rng) });
    let undoer = Arc::clone(&worker);
    Handlers::new()
        .on("do", move |handling| Arc::clone(&worker).run(handling))?
        .on("undo", move |handling| Arc::clone(&undoer).run(handling))
}

/// The sagas below the weather, with a callback that leaves a mark in the transaction, or fails.
pub(crate) fn sagas_below(world: &World, rng: Rng) -> Arc<dyn Sagas> {
    let marks = Arc::new(MemoryInbox::new(&world.store));
    let (chaos, rng) = (world.chaos.clone(), Arc::new(Mutex::new(rng)));
    Arc::new(world.store.sagas().on_end(move |tx, saga: &SagaRecord| {
        let (marks, chaos, rng) = (Arc::clone(&marks), chaos.clone(), Arc::clone(&rng));
        Box::pin(async move {
            let request = AcceptRequest::new(ENDED, EventId(saga.id.0));
            if marks.accept(tx, request).await? != Accepted::Fresh {
                let detail = format!("saga {} ended twice", saga.id);
                chaos.record("world", Happened::Broken { invariant: "I-09", detail });
            }
            let fails = {
                let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
                chaos.strikes(&mut rng, Fault::StoreRefuses)
            };
            if fails {
                return Err(Error::new(ErrorKind::Internal, "the callback failed"));
            }
            Ok(())
        })
    }))
}

/// Requeues and resumes now and then; when the faults are over, everything that waits for somebody.
pub(crate) async fn operate_sagas(world: &World) {
    let mut rng = world.rng.fork("operator");
    while !world.is_closing() {
        let healed = world.chaos.is_healed();
        let wait = if healed { Duration::from_secs(1) } else { rng.millis(500..=8_000) };
        tokio::select! {
            biased;
            () = world.closing() => return,
            () = tokio::time::sleep(wait) => {}
        }
        if let Err(error) = act(world, &mut rng, healed).await {
            world.broken("operator", error.to_string());
        }
    }
}

async fn act(world: &World, rng: &mut Rng, healed: bool) -> Result<()> {
    let sagas = world.store.list_sagas(SagaFilter::default().limit(1_000)).await?;
    for saga in sagas.iter().filter(|saga| !saga.status.is_ended()) {
        let stuck = saga.status.is_stuck();
        if (healed && !stuck) || (!healed && !world.chaos.strikes(rng, Fault::Requeue)) {
            continue;
        }
        let dead = saga.steps.iter().find(|step| step.state == StepState::Dead);
        let step = dead.map(|step| step.name.clone()).unwrap_or_default();
        let reason = || "enough".to_owned();
        let how = match rng.between_u32(0..=999) {
            _ if healed => Intervention::Retry,
            0..30 => Intervention::Abandon { reason: reason() },
            30..200 => Intervention::Skip { step, reason: reason() },
            200..400 => Intervention::Compensate,
            _ => Intervention::Retry,
        };
        let request = InterventionRequest { id: saga.id, what: how, actor: "operator".into(), now: None };
        // It may have moved meanwhile, or cannot go where it was asked to.
        let _ = world.store.intervene(request).await;
    }
    if !healed && world.chaos.strikes(rng, Fault::Requeue) {
        let dead = world.store.list(Filter::dead().limit(1_000)).await?;
        let ids = dead.iter().filter(|_| rng.permille(500)).map(|entry| entry.event_id).collect();
        let selection = Selection::Ids(ids);
        let request = SelectionRequest {
            selection,
            limit: None,
            actor: "operator".into(),
            effect: Effect::Apply,
            now: None,
        };
        let _ = world.store.requeue(request).await?;
    }
    Ok(())
}
