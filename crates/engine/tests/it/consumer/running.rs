//! The loop at its edges: what cannot be mended, brokers that hang, bounds, bad options.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{Message, Receipt, Source, SourceCapabilities, Subscription};
use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_testkit::{MemorySource, eventually};

use super::rig::*;

#[tokio::test(start_paused = true)]
async fn what_waiting_cannot_mend_ends_the_run() {
    let denied: fn() -> Error = || Error::new(ErrorKind::Denied, "no rights on the queue");
    for (kind, error) in [
        (ErrorKind::Denied, denied),
        (ErrorKind::NotFound, || Error::new(ErrorKind::NotFound, "no such queue")),
        (ErrorKind::Invalid, || Error::invalid("a queue has no such name")),
    ] {
        let source = Moody::new(broker([]).source(QUEUE), [Mood::Fails(error)]);
        let run = consumer(source).build().unwrap();
        let ended = run.run(std::future::pending(), async |_, _| Ok(())).await;
        assert_eq!(ended.unwrap_err().kind(), kind);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_is_finished_before_the_run_ends_in_an_error() {
    let broker = broker([1]);
    let denied = Mood::Fails(|| Error::new(ErrorKind::Denied, "no rights any more"));
    let source = Moody::new(broker.source(QUEUE), [Mood::Works, denied]);
    let finished = Count::default();
    let (handled, cutting) = (finished.clone(), broker.clone());
    let consumer = consumer(source).build().unwrap();
    let ended = consumer
        .run(std::future::pending(), async move |_, _| {
            cutting.cut(QUEUE);
            tokio::time::sleep(Duration::from_secs(60)).await;
            handled.up();
            Ok(())
        })
        .await;
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(finished.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_delays_no_shutdown() {
    let source = Moody::new(broker([]).source(QUEUE), [Mood::Hangs]);
    let asked = source.asked.clone();
    let consumer = consumer(source).build().unwrap();
    let shutdown = eventually(SOON, async || asked.lock().unwrap().len() == 1);
    let tally = consumer.run(shutdown, async |_, _| Ok(())).await.unwrap();
    assert_eq!(tally, pillarbox_engine::ConsumerTally::default());
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_delays_no_handler() {
    let broker = broker([1]);
    let source = Moody::new(broker.source(QUEUE), [Mood::Works, Mood::Hangs]);
    let asked = source.asked.clone();
    let finished = Count::default();
    let (handled, cutting) = (finished.clone(), broker.clone());
    let consumer = consumer(source).build().unwrap();
    let tally = consumer
        .run(eventually(SOON, async || finished.get() == 1), async move |_, _| {
            cutting.cut(QUEUE);
            eventually(SOON, async || asked.lock().unwrap().len() == 2).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            handled.up();
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(tally.processed, 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_ends_is_given_up() {
    let source = Mute { source: broker([1, 2, 3]).source(QUEUE) };
    let options = options(|options| options.concurrency = 1);
    let handled = Count::default();
    let calls = handled.clone();
    let consumer = consumer(source).options(options).build().unwrap();
    let tally = consumer
        .run(eventually(SOON, async || handled.get() == 3), async move |_, _| {
            calls.up();
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(tally.processed, 3);
}

/// A source whose answers never end.
struct Mute {
    source: MemorySource,
}

#[async_trait]
impl Source for Mute {
    fn capabilities(&self) -> SourceCapabilities {
        self.source.capabilities()
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        Ok(Box::new(MuteStream { stream: self.source.subscribe().await?, kept: Kept::default() }))
    }
}

struct MuteStream {
    stream: Box<dyn Subscription>,
    kept: Kept,
}

#[async_trait]
impl Subscription for MuteStream {
    async fn next(&mut self) -> Result<Option<Message>> {
        let Some(mut message) = self.stream.next().await? else { return Ok(None) };
        message.receipt = Box::new(MuteReceipt { receipt: message.receipt, kept: self.kept.clone() });
        Ok(Some(message))
    }
}

/// Kept beyond its answer, so that the broker goes on waiting for one.
struct MuteReceipt {
    receipt: Box<dyn Receipt>,
    kept: Kept,
}

type Kept = Arc<Mutex<Vec<Box<dyn Receipt>>>>;

impl MuteReceipt {
    async fn never(self) -> Result<()> {
        self.kept.lock().unwrap().push(self.receipt);
        std::future::pending().await
    }
}

#[async_trait]
impl Receipt for MuteReceipt {
    async fn ack(self: Box<Self>) -> Result<()> {
        self.never().await
    }

    async fn nack(self: Box<Self>) -> Result<()> {
        self.never().await
    }

    async fn park(self: Box<Self>) -> Result<()> {
        self.never().await
    }
}

#[tokio::test]
async fn what_waits_behind_a_key_is_bounded() {
    let broker = broker([]);
    for n in 0..500 {
        broker.publish(QUEUE, message(n, Some("hot")));
    }
    let most = Arc::new(AtomicUsize::new(0));
    let (seen, watched, handled) = (most.clone(), broker.clone(), Count::default());
    let calls = handled.clone();
    let options = options(|options| options.concurrency = 4);
    let consumer = consumer(broker.source(QUEUE)).options(options).build().unwrap();
    let tally = consumer
        .run(eventually(SOON, async || handled.get() == 500), async move |_, _| {
            tokio::task::yield_now().await;
            seen.fetch_max(watched.unanswered(QUEUE), Ordering::SeqCst);
            calls.up();
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(tally.processed, 500);
    let most = most.load(Ordering::SeqCst);
    assert!((2..=4 + 2 * 4).contains(&most), "{most} were taken from the broker at once");
}

#[tokio::test]
async fn a_failed_head_takes_along_what_waits_behind_it() {
    let broker = broker([]);
    for n in 1..=6 {
        broker.publish(QUEUE, message(n, Some("key")));
    }
    let options = options(|options| options.redeliver_after = Duration::ZERO);
    let handled = Count::default();
    let (calls, order) = (handled.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = order.clone();
    let consumer = consumer(broker.source(QUEUE)).options(options).build().unwrap();
    let tally = consumer
        .run(eventually(SOON, async || handled.get() == 7), async move |_, event| {
            seen.lock().unwrap().push(String::from_utf8(event.payload).unwrap());
            if calls.up() == 2 {
                return Err(pillarbox_engine::sink::HandlerError::retry("second", ""));
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!((tally.processed, tally.failed), (6, 1), "what was given back unseen did not fail");
    assert_eq!(order.lock().unwrap().join(" "), "1 2 2 3 4 5 6");
}

#[tokio::test]
async fn options_that_cannot_work_are_refused_when_it_is_built() {
    let source = || broker([]).source(QUEUE);
    assert!(consumer(source()).options(options(|options| options.concurrency = 0)).build().is_err());
    assert!(consumer(source()).options(options(|options| options.concurrency = 1_000_000)).build().is_err());
    assert!(consumer(source()).options(options(|options| options.max_deliveries = Some(0))).build().is_err());
    assert!(consumer(source()).name("").build().is_err());
    assert!(consumer(source()).name("x".repeat(256)).build().is_err());
    assert!(consumer(source()).build().is_ok());
}
