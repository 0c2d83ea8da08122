//! The plan of one world: everything about it that is drawn from the seed before it begins.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use pillarbox_core::port::{ClaimOrder, Keep, LANES};
use pillarbox_core::{Backoff, Jitter};
use pillarbox_engine::{OnDead, RelayOptions};

use super::fault::Fault;
use super::mutant::SimMutant;
use super::rng::Rng;

/// One world before it begins. Drawn from a seed; a test may change it, and shrinking does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Where all chance comes from.
    pub seed: u64,
    /// Producers at work at the same time, 1 to 4.
    pub producers: u32,
    /// Transactions of each producer.
    pub transactions: u32,
    /// Relays at work at the same time, 1 to 4.
    pub relays: u32,
    /// The policy of the relays: its constants are drawn too, so that no behaviour hides behind a default.
    pub options: RelayOptions,
    /// Which faults there are, and how many times in a thousand each strikes when it has the chance.
    pub faults: BTreeMap<Fault, u32>,
    /// How long faults go on, at least.
    pub stormy_for: Duration,
    /// How the route goes by lanes; `None`: it goes by rows.
    pub lanes: Option<LanePlan>,
    /// How relays by rows and relays by lanes meet; `None`: all are of one kind.
    pub mix: Option<Mix>,
    /// Whether relays are killed often and nothing else can be held against an entry: then only poisoned ones may die.
    pub kills: bool,
    /// What is staged are sagas; `None`: events.
    pub sagas: Option<SagaPlan>,
    /// Whether a commit wakes the relays of the same process.
    pub wakes: bool,
    /// A planted defect that the checks must find.
    pub mutant: Option<SimMutant>,
}

/// What a world by lanes has besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LanePlan {
    /// Keys that the producers share, 1 to 6.
    pub keys: u32,
    /// How many events in a thousand have no key.
    pub unkeyed_permille: u32,
    /// Whether a failure inside a batch stops what follows it, and the sink says so.
    pub ordered_prefix: bool,
    /// What the setting `relays_max` is being changed to: each relay that starts has the old one or this one.
    pub relays_max_new: u8,
    /// Whether the store cannot tell which transactions are open, as on MySQL and MongoDB.
    pub open_cursor: bool,
}

/// How relays by rows and relays by lanes come to work on one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mix {
    /// Each relay that starts is of either kind.
    AtOnce,
    /// A rolling deployment: one after the other, relays by rows become relays by lanes.
    ToLanes,
    /// The way back.
    ToRows,
}

/// What a world with sagas has besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SagaPlan {
    /// How many sagas in a thousand have a deadline.
    pub timeout_permille: u32,
    /// The longest that they may take.
    pub timeout_max: Duration,
}

