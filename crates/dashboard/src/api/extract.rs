//! Parameters and bodies, refused as JSON.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::Refusal;

/// The parameters of a query.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let refused = |rejection: QueryRejection| Refusal::bad(rejection.body_text());
        Query::from_request_parts(parts, state).await.map(|Query(query)| Self(query)).map_err(refused)
    }
}

/// The body of a change.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let refused = |rejection: JsonRejection| Refusal::new(rejection.status(), rejection.body_text());
        Json::from_request(request, state).await.map(|Json(body)| Self(body)).map_err(refused)
    }
}
