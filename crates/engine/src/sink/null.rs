//! `null:`, a destination that takes everything and keeps nothing.

use async_trait::async_trait;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Outcome};

/// Confirms every entry at once and keeps nothing. Use it for measurements, and to empty a route.
///
/// ```
/// use pillarbox_engine::{Relay, sink::NullSink};
/// # use pillarbox_testkit::{MemoryOutbox, MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> pillarbox_core::Result<()> {
/// # let store = MemoryStore::new();
/// # let mut tx = store.begin();
/// # MemoryOutbox::new(&store, "orders").stage(&mut tx, pillarbox_core::Event::new("order.placed", "{}")).await?;
/// # tx.commit();
///
/// let relay = Relay::builder(store, NullSink).route("orders").build()?;
/// assert_eq!(relay.drain().await?.delivered, 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

#[async_trait]
impl Sink for NullSink {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = SinkCapabilities::default();
        capabilities.ordered_prefix = true;
        capabilities.durable = false;
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        for index in 0..batch.len() {
            report.outcome(index, Outcome::Confirmed);
        }
    }
}
