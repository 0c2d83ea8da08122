//! A page that is served by a process of its own, as `pillarbox dashboard` or beside the routes of `pillarbox relay`.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use pillarbox_cli::database::Database;
use pillarbox_cli::fault::Fault;

use crate::memory::{bytes, start};

/// How long a process may take to listen.
const START: Duration = Duration::from_secs(30);

/// The process, ended when it is dropped.
pub(super) struct Served {
    child: Child,
    address: SocketAddr,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    /// Starts this program as that command over these tables, and waits until it listens.
    pub(super) async fn start(
        command: &str,
        database: &Database,
        url: &str,
        folder: &Path,
        name: &str,
    ) -> Result<Self, Fault> {
        let cannot = |error: std::io::Error| {
            Fault::failed(format!("cannot start the {command} that is measured: {error}"))
        };
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = address.map_err(cannot)?;
        let config = folder.join(format!("{name}.toml"));
        let names = database.staging.names();
        let text = format!("[database]\n{names}\n[admin]\nlisten = \"{address}\"\n{}", super::route());
        std::fs::write(&config, text).map_err(cannot)?;
        let child = start(&[command], &config, url).map_err(cannot)?;
        let mut served = Self { child, address };
        let started = Instant::now();
        while tokio::net::TcpStream::connect(address).await.is_err() {
            let ended = served.child.try_wait().map_err(cannot)?;
            if ended.is_some() || started.elapsed() > START {
                return Err(Fault::failed(format!("the {command} that is measured does not listen")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(served)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn stop(self) {}

    /// How much of one processor the process spends, watched for so long; `None` where the kernel does not tell.
    pub(super) async fn share_of_a_core(&self, watched: Duration) -> Option<f64> {
        let (before, started) = (self.spent()?, Instant::now());
        tokio::time::sleep(watched).await;
        let spent = self.spent()?.saturating_sub(before);
        Some(spent.as_secs_f64() / started.elapsed().as_secs_f64())
    }

    /// Resident memory.
    pub(super) fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        bytes(&status, "VmRSS:")
    }

    fn spent(&self) -> Option<Duration> {
        crate::to::processor_time(&format!("/proc/{}/task", self.child.id()))
    }
}
