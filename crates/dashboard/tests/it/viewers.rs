//! What open pages cost: one sampler reads for all of them.

use std::future::pending;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use pillarbox_dashboard::{Dashboard, DashboardOptions, Ports};
use tower::ServiceExt as _;

use crate::counting::Counting;

/// How long the pages are open. Looks come every second, and none at the moment in which this ends.
const OPEN: Duration = Duration::from_millis(59_500);

/// A page that is open for a while: it loads once and then follows the stream. Returns how many looks it has shown.
async fn page(router: Router) -> usize {
    let ask = |path: &str| Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    let loaded = router.clone().oneshot(ask("/")).await.unwrap();
    assert_eq!(loaded.status(), StatusCode::OK);
    let stream = router.oneshot(ask("/live?view=overview")).await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    let (mut body, mut looks) = (stream.into_body(), 0);
    let reading = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.unwrap();
            let text = String::from_utf8_lossy(frame.data_ref().unwrap());
            looks += text.matches("event: look").count();
        }
    };
    let _ = tokio::time::timeout(OPEN, reading).await;
    looks
}

/// Opens pages at the same time. Returns how often the store was asked, and the looks that each page has shown.
async fn watched_by(viewers: usize) -> (usize, Vec<usize>) {
    let store = Counting::default();
    let dashboard = Dashboard::new(Ports::of(&store), DashboardOptions::default()).unwrap();
    let pages = join_all((0..viewers).map(|_| page(dashboard.router())));
    let shown = tokio::select! {
        shown = pages => shown,
        () = dashboard.run(pending()) => unreachable!("the sampler runs for ever"),
    };
    (store.calls(), shown)
}

#[tokio::test(start_paused = true)]
async fn ten_open_pages_ask_the_store_as_often_as_one() {
    let (by_one, shown) = watched_by(1).await;
    // A look every second asks for counts, rates, sagas and relays, and now and then for the tables.
    assert!((200..=300).contains(&by_one), "{by_one} calls");
    assert!(shown[0] >= 50, "{shown:?}");
    let (by_ten, shown) = watched_by(10).await;
    assert_eq!(by_ten, by_one, "the store was asked more often because more pages were open");
    assert!(shown.iter().all(|looks| *looks >= 50), "every page follows: {shown:?}");
}
