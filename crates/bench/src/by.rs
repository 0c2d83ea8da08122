//! Relays under measurement: by rows and by lanes, with the measurement's batch.

use std::sync::Arc;

use pillarbox_cli::database::Database;
use pillarbox_cli::fault::Fault;
use pillarbox_core::port::{Keep, Sink};
use pillarbox_engine::{Relay, RelayBuilder, RelayOptions, Tally};

use super::BenchArgs;
use super::bed::{Bed, ROUTE};

/// How entries are taken from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Claimed one by one: `order = "none"`.
    Rows,
    /// Read in leased lanes: `order = "key"`.
    Lanes,
}

impl By {
    /// Both, in the order in which they are measured and shown.
    pub(crate) const BOTH: [Self; 2] = [Self::Rows, Self::Lanes];

    /// A relay of the measured route.
    pub(crate) fn relay(
        self,
        database: &Database,
        sink: Arc<dyn Sink>,
        options: RelayOptions,
    ) -> Result<Relay, Fault> {
        let builder: RelayBuilder = match self {
            Self::Rows => Relay::builder(Arc::clone(&database.store), sink),
            Self::Lanes => Relay::ordered(Arc::clone(&database.lanes), sink),
        };
        Ok(builder.route(ROUTE).options(options).build()?)
    }
}

/// The default policy with the measurement's batch.
pub(crate) fn options(args: &BenchArgs, keep: Keep) -> RelayOptions {
    let mut options = RelayOptions::default();
    options.batch = args.batch;
    options.in_flight_max = options.in_flight_max.max(args.batch);
    options.keep = keep;
    options
}

/// Empties the outbox and fills it again.
pub(crate) async fn fill(bed: &Bed, args: &BenchArgs) -> Result<(), Fault> {
    bed.fill_outbox(args.events, None).await
}

/// The same, with one key for all entries.
pub(crate) async fn fill_one_key(bed: &Bed, args: &BenchArgs) -> Result<(), Fault> {
    bed.fill_outbox(args.events, Some(1)).await
}

/// What a run delivered in a second.
pub(crate) fn per_second(tally: &Tally) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let delivered = tally.delivered as f64;
    delivered / tally.elapsed.as_secs_f64().max(f64::EPSILON)
}
