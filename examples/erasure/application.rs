//! The application: people in a database, requests for their erasure, and the handlers that carry them out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use pillarbox::sink::{Handled, HandlerError, Handlers, Handling};
use pillarbox::sqlite::{Outbox, Sagas, SqliteStore};
use pillarbox::{Error, ErrorKind, Handle, Reference, Saga, Step};

use crate::{Failure, client};

const TABLES: &str = "
    create table if not exists people (id text primary key, name text not null);
    create table if not exists requests (person text primary key, saga text not null);
    create table if not exists erased (person text not null, saga text not null);";

/// Where the data of a person is.
#[derive(Clone)]
pub(crate) struct Application {
    store: SqliteStore,
    objects: SocketAddr,
    payments: SocketAddr,
}

impl Application {
    pub(crate) async fn open(
        store: SqliteStore,
        objects: SocketAddr,
        payments: SocketAddr,
    ) -> Result<Self, Failure> {
        sqlx::raw_sql(TABLES).execute(store.pool()).await?;
        Ok(Self { store, objects, payments })
    }

    /// A person asks to be forgotten: the request and the saga are one transaction. Asking again changes nothing.
    pub(crate) async fn request(&self, person: &str, relay: Handle) -> Result<bool, Failure> {
        let outbox = Outbox::new("erasures").wake(Arc::new(relay));
        let saga = Saga::group("erase_person", Reference::new("person", person))
            .step(Step::new("database", "people.delete"))
            .step(Step::new("files", "objects.delete").reference(Reference::new("folder", person)))
            .step(Step::new("payments", "payments.redact").reference(Reference::new("customer", person)))
            .build()?;
        let mut tx = self.store.pool().begin_with("BEGIN IMMEDIATE").await?;
        let known = sqlx::query("select 1 from requests where person = ?").bind(person);
        if known.fetch_optional(&mut *tx).await?.is_some() {
            return Ok(false);
        }
        // There would have been somebody before.
        sqlx::query("insert into people (id, name) values (?1, 'somebody named ' || ?1)")
            .bind(person)
            .execute(&mut *tx)
            .await?;
        let staged = outbox.stage_saga(&mut tx, saga).await?;
        sqlx::query("insert into requests (person, saga) values (?, ?)")
            .bind(person)
            .bind(staged.id().to_string())
            .execute(&mut *tx)
            .await?;
        outbox.commit(tx).await?;
        Ok(true)
    }

    /// The sagas, with what is written in the very transaction in which one completes.
    pub(crate) fn sagas(&self) -> Sagas {
        self.store.sagas().on_end(|tx, saga| {
            Box::pin(async move {
                sqlx::query("insert into erased (person, saga) values (?, ?)")
                    .bind(&saga.subject.value)
                    .bind(saga.id.to_string())
                    .execute(&mut **tx)
                    .await
                    .map_err(|error| {
                        Error::new(ErrorKind::Unavailable, "the end cannot be recorded").with_source(error)
                    })?;
                Ok(())
            })
        })
    }

    pub(crate) fn handlers(&self) -> Result<Handlers, Failure> {
        let (database, objects, payments) = (self.clone(), self.objects, self.payments);
        let handlers = Handlers::new()
            .step("people.delete", move |handling| delete_person(database.store.clone(), handling))?
            .step("objects.delete", move |handling| delete_objects(objects, handling))?
            .step("payments.redact", move |handling| redact_payments(payments, handling))?
            // The provider does not like to be asked by too many at once.
            .limit("payments.redact", 4)?;
        Ok(handlers)
    }
}

/// Our own database: deleting is idempotent by nature.
async fn delete_person(store: SqliteStore, handling: Handling) -> Result<Handled, HandlerError> {
    let person = handling.reference()?.value;
    let deleted = sqlx::query("delete from people where id = ?").bind(&person).execute(store.pool()).await?;
    println!("{person}: deleted in the database (attempt {})", handling.attempt());
    Ok(if deleted.rows_affected() == 0 { Handled::AlreadyDone } else { Handled::Done })
}

/// The object store: what is not there any more was deleted before.
async fn delete_objects(store: SocketAddr, handling: Handling) -> Result<Handled, HandlerError> {
    let folder = handling.reference()?.value;
    let path = format!("/folders/{folder}");
    let answer = client::send(store, Method::DELETE, &path, handling.idempotency_key()).await?;
    println!("{folder}: the object store says {answer} (attempt {})", handling.attempt());
    match answer {
        StatusCode::NO_CONTENT => Ok(Handled::Done),
        StatusCode::NOT_FOUND => Ok(Handled::AlreadyDone),
        _ => Err(HandlerError::retry(answer.as_str(), "the object store did not delete it")),
    }
}

/// The payment provider takes its time: it is asked again later under the same key, and knows what it did.
async fn redact_payments(provider: SocketAddr, handling: Handling) -> Result<Handled, HandlerError> {
    let customer = handling.reference()?.value;
    let path = format!("/customers/{customer}/redaction");
    let answer = client::send(provider, Method::POST, &path, handling.idempotency_key()).await?;
    println!("{customer}: the payment provider says {answer} (attempt {})", handling.attempt());
    match answer {
        StatusCode::OK => Ok(Handled::Done),
        StatusCode::ACCEPTED => Ok(Handled::ParkFor(Duration::from_millis(50))),
        StatusCode::CONFLICT => Err(HandlerError::reject("in_dispute", "a payment of theirs is in dispute")),
        _ => Err(HandlerError::retry(answer.as_str(), "the payment provider did not answer as it should")),
    }
}
