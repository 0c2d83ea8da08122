//! What becomes of the errors that handlers return with `?`: what is stored, what is logged, and what is not tried again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use pillarbox_core::{Error, Event, FailureKind, Received, RouteName, Status};
use pillarbox_engine::sink::{HandlerError, Handlers, Handling};
use pillarbox_engine::{Consumer, ConsumerOptions, ConsumerTally, RelayOptions};
use pillarbox_testkit::{MemoryBroker, MemoryInbox, MemoryStore, MemoryTx, Published, sample_entry};
use tokio::time::sleep;
use tracing::Level;

use crate::log::Log;
use crate::rig::Rig;

const QUEUE: &str = "orders";

/// Delivers one entry to this handler as often as it may be tried, and says what is stored of it.
async fn stored<F, Fut>(handler: F) -> (Status, String)
where
    F: Fn(Handling) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    let rig = Rig::new();
    let id = rig.stage(Event::new("mail", r#"{"to": 7, "secret": "canary"}"#)).await;
    let mut options = RelayOptions::handlers();
    options.max_attempts = 3;
    let handlers = Arc::new(Handlers::new().on("mail", handler).unwrap());
    rig.to(handlers, options).build().unwrap().run(sleep(Duration::from_secs(600))).await.unwrap();
    let entry = rig.entry(id);
    (entry.status, entry.last_error.unwrap().to_string())
}

/// Consumes one message with this handler, once, and says what came of it.
async fn consumed<F>(retries: u32, handler: F) -> (ConsumerTally, MemoryBroker)
where
    F: AsyncFn(&mut MemoryTx, Received) -> Result<(), HandlerError>,
{
    let broker = MemoryBroker::new();
    let event = Event::new("order.placed", r#"{"items": [{"price": "canary"}]}"#);
    broker.publish(QUEUE, Published::of(&sample_entry(RouteName::new(QUEUE).unwrap(), event)));
    let mut options = ConsumerOptions::default();
    options.retries = retries;
    options.redeliver_after = Duration::from_secs(3600);
    let inbox = Arc::new(MemoryInbox::new(&MemoryStore::new()));
    let consumer = Consumer::builder(Arc::new(broker.source(QUEUE)), inbox).name("billing").options(options);
    let tally = consumer.build().unwrap().run(sleep(Duration::from_secs(1800)), handler).await.unwrap();
    (tally, broker)
}

#[derive(Debug, serde::Deserialize)]
#[allow(dead_code, reason = "it is read, and never used")]
struct Order {
    items: Vec<Item>,
}

#[derive(Debug, serde::Deserialize)]
#[allow(dead_code, reason = "it is read, and never used")]
struct Item {
    price: u32,
}

#[tokio::test(start_paused = true)]
async fn the_type_of_a_handlers_error_is_stored_with_its_module_path() {
    let missing = async |_: Handling| Ok(std::fs::read("/nope").map(drop)?);
    assert_eq!(stored(missing).await.1, "failed/std::io::error::Error: entity not found");
    let number = async |_: Handling| Ok("canary".parse::<u32>().map(drop)?);
    assert_eq!(stored(number).await.1, "failed/core::num::error::ParseIntError");
    let own = async |_: Handling| Err(Error::invalid("no such plan").with_code("E_7"))?;
    assert_eq!(stored(own).await.1, "failed/pillarbox_core::error::Error: no such plan (invalid, E_7)");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_anyhow_or_in_a_box_is_taken_with_its_chain() {
    let log = Log::start();
    let anyhow = async |_: Handling| Ok(std::fs::read("/nope").context("reading the template").map(drop)?);
    assert_eq!(stored(anyhow).await, (Status::Dead, "failed/anyhow::Error: entity not found".into()));
    let told = log.lines(Level::WARN, "reading the template: No such file");
    assert_eq!(told.len(), 1, "the last attempt alone: {told:?}");
    let boxed = async |_: Handling| -> Result<(), HandlerError> {
        let failed: Box<dyn std::error::Error + Send + Sync> = "token=canary is refused".into();
        Err(failed)?
    };
    assert_eq!(stored(boxed).await.1, "failed/alloc::boxed::Box");
    assert_eq!(log.lines(Level::WARN, "is refused").len(), 1);
    assert!(!log.has("canary"), "what looks like a secret is redacted in the log too");
}

#[tokio::test(start_paused = true)]
async fn a_handlers_error_is_logged_with_its_chain_at_warn_for_the_last_attempt_and_at_debug_before() {
    let log = Log::start();
    let (status, _) = stored(async |_| {
        let refused = std::io::Error::other("postgres://app:canary@db is away");
        Err(Error::invalid("the invoice is not written").with_source(refused))?
    })
    .await;
    assert_eq!(status, Status::Dead);
    let chain = "the invoice is not written: postgres://";
    let (debug, warn) = (log.lines(Level::DEBUG, chain), log.lines(Level::WARN, chain));
    assert_eq!((debug.len(), warn.len()), (2, 1), "of three attempts");
    assert!(warn[0].contains("is away") && warn[0].contains("attempt=3"), "{warn:?}");
    assert!(!log.has("canary"));
}

#[tokio::test(start_paused = true)]
async fn a_payload_of_another_shape_ends_an_entry_at_once_also_deep_in_a_chain() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("order", r#"{"items": [{"price": "canary"}]}"#)).await;
    let handlers = Handlers::new().on("order", async |handling| {
        let order: anyhow::Result<Order> = pillarbox_core::read_json(&handling.entry().payload)
            .map_err(|error| Error::invalid("not read").with_source(error))
            .context("this version knows other orders");
        Ok(order.map(drop)?)
    });
    let relay = rig.to(Arc::new(handlers.unwrap()), RelayOptions::handlers()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().dead, 1);
    let failure = rig.entry(id).last_error.unwrap();
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(failure.text().contains("`items[0].price`") && !failure.text().contains("canary"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn a_consumers_handler_that_cannot_read_a_payload_parks_it_and_says_where() {
    let log = Log::start();
    let (tally, broker) = consumed(5, async |_, event| {
        let _order = event.json::<Order>()?;
        Ok(())
    })
    .await;
    assert_eq!((tally.parked, tally.failed), (1, 0), "not tried again");
    assert_eq!(broker.parked(QUEUE).len(), 1);
    assert_eq!(log.lines(Level::WARN, "`items[0].price`").len(), 1);
    assert!(!log.has("canary"));
}

#[tokio::test(start_paused = true)]
async fn a_consumers_handler_error_is_logged_with_its_chain_and_the_last_try_at_warn() {
    let log = Log::start();
    let (tally, _) = consumed(2, async |_, _| {
        let refused = std::io::Error::other("password=canary is wrong");
        Ok(Err::<(), _>(refused).context("booking")?)
    })
    .await;
    assert_eq!(tally.failed, 1);
    let lines = |level| log.lines(level, "booking: password=").len();
    assert_eq!((lines(Level::DEBUG), lines(Level::WARN)), (2, 1));
    assert!(!log.has("canary"));
}