impl Plan {
    /// The world of this seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            seed,
            producers: rng.between_u32(1..=4),
            transactions: rng.between_u32(4..=24),
            relays: rng.between_u32(1..=4),
            options: draw_options(&mut rng),
            faults: draw_faults(&mut rng),
            stormy_for: rng.millis(15_000..=60_000),
            wakes: rng.permille(500),
            lanes: None,
            mix: None,
            kills: false,
            sagas: None,
            mutant: None,
        }
    }

    /// The world of this seed, by lanes. Everything but the lanes is as in the world by rows.
    #[must_use]
    pub fn draw_lanes(seed: u64) -> Self {
        let mut plan = Self::draw(seed);
        let mut rng = Rng::new(seed).fork("lanes");
        let settings = [1, 2, 3, 4, LANES];
        plan.options.relays_max = rng.pick(&settings).unwrap_or(LANES);
        plan.options.on_dead = rng.pick(&[OnDead::Block, OnDead::Skip]).unwrap_or_default();
        plan.lanes = Some(LanePlan {
            keys: rng.between_u32(1..=6),
            unkeyed_permille: rng.pick(&[0, 100, 400]).unwrap_or(0),
            ordered_prefix: rng.permille(500),
            relays_max_new: rng.pick(&settings).unwrap_or(LANES),
            open_cursor: rng.permille(500),
        });
        plan
    }

    /// The world of this seed, by lanes, on a store that cannot tell which transactions are open.
    #[must_use]
    pub fn draw_open(seed: u64) -> Self {
        let mut plan = Self::draw_lanes(seed);
        plan.lanes = plan.lanes.map(|lanes| LanePlan { open_cursor: true, ..lanes });
        plan
    }

    /// The world of this seed, by lanes and by rows.
    #[must_use]
    pub fn draw_mixed(seed: u64) -> Self {
        let mut plan = Self::draw_lanes(seed);
        let mut rng = Rng::new(seed).fork("mix");
        plan.mix = rng.pick(&[Mix::AtOnce, Mix::ToLanes, Mix::ToRows]);
        plan.relays = plan.relays.max(2);
        if !plan.is_calm() {
            // Whoever takes over a route finds what others left in flight.
            let crashes = plan.faults.entry(Fault::Crash).or_default();
            *crashes = (*crashes).max(250);
        }
        plan
    }

    /// The world of this seed in which relays are killed often, by rows, by lanes or by both. Everything else is as by
    /// default: how often an entry is tried most of all.
    #[must_use]
    pub fn draw_killed(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork("kills");
        let draw = rng.pick(&[Self::draw, Self::draw_lanes, Self::draw_mixed]).unwrap_or(Self::draw);
        let mut plan = draw(seed);
        plan.kills = true;
        plan.options.max_attempts = RelayOptions::broker().max_attempts;
        plan.options.publish_timeout = None;
        plan.options.batch = rng.between_u32(8..=64);
        plan.options.in_flight_max = plan.options.batch * 2;
        plan.options.in_flight_bytes_max = 100_000;
        plan.options.lease = rng.millis(1_000..=3_000);
        plan.options.reap_interval = rng.millis(500..=1_500);
        plan.stormy_for = Duration::from_secs(60);
        plan.faults.retain(|fault, _| fault.is_daily() || fault.accuses_nobody());
        plan.faults.insert(Fault::Crash, rng.between_u32(500..=1_000));
        plan.faults.insert(Fault::CrashAtCall, rng.between_u32(2..=15));
        if rng.permille(500) {
            plan.faults.insert(Fault::PoisonedEntry, rng.between_u32(5..=30));
        } else {
            plan.faults.remove(&Fault::PoisonedEntry);
        }
        plan
    }

    /// When a relay is replaced by one of the other kind, in a rolling deployment.
    pub(crate) fn changes_at(&self, slot: u32) -> Duration {
        let until = u64::try_from(self.stormy_for.as_millis()).unwrap_or(u64::MAX);
        Rng::new(self.seed).fork(&format!("change-{slot}")).millis(0..=until)
    }

    /// The world of this seed, with sagas.
    #[must_use]
    pub fn draw_sagas(seed: u64) -> Self {
        let sagas = SagaPlan { timeout_permille: 200, timeout_max: Duration::from_secs(40) };
        let mut plan = Self { sagas: Some(sagas), ..Self::draw(seed) };
        if !plan.is_calm() {
            // Often enough that sagas go back.
            let rejects = plan.faults.entry(Fault::SinkRejects).or_default();
            *rejects = (*rejects).max(80);
        }
        plan
    }

    /// The world of this seed, with sagas that are past their deadline when the relay that was at them dies.
    #[must_use]
    pub fn draw_overdue(seed: u64) -> Self {
        let mut plan = Self::draw_sagas(seed);
        plan.sagas = Some(SagaPlan { timeout_permille: 800, timeout_max: Duration::from_secs(6) });
        // What is known when is compared by the clock, of relays that know whether they still hold what they do.
        for fault in [Fault::Freeze, Fault::ClockForward, Fault::ClockBackward, Fault::LateEffect] {
            plan.faults.remove(&fault);
        }
        let mut rng = Rng::new(seed).fork("overdue");
        plan.faults.insert(Fault::Crash, rng.between_u32(250..=1_000));
        plan.faults.insert(Fault::CrashAtCall, rng.between_u32(10..=60));
        plan
    }

    /// The same world with a planted defect.
    #[must_use]
    pub fn with_mutant(mut self, mutant: impl Into<SimMutant>) -> Self {
        self.mutant = Some(mutant.into());
        self
    }

    /// The same world without this kind of fault.
    #[must_use]
    pub fn without(mut self, fault: Fault) -> Self {
        self.faults.remove(&fault);
        self
    }

    /// The same world with this kind of fault at this rate.
    #[must_use]
    pub fn with(mut self, fault: Fault, permille: u32) -> Self {
        self.faults.insert(fault, permille);
        self
    }

    /// Whether nothing goes wrong but what applications and operators do every day. Then nothing is doubled either.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.faults.keys().all(|fault| fault.is_daily())
    }

    /// The longest that a call to the store may take before the relay gives it up.
    pub(crate) fn call_max(&self) -> Duration {
        (self.options.lease / 2).min(Duration::from_secs(30))
    }

    /// How long after the last work a relay may still be busy with itself: with calls that hung, with the wait after
    /// a failed one, with an open circuit, with waits between polls that grow to the longest.
    pub(crate) fn calming_down(&self) -> Duration {
        self.call_max() * 2 + Duration::from_secs(5) + self.options.circuit.max() + self.options.poll_max * 3
    }
}

