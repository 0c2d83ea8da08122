//! A dashboard over a store in memory, asked without a network.

use std::future::pending;
use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use pillarbox_core::port::{
    ClaimOrder, ClaimRequest, Company, Keep, SettleRequest, Settlement, Stage as _, Steps, Store as _,
    Verdict,
};
use pillarbox_core::{Entry, Event, EventId, Failure, FailureKind, RouteName, Staged};
use pillarbox_dashboard::{Access, Dashboard, DashboardOptions, Peer, Ports, Role};
use pillarbox_testkit::{MemoryOutbox, MemoryStore};
use serde_json::Value;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use crate::counting::Counting;

/// The route on which the tests stage.
pub(crate) const ROUTE: &str = "mail";

/// A dashboard that can be asked.
pub(crate) struct Served {
    pub(crate) store: MemoryStore,
    router: Router,
    /// The sampler. It ends with this.
    _running: JoinSet<()>,
}

/// What it answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn says(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.body.contains(part), "{part:?} is not said: {self:?}");
        }
    }
}

impl Served {
    /// Everybody may act.
    pub(crate) fn acting() -> Self {
        Self::over(Counting::in_real_time())
    }

    /// Everybody may act, on this store.
    pub(crate) fn over(store: Counting) -> Self {
        let mut options = DashboardOptions::default();
        options.access = Access::Everybody(Role::Operator);
        Self::with(store, options)
    }

    pub(crate) fn with(store: Counting, options: DashboardOptions) -> Self {
        let dashboard = Dashboard::new(Ports::of(&store), options).unwrap();
        let router = dashboard.router();
        let mut running = JoinSet::new();
        running.spawn(async move { dashboard.run(pending()).await });
        Self { store: store.store, router, _running: running }
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Request::get(path).header("host", "localhost").body(Body::empty()).unwrap()).await
    }

    /// A change by this operator.
    pub(crate) async fn act(&self, actor: &str, path: &str, body: &Value) -> Answer {
        let request = Request::post(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("pillarbox-actor", actor)
            .body(Body::from(body.to_string()))
            .unwrap();
        self.ask(request).await
    }
}

/// Stages events in one transaction.
pub(crate) async fn stage(store: &MemoryStore, events: Vec<Event>) -> Vec<EventId> {
    let mut tx = store.begin();
    let staged = MemoryOutbox::new(store, ROUTE).stage_all(&mut tx, events).await.unwrap();
    tx.commit();
    let id = |staged| match staged {
        Staged::Fresh(id) | Staged::Duplicate(id) => id,
    };
    staged.into_iter().map(id).collect()
}

/// What the relay `web-17` holds then.
pub(crate) async fn claim(store: &MemoryStore) -> Vec<Entry> {
    let request = ClaimRequest {
        route: RouteName::new(ROUTE).unwrap(),
        limit: 1_000,
        lease: Duration::from_secs(3600),
        owner: "web-17".into(),
        max_attempts: 5,
        order: ClaimOrder::Staged,
        company: Company::Open,
        steps: Steps::Leave,
        now: None,
    };
    store.claim(request).await.unwrap().entries
}

/// Leaves events of these types dead.
pub(crate) async fn bury(store: &MemoryStore, types: impl IntoIterator<Item = String>) -> Vec<EventId> {
    let events = types.into_iter().map(|event_type| Event::new(event_type, "{}")).collect();
    let ids = stage(store, events).await;
    let held = claim(store).await;
    assert_eq!(held.len(), ids.len());
    let failure = || Failure::new(FailureKind::Failed, "refused", "not now");
    let verdict = |entry: &Entry| Settlement { held: entry.held(), verdict: Verdict::dead(failure()) };
    let settlements = held.iter().map(verdict).collect();
    let request = SettleRequest { owner: "web-17".into(), settlements, keep: Keep::UntilPurged, now: None };
    assert!(store.settle(request).await.unwrap().fenced.is_empty());
    ids
}

/// A request of the API from this address, with the rest as headers.
pub(crate) fn from(peer: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::get("/api/v1/openapi.json").header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(Peer(peer.parse::<IpAddr>().unwrap()));
    request
}
