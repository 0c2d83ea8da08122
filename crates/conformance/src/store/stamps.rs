//! Clock stamps as a store keeps and uses them. Their arithmetic is tested in the core.

use pillarbox_core::port::{ClaimOrder, ClaimRequest, Verdict};

use super::steps::*;
use crate::{StoreHarness, Tamper};

/// Staged later means stamped higher, within a call and between calls.
pub async fn stamps_grow_with_every_staged_event<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(50)).await.len(), 50);
    assert_eq!(stage(harness, vec![event(51)]).await.len(), 1);
    let stamps: Vec<_> = all(harness).await.into_iter().map(|entry| entry.hlc.expect("a stamp")).collect();
    assert!(stamps.is_sorted_by(|earlier, later| earlier < later));
}

/// A stamp is the same in a listing and in a claim, and follows the clock of this process.
pub async fn a_stamp_survives_claims_and_retries<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let staged = entry(harness, 1).await.hlc;
    let now = soon(harness).await;
    let first = claim_one(harness, now).await;
    settle(harness, &first, retry(SECOND), now).await;
    let second = claim_one(harness, now.saturating_add(SECOND)).await;
    settle(harness, &second, Verdict::Delivered, now.saturating_add(SECOND)).await;
    assert_eq!([first.hlc, second.hlc, entry(harness, 1).await.hlc], [staged; 3]);
}

/// By stamp, not by priority; rows that were staged without one come last, whenever they were staged.
pub async fn causal_claims_go_by_stamp_and_rows_without_one_last<H: StoreHarness>(harness: &H) {
    let plain = |event_type: &str| Tamper::StagePlain {
        route: ROUTE.into(),
        event_type: event_type.into(),
        payload: b"{}".to_vec(),
    };
    tamper!(harness, plain("plain.first"));
    assert_eq!(stage(harness, vec![event(1).priority(9)]).await.len(), 1);
    assert!(harness.tamper(plain("plain.second")).await);
    assert_eq!(stage(harness, vec![event(2).priority(5), event(3).priority(1)]).await.len(), 2);
    let now = soon(harness).await;
    let causal = |limit| ClaimRequest { order: ClaimOrder::Causal, ..claim_request(limit, now) };
    assert_eq!(ids(&claim_as(harness, causal(2)).await), ids_of([1, 2]));
    let rest = claim_as(harness, causal(10)).await;
    assert_eq!(rest[0].event_id, id(3));
    let types: Vec<_> = rest[1..].iter().map(|entry| entry.event_type.as_str()).collect();
    assert_eq!(types, ["plain.first", "plain.second"]);
}
