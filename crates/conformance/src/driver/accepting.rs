//! Accepting in a driver's transaction.

use pillarbox_core::Fence;
use pillarbox_core::port::{AcceptRequest, Accepted, Origin, Position};

use super::steps::*;
use super::{Act, DriverHarness, Said};
use crate::store::steps::id;

fn accept(n: u64) -> Act<'static> {
    Act::Accept(AcceptRequest::new("billing", id(n)))
}

fn accepted(said: &Said) -> Accepted {
    match said {
        Said::Accepted(Ok(accepted)) => *accepted,
        other => panic!("not accepted: {other:?}"),
    }
}

/// A rollback leaves no mark, a commit does, and consumers are independent.
pub async fn an_event_is_fresh_for_a_driver_once_it_was_committed<H: DriverHarness>(harness: &H) {
    let said = roll_back(harness, vec![accept(1), accept(1)]).await;
    assert_eq!((accepted(&said[0]), accepted(&said[1])), (Accepted::Fresh, Accepted::Duplicate));
    let said = commit(harness, vec![accept(1)]).await;
    assert_eq!(accepted(&said[0]), Accepted::Fresh, "a rollback left a mark");
    let other = Act::Accept(AcceptRequest::new("shipping", id(1)));
    let nameless = Act::Accept(AcceptRequest::new("", id(2)));
    let said = commit(harness, vec![nameless, accept(1), other]).await;
    assert!(matches!(said[0], Said::Accepted(Err(_))), "{said:?}");
    assert_eq!((accepted(&said[1]), accepted(&said[2])), (Accepted::Duplicate, Accepted::Fresh));
}

/// What an earlier owner of a lane published behind a later one is stale, unless it was seen before.
pub async fn a_driver_is_told_that_an_event_is_stale<H: DriverHarness>(harness: &H) {
    let from = |n: u64, fence: i64, offset: i64| {
        let position = Position { stream: "s".into(), offset };
        let origin = Origin { lane: "orders/1".into(), fence: Fence(fence), position };
        Act::Accept(AcceptRequest::new("billing", id(n)).origin(Some(origin)))
    };
    let said = commit(harness, vec![from(1, 1, 1), from(2, 2, 2), from(2, 2, 2)]).await;
    let all: Vec<_> = said.iter().map(accepted).collect();
    assert_eq!(all, [Accepted::Fresh, Accepted::Fresh, Accepted::Duplicate]);
    let said = commit(harness, vec![from(3, 1, 3), from(1, 1, 4), from(3, 2, 5)]).await;
    let all: Vec<_> = said.iter().map(accepted).collect();
    assert_eq!(all, [Accepted::Stale, Accepted::Duplicate, Accepted::Fresh]);
}
