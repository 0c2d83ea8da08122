//! `assert_staged!`: what an application staged, looked up in any store.

use std::fmt::Write as _;

use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::Filter;
use pillarbox_core::{Entry, Result};
use serde_json::Value;

/// The expectation of `assert_staged!`. Every field that is set must match.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub route: Option<String>,
    pub event_type: Option<String>,
    pub key: Option<String>,
    pub tenant: Option<String>,
    pub payload: Option<Value>,
    pub count: Option<usize>,
}

impl Expected {
    fn is(&self, entry: &Entry) -> bool {
        let same =
            |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
        same(&self.route, Some(entry.route.as_str()))
            && same(&self.event_type, Some(&entry.event_type))
            && same(&self.key, entry.key.as_deref())
            && same(&self.tenant, entry.tenant.as_deref())
            && self.payload.as_ref().is_none_or(|wanted| {
                serde_json::from_slice::<Value>(&entry.payload).is_ok_and(|found| is_within(wanted, &found))
            })
    }
}

/// Whether everything of `wanted` is in `found`: objects may have more fields, everything else is equal.
fn is_within(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(name, wanted)| found.get(name).is_some_and(|found| is_within(wanted, found)))
        }
        _ => wanted == found,
    }
}

/// The listing that `assert_staged!` asks the store for.
#[doc(hidden)]
#[must_use]
pub fn everything() -> Filter {
    Filter::default().limit(LIST_MAX)
}

/// Panics, with a list of what was staged instead, unless the expectation is met.
#[doc(hidden)]
#[track_caller]
#[allow(clippy::panic)]
pub fn check(listed: Result<Vec<Entry>>, expected: &Expected) {
    let entries = match listed {
        Ok(entries) => entries,
        Err(error) => panic!("the store cannot be read: {error}"),
    };
    let found = entries.iter().filter(|entry| expected.is(entry)).count();
    if expected.count.map_or(found > 0, |count| found == count) {
        return;
    }
    let wanted = expected.count.map_or("at least one".to_owned(), |count| format!("exactly {count}"));
    panic!("expected {wanted} of these to be staged, found {found}: {expected:?}\n{}", describe(&entries));
}

fn describe(entries: &[Entry]) -> String {
    let mut text = format!("staged are {}:", entries.len());
    for entry in entries.iter().take(20) {
        let key = entry.key.as_deref().unwrap_or("-");
        let payload: String = String::from_utf8_lossy(&entry.payload).chars().take(200).collect();
        let (route, event_type, status) = (&entry.route, &entry.event_type, entry.status);
        let _ = write!(text, "\n  route {route} type {event_type} key {key} ({status}) payload {payload}");
    }
    if entries.len() > 20 {
        text.push_str("\n  …");
    }
    text
}

/// Asserts that an event was staged and committed. If it was not, the panic lists the entries that are staged
/// instead.
///
/// Takes any store, or a reference to one, and is used in async code. `type`, `key`, `route` and `tenant`
/// must be equal. `payload` must be contained in the staged JSON. `count` is the exact number of such
/// entries. Without `count`, at least one must exist.
///
/// ```
/// # use pillarbox_core::Event;
/// # use pillarbox_testkit::{MemoryOutbox, MemoryStore, assert_staged};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> pillarbox_core::Result<()> {
/// let store = MemoryStore::new();
/// let outbox = MemoryOutbox::new(&store, "orders");
/// let mut tx = store.begin();
/// let event = Event::json("order.placed", &serde_json::json!({"id": 7, "total": 30}))?.key("o-7");
/// outbox.stage(&mut tx, event).await?;
/// tx.commit();
///
/// assert_staged!(store, type = "order.placed", key = "o-7");
/// assert_staged!(store, route = "orders", payload = serde_json::json!({"id": 7}), count = 1);
/// assert_staged!(store, type = "order.cancelled", count = 0);
/// # Ok(()) }
/// ```
#[macro_export]
macro_rules! assert_staged {
    (@fields $expected:ident;) => {};
    (@fields $expected:ident; , $($rest:tt)*) => { $crate::assert_staged!(@fields $expected; $($rest)*) };
    (@fields $expected:ident; type = $value:expr $(, $($rest:tt)*)?) => {
        $expected.event_type = Some(::std::string::String::from($value));
        $($crate::assert_staged!(@fields $expected; $($rest)*);)?
    };
    (@fields $expected:ident; key = $value:expr $(, $($rest:tt)*)?) => {
        $expected.key = Some(::std::string::String::from($value));
        $($crate::assert_staged!(@fields $expected; $($rest)*);)?
    };
    (@fields $expected:ident; route = $value:expr $(, $($rest:tt)*)?) => {
        $expected.route = Some(::std::string::String::from($value));
        $($crate::assert_staged!(@fields $expected; $($rest)*);)?
    };
    (@fields $expected:ident; tenant = $value:expr $(, $($rest:tt)*)?) => {
        $expected.tenant = Some(::std::string::String::from($value));
        $($crate::assert_staged!(@fields $expected; $($rest)*);)?
    };
    (@fields $expected:ident; payload = $value:expr $(, $($rest:tt)*)?) => {
        $expected.payload = Some($value);
        $($crate::assert_staged!(@fields $expected; $($rest)*);)?
    };
    (@fields $expected:ident; count = $value:expr $(, $($rest:tt)*)?) => {
        $expected.count = Some($value);
        $($crate::assert_staged!(@fields $expected; $($rest)*);)?
    };
    ($store:expr $(, $($fields:tt)*)?) => {{
        // A method call, so that a store, a reference and an `Arc` of one all work.
        use $crate::__private::Admin as _;
        #[allow(unused_mut)]
        let mut expected = $crate::__private::Expected::default();
        $($crate::assert_staged!(@fields expected; $($fields)*);)?
        $crate::__private::check($store.list($crate::__private::everything()).await, &expected);
    }};
}

#[cfg(test)]
mod tests {
    use pillarbox_core::Event;
    use serde_json::json;

    use crate::{MemoryOutbox, MemoryStore};

    async fn staged() -> MemoryStore {
        let store = MemoryStore::new();
        let mut tx = store.begin();
        let event =
            Event::json("order.placed", &json!({"id": 7, "lines": [1, 2], "to": {"city": "X", "zip": 1}}));
        let outbox = MemoryOutbox::new(&store, "orders");
        let staged = outbox.stage(&mut tx, event.unwrap().key("o-7").tenant("north")).await.unwrap();
        assert!(!staged.is_duplicate());
        tx.commit();
        store
    }

    #[tokio::test]
    async fn what_was_staged_is_found_by_every_field() {
        let store = staged().await;
        assert_staged!(store);
        assert_staged!(&store, type = "order.placed", key = "o-7", tenant = "north", route = "orders", count = 1,);
        assert_staged!(
            std::sync::Arc::new(store.clone()),
            payload = json!({"to": {"zip": 1}, "lines": [1, 2]})
        );
        assert_staged!(store, key = "o-8", count = 0);
        assert_staged!(store, payload = json!({"lines": [1]}), count = 0);
    }

    #[tokio::test]
    #[should_panic(
        expected = "staged are 1:\n  route orders type order.placed key o-7 (pending) payload {\"id\":7"
    )]
    async fn a_failure_prints_what_was_staged_instead() {
        assert_staged!(staged().await, type = "order.paid");
    }

    #[tokio::test]
    #[should_panic(expected = "expected exactly 2 of these to be staged, found 1")]
    async fn a_wrong_count_fails() {
        assert_staged!(staged().await, type = "order.placed", count = 2);
    }
}
