//! The metrics of one consumer, as its observer.

use std::time::Duration;

use pillarbox_engine::{Consumed, Observe};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use crate::labels::{Consumer, ConsumerOutcome};
use crate::metrics::OfConsumers;

/// Counts what one consumer does. It is made by [`Metrics::consumer`](crate::Metrics::consumer).
#[derive(Clone)]
pub struct ConsumerMetrics {
    consumed: [Counter; Consumed::ALL.len()],
    handle: Histogram,
}

impl ConsumerMetrics {
    pub(crate) fn new(of: &OfConsumers, consumer: &str) -> Self {
        let consumed = |consumed: Consumed| {
            let labels = ConsumerOutcome { consumer: consumer.to_owned(), outcome: consumed.as_str() };
            of.consumed.get_or_create_owned(&labels)
        };
        let label = Consumer { consumer: consumer.to_owned() };
        Self { consumed: Consumed::ALL.map(consumed), handle: of.handle.get_or_create_owned(&label) }
    }
}

impl Observe for ConsumerMetrics {
    fn consumed(&self, consumed: Consumed, took: Duration) {
        let at = Consumed::ALL.iter().position(|known| *known == consumed);
        if let Some(counter) = at.and_then(|at| self.consumed.get(at)) {
            counter.inc();
        }
        self.handle.observe(took.as_secs_f64());
    }
}
