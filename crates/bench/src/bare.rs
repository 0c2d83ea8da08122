//! Bare loops: the store's own calls one after the other, no engine.

use std::time::{Duration, Instant};

use pillarbox_cli::database::Database;
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::rate;
use pillarbox_core::RouteName;
use pillarbox_core::port::{
    AttendRequest, ClaimOrder, ClaimRequest, Company, HandOverRequest, Keep, LANES, LaneCursor,
    LaneSettleRequest, LaneSettlement, LaneWish, ReadRequest, SessionId, SettleRequest, Settlement, Steps,
    Verdict,
};
use pillarbox_core::{Entry, Fence, Held};

use super::BenchArgs;
use super::bed::ROUTE;
use super::by::By;

const OWNER: &str = "bench";
const LEASE: Duration = Duration::from_secs(30);
const ATTEMPTS: u32 = 5;

/// Drains what is there, and says how fast.
pub(crate) async fn drain(database: &Database, args: &BenchArgs, by: By, keep: Keep) -> Result<f64, Fault> {
    match by {
        By::Rows => rows(database, args, keep).await,
        By::Lanes => lanes(database, args, keep).await,
    }
}

/// A claim as a relay makes it, with the measurement's batch.
fn claim(args: &BenchArgs) -> Result<ClaimRequest, Fault> {
    Ok(ClaimRequest {
        route: RouteName::new(ROUTE)?,
        limit: args.batch,
        lease: LEASE,
        owner: OWNER.into(),
        max_attempts: ATTEMPTS,
        order: ClaimOrder::Staged,
        company: Company::Open,
        steps: Steps::Leave,
        now: None,
    })
}

async fn rows(database: &Database, args: &BenchArgs, keep: Keep) -> Result<f64, Fault> {
    let claim = claim(args)?;
    let started = Instant::now();
    let mut drained = 0;
    loop {
        let claimed = database.store.claim(claim.clone()).await?;
        if claimed.entries.is_empty() {
            return Ok(rate(drained, started));
        }
        let settlements = claimed
            .entries
            .iter()
            .map(|entry| Settlement { held: entry.held(), verdict: Verdict::Delivered })
            .collect();
        let request = SettleRequest { owner: OWNER.into(), settlements, keep, now: None };
        drained += database.store.settle(request).await?.accepted;
    }
}

/// One session that holds all lanes, reads a batch over all of them and settles it.
async fn lanes(database: &Database, args: &BenchArgs, keep: Keep) -> Result<f64, Fault> {
    let (route, session) = (RouteName::new(ROUTE)?, SessionId(uuid::Uuid::new_v4()));
    let started = Instant::now();
    let attend = AttendRequest {
        route: route.clone(),
        session,
        joins: true,
        owner: OWNER.into(),
        lease: LEASE,
        shares: LANES,
        max_attempts: ATTEMPTS,
        skips_dead: false,
        now: None,
    };
    let held = database.lanes.attend(attend).await?.lanes;
    let limit = args.batch.div_ceil(LANES.into());
    let lanes: Vec<_> = held.iter().map(|held| LaneWish { lane: held.lane, run: 1, limit }).collect();
    let mut cursor = LaneCursor::default();
    let mut fences = [Fence::NONE; LANES as usize];
    for held in &held {
        fences[usize::from(held.lane)] = held.fence;
    }
    let mut drained = 0;
    loop {
        let read = ReadRequest { route: route.clone(), session, lanes: lanes.clone(), cursor };
        let read = database.lanes.read(read).await?;
        let entries = read.entries;
        if entries.is_empty() {
            break;
        }
        // Everything that was passed is settled before the next read.
        cursor = read.cursor;
        let settle = LaneSettleRequest {
            route: route.clone(),
            session,
            owner: OWNER.into(),
            settlements: entries.iter().map(|entry| delivered(entry, &fences)).collect(),
            keep,
            now: None,
        };
        drained += database.lanes.settle(settle).await?.accepted;
    }
    let rate = rate(drained, started);
    database.lanes.hand_over(HandOverRequest { route, session, lanes: None }).await?;
    Ok(rate)
}

fn delivered(entry: &Entry, fences: &[Fence; LANES as usize]) -> LaneSettlement {
    let fence = entry.lane.and_then(|lane| fences.get(usize::from(lane))).copied().unwrap_or(Fence::NONE);
    LaneSettlement {
        held: Held { seq: entry.seq, fence },
        lane: entry.lane.unwrap_or(LANES),
        hint: entry.hint,
        attempts: entry.attempts + 1,
        verdict: Verdict::Delivered,
    }
}
