//! Draining to `null:`, by rows and by lanes: the relay against the bare store and against raw loops.

use std::sync::Arc;

use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{Design, median, ratio};
use pillarbox_cli::output::Progress;
use pillarbox_core::port::Keep;
use pillarbox_engine::sink::NullSink;
use serde::Serialize;

use super::BenchArgs;
use super::bare;
use super::bed::Bed;
use super::by::{By, fill, options, per_second};
use super::cost::{Cost, Meter};

/// What draining reaches.
#[derive(Debug, Serialize)]
pub(crate) struct DrainFigures {
    /// The raw classic loop: claim `UPDATE`, settle `UPDATE`.
    pub(crate) classic: Raw,
    /// The raw loop of a lane: read above a cursor, settle `UPDATE`.
    pub(crate) lane_kept: Raw,
    /// The raw loop of a lane: read above a cursor, settle `DELETE`.
    pub(crate) lane_deleted: Raw,
    /// Entries are claimed one by one.
    pub(crate) rows: Both,
    /// Entries are read in leased lanes.
    pub(crate) lanes: Both,
}

/// A raw loop.
#[derive(Debug, Serialize)]
pub(crate) struct Raw {
    pub(crate) per_second: f64,
    /// Absent where there is no server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<Cost>,
}

/// What happens to delivered entries.
#[derive(Debug, Serialize)]
pub(crate) struct Both {
    /// They stay.
    pub(crate) kept: Drained,
    /// They are deleted as they are settled.
    pub(crate) deleted: Drained,
}

/// The same drain without and with the engine.
#[derive(Debug, Serialize)]
pub(crate) struct Drained {
    /// The store's own calls in a loop.
    pub(crate) bare_per_second: f64,
    /// The relay.
    pub(crate) relay_per_second: f64,
    /// The relay of the bare loop.
    pub(crate) relay_to_bare: f64,
    /// The relay of the raw classic loop.
    pub(crate) relay_to_classic: f64,
    /// The relay of the raw loop of a lane that settles alike; only by lanes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) relay_to_lane: Option<f64>,
    /// What the relay costs the server; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<Cost>,
}

/// Rounds of one kind.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    costs: Vec<Cost>,
}

impl Rounds {
    fn add(&mut self, rate: f64, cost: Option<Cost>) {
        self.rates.push(rate);
        self.costs.extend(cost);
    }

    fn raw(&self) -> Raw {
        Raw { per_second: median(&self.rates).round(), cost: Cost::median(&self.costs) }
    }
}

const DESIGNS: [Design; 3] = [Design::Classic, Design::LaneKept, Design::LaneDeleted];
const KEEPS: [Keep; 2] = [Keep::UntilPurged, Keep::No];

pub(crate) async fn measure(bed: &Bed, args: &BenchArgs, progress: &Progress) -> Result<DrainFigures, Fault> {
    let mut raws: [Rounds; 3] = Default::default();
    let mut bares: [[Rounds; 2]; 2] = Default::default();
    let mut relays: [[Rounds; 2]; 2] = Default::default();
    for _ in 0..args.repeat {
        for (design, rounds) in DESIGNS.into_iter().zip(&mut raws) {
            bed.fill_raw(args.events).await?;
            let before = Meter::read(bed).await?;
            let rate = bed.drain_raw(args.batch, design, |_| {}).await?;
            rounds.add(rate, Meter::since(before, bed, args.events).await?);
        }
        for (by, (bares, relays)) in By::BOTH.into_iter().zip(bares.iter_mut().zip(&mut relays)) {
            for (keep, (bare, relay)) in KEEPS.into_iter().zip(bares.iter_mut().zip(relays)) {
                fill(bed, args).await?;
                bare.add(bare::drain(&bed.main, args, by, keep).await?, None);
                fill(bed, args).await?;
                let before = Meter::read(bed).await?;
                let tally = by.relay(&bed.main, Arc::new(NullSink), options(args, keep))?.drain().await?;
                relay.add(per_second(&tally), Meter::since(before, bed, args.events).await?);
            }
        }
        progress.add(1);
    }
    let [classic, lane_kept, lane_deleted] = &raws;
    let drained = |bare: &Rounds, relay: &Rounds, lane: Option<&Rounds>| Drained {
        bare_per_second: median(&bare.rates).round(),
        relay_per_second: median(&relay.rates).round(),
        relay_to_bare: ratio(&relay.rates, &bare.rates),
        relay_to_classic: ratio(&relay.rates, &classic.rates),
        relay_to_lane: lane.map(|lane| ratio(&relay.rates, &lane.rates)),
        cost: Cost::median(&relay.costs),
    };
    let [[rows_kept, rows_deleted], [lanes_kept, lanes_deleted]] = &relays;
    let [[bare_kept, bare_deleted], [bare_lanes_kept, bare_lanes_deleted]] = &bares;
    Ok(DrainFigures {
        classic: classic.raw(),
        lane_kept: lane_kept.raw(),
        lane_deleted: lane_deleted.raw(),
        rows: Both {
            kept: drained(bare_kept, rows_kept, None),
            deleted: drained(bare_deleted, rows_deleted, None),
        },
        lanes: Both {
            kept: drained(bare_lanes_kept, lanes_kept, Some(lane_kept)),
            deleted: drained(bare_lanes_deleted, lanes_deleted, Some(lane_deleted)),
        },
    })
}
