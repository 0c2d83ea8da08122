//! The application: requests for the erasure of people, and the handlers that carry them out.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use pillarbox::sink::{Handled, HandlerError, Handlers, Handling};
use pillarbox::{Handle, Reference, Saga, Step};

use crate::database::Database;
use crate::{Failure, client};

/// Where the data of a person is.
pub(crate) struct Application<D> {
    pub(crate) database: D,
    pub(crate) objects: SocketAddr,
    pub(crate) payments: SocketAddr,
}

impl<D: Database> Application<D> {
    /// A person asks to be forgotten. `false`: they did before.
    pub(crate) async fn request(&self, person: &str, relay: Handle) -> Result<bool, Failure> {
        let saga = Saga::group("erase_person", Reference::new("person", person))
            .step(Step::new("database", "people.delete"))
            .step(Step::new("files", "objects.delete").reference(Reference::new("folder", person)))
            .step(Step::new("payments", "payments.redact").reference(Reference::new("customer", person)))
            .build()?;
        self.database.request(person, saga, relay).await
    }

    pub(crate) fn handlers(&self) -> Result<Handlers, Failure> {
        let (database, objects, payments) = (self.database.clone(), self.objects, self.payments);
        let handlers = Handlers::new()
            .on("people.delete", move |handling| delete_person(database.clone(), handling))?
            .on("objects.delete", move |handling| delete_objects(objects, handling))?
            .on("payments.redact", move |handling| redact_payments(payments, handling))?
            // The provider does not like to be asked by too many at once.
            .limit("payments.redact", 4)?;
        Ok(handlers)
    }
}

/// Our own database: deleting is idempotent by nature.
async fn delete_person(database: impl Database, handling: Handling) -> Result<Handled, HandlerError> {
    let person = handling.reference()?.value;
    let deleted = database.delete(&person).await?;
    println!("{person}: deleted in the database (attempt {})", handling.attempt());
    Ok(if deleted { Handled::Done } else { Handled::AlreadyDone })
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
