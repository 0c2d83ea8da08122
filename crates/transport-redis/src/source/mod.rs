//! Consuming from a stream as a member of a group.

mod group;
mod receipt;
pub(crate) mod reply;
mod subscription;

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::{Source, SourceCapabilities, Subscription};

use crate::connection::Connection;
use crate::options::Options;

use group::Group;
use subscription::RedisSubscription;

/// A source that consumes a stream as a member of a group.
///
/// The members of a group share the entries. If a member leaves an entry unanswered for `reclaim_after`,
/// another member takes it over. So the entries of a dead member are redelivered. If a handler takes longer
/// than `reclaim_after`, another member receives its entry while the handler still runs. The server counts
/// deliveries.
///
/// Entries that cannot be handled are moved to the stream `NAME:parked`. There the fields `parked-id` and
/// `parked-group` say where the entry came from.
pub struct RedisSource {
    group: Arc<Group>,
}

impl RedisSource {
    /// A source of this URL, such as
    /// `redis://127.0.0.1:6379/0?stream=orders&group=billing&consumer=billing-1`. It connects when a consumer
    /// subscribes.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL that is wrong.
    ///
    /// ```
    /// use pillarbox_transport_redis::RedisSource;
    ///
    /// let source = RedisSource::new("redis://127.0.0.1/0?stream=orders&group=billing&consumer=billing-1")?;
    /// # Ok::<_, pillarbox_core::Error>(())
    /// ```
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_source(url)?)
    }

    /// A source with these settings. It connects when a consumer subscribes.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the setting that cannot work.
    pub fn with_options(options: Options) -> Result<Self> {
        let (stream, group) = options.check_source()?;
        let (stream, group) = (stream.to_owned(), group.to_owned());
        Ok(Self { group: Arc::new(Group::new(Connection::new(options), stream, group)) })
    }
}

#[async_trait]
impl Source for RedisSource {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities::default().delivery_count(true).keeps_parked(true).system("redis")
    }

    fn name(&self) -> Option<&str> {
        Some(&self.group.stream)
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        self.group.make().await?;
        let left = self.group.left().await?;
        let subscription = RedisSubscription::open(&self.group, left).await?;
        Ok(Box::new(subscription))
    }
}
