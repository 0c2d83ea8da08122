//! From a host's name to addresses: once per connection, and the connection goes to an address that was checked.

use std::fmt;
use std::net::IpAddr;

use async_trait::async_trait;

/// Looks up host names. The sink checks every address of the answer before it connects to it.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// The addresses of this host, in the order in which the sink tries them.
    ///
    /// # Errors
    /// When the name is unknown, or no name server answered.
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

impl fmt::Debug for dyn Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}
