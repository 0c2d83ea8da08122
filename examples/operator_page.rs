//! The operator's page inside another web service, behind that service's own sign-in.
//!
//! `cargo run -p pillarbox-examples --bin operator-page -- shop.db 127.0.0.1:8080`, then Ctrl-C. The page is for
//! requests with the cookie `shop-session=session-of-ana`, at `/ops/outbox/`.
#![allow(clippy::print_stdout)]

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use pillarbox::Event;
use pillarbox::dashboard::{Access, Dashboard, DashboardOptions, Ports, Role};
use pillarbox::sqlite::{Options, Outbox, SqliteStore};
use tokio::net::TcpListener;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Where the page is, inside the service.
const PREFIX: &str = "/ops/outbox";
/// Who is signed in. A real service has sessions of its own.
const SESSIONS: [(&str, &str); 2] = [("session-of-ana", "ana"), ("session-of-bob", "bob")];

/// What the service's own handlers need.
struct Shop {
    store: SqliteStore,
    outbox: Outbox,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let database = arguments.next().unwrap_or_else(|| "shop.db".into());
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let store = SqliteStore::connect(&format!("sqlite://{database}"), Options::default()).await?;
    store.migrate().await?;

    // Everybody whom `staff_only` lets through may act. Names of the service besides localhost belong in `hosts`.
    let access = Access::Everybody(Role::Operator);
    let options = DashboardOptions::default().title("shop").prefix(PREFIX).access(access);
    let dashboard = Dashboard::new(Ports::of(&store), options)?;
    let page = dashboard.router().layer(from_fn(staff_only));

    let shop = Arc::new(Shop { store, outbox: Outbox::new("orders") });
    let service = Router::new()
        .route("/", get(|| async { "the shop" }))
        .route("/orders/{id}", post(order))
        .with_state(shop)
        .nest_service(PREFIX, page);
    let listener = TcpListener::bind(listen).await?;
    println!("the shop is at http://{}/", listener.local_addr()?);
    tokio::select! {
        served = axum::serve(listener, service).into_future() => served?,
        // It reads the store for all pages, beside the server. An open page has a stream without an end, so the
        // service does not wait for its connections.
        () = dashboard.run(interrupted()) => {}
    }
    Ok(())
}

/// Takes an order and stages its event in the same transaction.
async fn order(State(shop): State<Arc<Shop>>, Path(id): Path<String>) -> Response {
    match taken(&shop, &id).await {
        Ok(()) => StatusCode::CREATED.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn taken(shop: &Shop, id: &str) -> Result<(), Failure> {
    let mut tx = shop.store.pool().begin().await?;
    shop.outbox.stage(&mut tx, Event::json("order.placed", id)?.key(id)).await?;
    shop.outbox.commit(tx).await?;
    Ok(())
}

/// Lets through whoever is signed in to the service, under their own name in the audit trail.
async fn staff_only(mut request: Request, next: Next) -> Response {
    let Some(name) = signed_in(request.headers()) else {
        return (StatusCode::UNAUTHORIZED, "sign in to the shop first").into_response();
    };
    // The page sends this header with every change, and a page of another site cannot. So it is never added here.
    if let Some(actor) = request.headers_mut().get_mut("pillarbox-actor") {
        *actor = HeaderValue::from_static(name);
    }
    next.run(request).await
}

fn signed_in(headers: &HeaderMap) -> Option<&'static str> {
    let cookies = headers.get(header::COOKIE)?.to_str().ok()?;
    let session = cookies.split("; ").find_map(|cookie| cookie.strip_prefix("shop-session="))?;
    SESSIONS.iter().find(|(known, _)| *known == session).map(|(_, name)| *name)
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