fn draw_options(rng: &mut Rng) -> RelayOptions {
    let mut options = RelayOptions::broker();
    options.max_attempts = rng.between_u32(1..=5);
    options.batch = rng.between_u32(1..=64);
    options.in_flight_max = options.batch * rng.between_u32(1..=4);
    // Sometimes so small that payloads, not entries, are what bounds the claims.
    options.in_flight_bytes_max = rng.pick(&[64, 1_000, 100_000]).unwrap_or(1_000);
    let lease_max = rng.pick(&[5_000, 30_000]).unwrap_or(30_000);
    options.lease = rng.millis(1_000..=lease_max);
    let (base, jitter) = (rng.millis(50..=3_000), rng.pick(&[Jitter::None, Jitter::Full]));
    let max = base * rng.between_u32(1..=16);
    options.backoff = Backoff::new(base, max, jitter.unwrap_or_default()).unwrap_or(options.backoff);
    let base = rng.millis(100..=1_000);
    let max = base * rng.between_u32(1..=10);
    options.circuit = Backoff::new(base, max, Jitter::None).unwrap_or(options.circuit);
    options.publish_timeout = rng.permille(700).then(|| rng.millis(500..=20_000));
    options.grace = rng.millis(0..=10_000);
    options.poll_min = rng.millis(2..=50);
    options.poll_max = rng.millis(100..=2_000);
    options.reap_interval = rng.millis(500..=10_000);
    options.order = rng.pick(&[ClaimOrder::Staged, ClaimOrder::Causal]).unwrap_or_default();
    options.keep = if rng.permille(800) { Keep::UntilPurged } else { Keep::No };
    options
}

/// Not every world knows every fault: what two kinds do together shows best when the others are quiet.
fn draw_faults(rng: &mut Rng) -> BTreeMap<Fault, u32> {
    let calm = rng.permille(80);
    let share = rng.between_u32(200..=1_000);
    let weather = rng.between_u32(25..=300);
    let mut faults = BTreeMap::new();
    for fault in Fault::ALL {
        let known = rng.permille(share) && (!calm || fault.is_daily());
        if known {
            faults.insert(fault, (fault.permille() * weather / 100).clamp(1, 500));
        }
    }
    faults
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        writeln!(
            f,
            "seed {}: {} producers x {} transactions, {} relays, stormy for {:?}, wakes {}{}",
            self.seed,
            self.producers,
            self.transactions,
            self.relays,
            self.stormy_for,
            self.wakes,
            self.mutant.map(|mutant| format!(", mutant {mutant:?}")).unwrap_or_default(),
        )?;
        writeln!(
            f,
            "batch {}, in flight {} and {} bytes, lease {:?}, attempts {}, backoff {:?}..{:?}, publish timeout {:?}, \
             grace {:?}, poll {:?}..{:?}, reap {:?}, circuit {:?}..{:?}, {:?}, {:?}",
            options.batch,
            options.in_flight_max,
            options.in_flight_bytes_max,
            options.lease,
            options.max_attempts,
            options.backoff.base(),
            options.backoff.max(),
            options.publish_timeout,
            options.grace,
            options.poll_min,
            options.poll_max,
            options.reap_interval,
            options.circuit.base(),
            options.circuit.max(),
            options.order,
            options.keep,
        )?;
        if let Some(lanes) = self.lanes {
            let LanePlan { keys, unkeyed_permille, ordered_prefix, relays_max_new, open_cursor } = lanes;
            writeln!(
                f,
                "by lanes: {} or {relays_max_new} shares, dead heads {:?}, {keys} keys, {unkeyed_permille} per thousand without, \
                 ordered prefix {ordered_prefix}, open cursor {open_cursor}",
                options.relays_max, options.on_dead,
            )?;
        }
        if let Some(mix) = self.mix {
            writeln!(f, "relays by rows and by lanes: {mix:?}")?;
        }
        write!(f, "faults per thousand:")?;
        for (fault, permille) in &self.faults {
            write!(f, " {fault} {permille}")?;
        }
        Ok(())
    }
}
