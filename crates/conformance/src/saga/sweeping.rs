//! Bringing sagas up to date, whatever becomes of some of them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{SagaEnd, SagaHooks, SweepRequest};
use pillarbox_core::{Error, ErrorKind, Result, Saga, SagaId, SagaRecord, SagaStatus, Step, Timestamp};
use pillarbox_engine::sink::Handlers;

use super::SagaHarness;
use super::steps::{person, relay, show, stage};
use crate::store::between::PATIENCE;
use crate::store::steps::{HOUR, soon};
use pillarbox_testkit::eventually;

const DOOMED: &str = "doomed";

/// A callback that fails for the sagas of one name, every time and in every way.
struct FailsFor(&'static str);

#[async_trait]
impl<Tx: Send + 'static> SagaEnd<Tx> for FailsFor {
    async fn ended(&self, _tx: &mut Tx, saga: &SagaRecord) -> Result<()> {
        if saga.name != self.0 {
            return Ok(());
        }
        // A callback may ask others, who may not be there: its errors look as those of the store.
        let kind =
            if saga.id.0.as_u128().is_multiple_of(2) { ErrorKind::Unavailable } else { ErrorKind::Internal };
        Err(Error::new(kind, "the callback failed"))
    }
}

/// A saga whose time is up with nothing of it begun: a sweep ends it, and the callback is called.
async fn overdue<H: SagaHarness>(harness: &H, name: &str, id: u128) -> SagaId {
    let saga = Saga::ordered(name, person(1)).step(Step::pivot("pay", "card.charge"));
    stage(harness, saga.id(SagaId(uuid::Uuid::from_u128(id))).timeout(Duration::from_millis(1))).await
}

fn hooks<Tx: Send + 'static>() -> SagaHooks<Tx> {
    SagaHooks::default().end(Arc::new(FailsFor(DOOMED)))
}

async fn sweeps<H: SagaHarness>(harness: &H, limit: u32, now: Timestamp) -> Vec<SagaId> {
    let sagas = harness.sagas(hooks());
    let (mut after, mut ended) = (None, vec![]);
    for _ in 0..100 {
        let owner = "sweeper".to_owned();
        let swept = sagas.sweep(SweepRequest { limit, after, owner, now: Some(now) }).await.unwrap();
        assert!(swept.seen <= limit.into(), "{swept:?}");
        assert_eq!(swept.seen, swept.changed + swept.failed, "{swept:?}");
        ended.extend(swept.ended);
        assert!(swept.next.is_none() || swept.next > after, "it goes on behind where it was");
        after = swept.next;
        if after.is_none() {
            return ended;
        }
    }
    panic!("the sweeps come to no end");
}

/// In the order of their ids, and a saga that fails is passed over: the rest is reached.
pub async fn sagas_that_fail_every_time_hold_up_no_other<H: SagaHarness>(harness: &H) {
    for n in 1..=5 {
        overdue(harness, DOOMED, n).await;
    }
    let good: Vec<SagaId> = vec![overdue(harness, "fine", 6).await, overdue(harness, "fine", 7).await];
    let now = soon(harness).await.saturating_add(HOUR);
    for limit in [2, 3] {
        let ended = sweeps(harness, limit, now).await;
        assert_eq!(ended, if limit == 2 { good.clone() } else { vec![] });
    }
    for id in good {
        assert_eq!(show(harness, id).await.saga.status, SagaStatus::Compensated);
    }
    let failing = show(harness, SagaId(uuid::Uuid::from_u128(1))).await.saga;
    assert_eq!((failing.status, failing.ended_at), (SagaStatus::Running, None), "nothing of it was recorded");
}

/// Also where a relay does it, which looks at a hundred at once.
pub async fn a_relay_reaches_what_is_behind_a_hundred_sagas_that_fail<H: SagaHarness>(harness: &H) {
    for n in 1..=101 {
        overdue(harness, DOOMED, n).await;
    }
    let good = overdue(harness, "fine", 102).await;
    // No relay has their handlers: only the sweep is at work.
    let relay = relay(harness, hooks(), Handlers::new()).route("elsewhere").build().unwrap();
    eventually(PATIENCE, async || {
        relay.drain().await.unwrap();
        show(harness, good).await.saga.status == SagaStatus::Compensated
    })
    .await;
}
