//! The store's calls as tasks of their own.

use async_trait::async_trait;
use pillarbox_core::port::{
    AttendRequest, Attendance, Claim, ClaimRequest, ExtendRequest, Extended, FetchRequest, Fetched,
    HandOverRequest, Head, HeadsRequest, IsolateRequest, LaneRead, LaneSettleRequest, Lanes, Passed,
    PassedRequest, ReadRequest, ReapRequest, Reaped, SettleRequest, Settled, Store,
};
use pillarbox_core::{Error, ErrorKind, Result, RouteName};
use tokio::task::JoinSet;

/// A store whose calls run beside the relay.
///
/// A relay is one future and uses one processor at a time. Reading the rows of a claim is a good part of its work, and
/// so is publishing; this process has a runtime of several threads, so here they go on at once. A call that nobody
/// waits for any more is aborted, as it would be without this.
#[derive(Clone)]
pub(crate) struct Apart<S>(pub(crate) S);

#[async_trait]
impl<S: Store + Clone + 'static> Store for Apart<S> {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        let store = self.0.clone();
        apart(async move { store.claim(request).await }).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        let store = self.0.clone();
        apart(async move { store.extend(request).await }).await
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        let store = self.0.clone();
        apart(async move { store.settle(request).await }).await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        let store = self.0.clone();
        apart(async move { store.reap(request).await }).await
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        self.0.open_sagas(route).await
    }
}

#[async_trait]
impl<S: Lanes + Clone + 'static> Lanes for Apart<S> {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        let store = self.0.clone();
        apart(async move { store.attend(request).await }).await
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        let store = self.0.clone();
        apart(async move { store.read(request).await }).await
    }

    async fn passed(&self, request: PassedRequest) -> Result<Passed> {
        let store = self.0.clone();
        apart(async move { store.passed(request).await }).await
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        let store = self.0.clone();
        apart(async move { store.fetch(request).await }).await
    }

    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        let store = self.0.clone();
        apart(async move { store.heads(request).await }).await
    }

    async fn isolate(&self, request: IsolateRequest) -> Result<bool> {
        let store = self.0.clone();
        apart(async move { store.isolate(request).await }).await
    }

    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped> {
        let store = self.0.clone();
        apart(async move { store.reap_rows(request).await }).await
    }

    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled> {
        let store = self.0.clone();
        apart(async move { Lanes::settle(&store, request).await }).await
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        Lanes::open_sagas(&self.0, route).await
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<()> {
        let store = self.0.clone();
        apart(async move { store.hand_over(request).await }).await
    }
}

async fn apart<T: Send + 'static>(call: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    // Aborts what it holds when it is dropped.
    let mut task = JoinSet::new();
    task.spawn(call);
    match task.join_next().await {
        Some(Ok(answer)) => answer,
        Some(Err(_)) | None => Err(Error::new(ErrorKind::Internal, "a call to the store panicked")),
    }
}
