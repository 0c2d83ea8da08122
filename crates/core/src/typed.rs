//! Events whose payload is a Rust type.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::event::Event;
use crate::payload::PayloadError;
use crate::received::Received;

/// A Rust type that is the payload of one event type. Staging and handling name the same Rust type, so the event
/// type and the payload cannot differ between them.
///
/// ```
/// use pillarbox_core::{Event, TypedEvent};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct OrderPlaced {
///     order: u64,
/// }
///
/// impl TypedEvent for OrderPlaced {
///     const TYPE: &'static str = "order.placed";
///
///     fn key(&self) -> Option<String> {
///         Some(format!("o-{}", self.order))
///     }
/// }
///
/// # fn main() -> pillarbox_core::Result<()> {
/// let event = Event::of(&OrderPlaced { order: 7 })?;
/// assert_eq!(event.event_type, "order.placed");
/// assert_eq!(event.key.as_deref(), Some("o-7"));
/// # Ok(()) }
/// ```
pub trait TypedEvent: Serialize + DeserializeOwned {
    /// The event type, such as `order.placed`, by which other services know the event.
    const TYPE: &'static str;

    /// The ordering key. Default: none.
    fn key(&self) -> Option<String> {
        None
    }
}

impl Event {
    /// An event with this payload as JSON, and with the type and key of the payload.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn of<T: TypedEvent>(payload: &T) -> Result<Self> {
        let mut event = Self::json(T::TYPE, payload)?;
        event.key = payload.key();
        Ok(event)
    }
}

impl Received {
    /// The same event with its payload decoded, if the event is of this type.
    ///
    /// ```
    /// # use pillarbox_core::{Received, Result, TypedEvent};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct OrderPlaced { order: u64 }
    /// # impl TypedEvent for OrderPlaced { const TYPE: &'static str = "order.placed"; }
    /// # fn example(event: Received) -> Result<()> {
    /// match event.event_type.as_str() {
    ///     OrderPlaced::TYPE => println!("order {} was placed", event.typed::<OrderPlaced>()?.payload.order),
    ///     _ => println!("nothing to do"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when the event has another type or the payload another shape. `?` in a
    /// handler rejects the message.
    pub fn typed<T: TypedEvent>(self) -> Result<Received<T>> {
        if self.event_type != T::TYPE {
            return Err(PayloadError::of_another_type(self.event_type, T::TYPE).into_error());
        }
        self.json()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::error::ErrorKind;
    use crate::event::Headers;
    use crate::received::Attributes;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct OrderPlaced {
        order: u64,
    }

    impl TypedEvent for OrderPlaced {
        const TYPE: &'static str = "order.placed";
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct OrderPaid {
        order: u64,
    }

    impl TypedEvent for OrderPaid {
        const TYPE: &'static str = "order.paid";

        fn key(&self) -> Option<String> {
            Some(self.order.to_string())
        }
    }

    fn received(event: &Event) -> Received {
        let attributes: Attributes = [
            ("specversion", "1.0"),
            ("id", "01900000-0000-7000-8000-000000000001"),
            ("source", "/shop"),
            ("type", event.event_type.as_str()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
        Received::decode(attributes, Headers::new(), event.payload.clone()).unwrap()
    }

    #[test]
    fn what_is_staged_as_a_type_is_received_as_it() {
        let event = Event::of(&OrderPaid { order: 7 }).unwrap();
        assert_eq!((event.event_type.as_str(), event.key.as_deref()), ("order.paid", Some("7")));
        assert_eq!(received(&event).typed::<OrderPaid>().unwrap().payload, OrderPaid { order: 7 });
        assert_eq!(Event::of(&OrderPlaced { order: 7 }).unwrap().key, None);
    }

    #[test]
    fn an_event_of_another_type_is_not_read_as_it_although_the_payload_would_do() {
        let event = Event::of(&OrderPaid { order: 7 }).unwrap();
        let error = received(&event).typed::<OrderPlaced>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("\"order.paid\", but \"order.placed\" was expected"), "{error}");
    }
}
