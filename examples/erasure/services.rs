//! The two services that belong to others: they keep their own data, and fail now and then.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{delete, post};
use sqlx::SqlitePool;
use tokio::net::TcpListener;

use crate::Failure;
use crate::chance::Chance;

/// Keeps files in folders, and deletes a folder at once.
pub(crate) struct ObjectStore {
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    root: PathBuf,
    chance: Chance,
}

impl ObjectStore {
    pub(crate) async fn open(folder: &FilePath, chance: Chance) -> Result<Self, Failure> {
        let root = folder.join("objects");
        std::fs::create_dir_all(&root)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Ok(Self { address: listener.local_addr()?, listener, root, chance })
    }

    pub(crate) async fn serve(self) -> Result<(), Failure> {
        let state = Arc::new((self.root, self.chance));
        let service = Router::new().route("/folders/{name}", delete(delete_folder)).with_state(state);
        axum::serve(self.listener, service).await?;
        Ok(())
    }
}

async fn delete_folder(State(state): State<Arc<(PathBuf, Chance)>>, Path(name): Path<String>) -> StatusCode {
    let (root, chance) = &*state;
    if chance.one_in(4) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    // A tombstone stands for everything that was in the folder.
    match std::fs::File::create_new(root.join(format!("{name}.deleted"))) {
        // Done, and the answer says that it was not: the worst that a service can do.
        Ok(_) if chance.one_in(6) => StatusCode::INTERNAL_SERVER_ERROR,
        Ok(_) => StatusCode::NO_CONTENT,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => StatusCode::NOT_FOUND,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Redacts what it knows of a customer, later, and once for a key.
pub(crate) struct PaymentProvider {
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    database: SqlitePool,
    chance: Chance,
}

impl PaymentProvider {
    pub(crate) async fn open(folder: &FilePath, chance: Chance) -> Result<Self, Failure> {
        let url = format!("sqlite://{}", folder.join("payments.db").display());
        let database = pillarbox::sqlite::app_pool(&url).await?;
        sqlx::query("create table if not exists redactions (key text primary key, customer text not null)")
            .execute(&database)
            .await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Ok(Self { address: listener.local_addr()?, listener, database, chance })
    }

    pub(crate) async fn serve(self) -> Result<(), Failure> {
        let state = Arc::new((self.database, self.chance));
        let service = Router::new().route("/customers/{id}/redaction", post(redact)).with_state(state);
        axum::serve(self.listener, service).await?;
        Ok(())
    }
}

async fn redact(
    State(state): State<Arc<(SqlitePool, Chance)>>,
    Path(customer): Path<String>,
    headers: HeaderMap,
) -> StatusCode {
    let (database, chance) = &*state;
    let Some(key) = headers.get("idempotency-key").and_then(|key| key.to_str().ok()) else {
        return StatusCode::BAD_REQUEST;
    };
    // Every fifth customer has a dispute that nobody has settled yet.
    if customer.ends_with('3') || customer.ends_with('8') {
        return StatusCode::CONFLICT;
    }
    if chance.one_in(4) {
        return StatusCode::BAD_GATEWAY;
    }
    let started = sqlx::query("insert into redactions (key, customer) values (?, ?) on conflict do nothing")
        .bind(key)
        .bind(customer)
        .execute(database)
        .await;
    match started {
        // Begun: whoever asks again under this key learns that it is done.
        Ok(started) if started.rows_affected() == 1 => StatusCode::ACCEPTED,
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
