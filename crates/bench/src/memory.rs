//! What a relay takes of memory while it drains: a process of its own, as the kernel counts it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pillarbox_cli::database::Database;
use pillarbox_cli::fault::Fault;
use pillarbox_cli::output::Progress;
use serde::Serialize;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::by::{By, fill};

/// How long the relay is watched; it reaches its full window in far less.
const WATCHED: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(10);

/// The memory of `pillarbox relay --drain`, resident at its highest; absent where the kernel does not tell.
#[derive(Debug, Serialize)]
pub(crate) struct MemoryFigures {
    /// Entries that were pending when it started.
    pub(crate) backlog: u32,
    pub(crate) rows_peak_bytes: Option<u64>,
    pub(crate) lanes_peak_bytes: Option<u64>,
}

/// Starts relays on the table that grew, or on a full one, and watches them.
pub(crate) async fn measure(
    bed: &Bed,
    args: &BenchArgs,
    url: &str,
    folder: &Path,
    progress: &Progress,
) -> Result<MemoryFigures, Fault> {
    let backlog = if args.pending > 0 { args.pending } else { args.events };
    let mut peaks = [const { Vec::new() }; 2];
    for _ in 0..args.repeat {
        for (by, peaks) in By::BOTH.into_iter().zip(&mut peaks) {
            let database = if args.pending > 0 {
                bed.main.staging.execute(bed.sql.clear_big).await?;
                bed.load(bed.sql.load_big_pending, args.pending).await?;
                &bed.big
            } else {
                fill(bed, args).await?;
                &bed.main
            };
            peaks.extend(relay(database, args, by, url, folder).await?);
        }
        progress.add(1);
    }
    let [rows_peak_bytes, lanes_peak_bytes] = peaks.map(middle);
    Ok(MemoryFigures { backlog, rows_peak_bytes, lanes_peak_bytes })
}

/// The median, of an even number the higher one of the middle: a limit of memory is to hold.
fn middle(mut peaks: Vec<u64>) -> Option<u64> {
    peaks.sort_unstable();
    peaks.get(peaks.len() / 2).copied()
}

async fn relay(
    database: &Database,
    args: &BenchArgs,
    by: By,
    url: &str,
    folder: &Path,
) -> Result<Option<u64>, Fault> {
    let cannot = |error: std::io::Error| {
        Fault::failed(format!("cannot start the relay whose memory is measured: {error}"))
    };
    let config = folder.join("relay.toml");
    let names = database.staging.names();
    let order = match by {
        By::Rows => "none",
        By::Lanes => "key",
    };
    let batch = args.batch;
    let route = format!("[routes.{ROUTE}]\nto = \"null:\"\norder = \"{order}\"\nbatch = {batch}");
    std::fs::write(&config, format!("[database]\n{names}\n{route}\n")).map_err(cannot)?;
    let mut relay = start(&["relay", "--drain"], &config, url).map_err(cannot)?;
    let peak = watch(&mut relay).await;
    // One that ended has drained everything, or could not; one that still works has been watched for long enough.
    let ended = relay.try_wait().map_err(cannot)?;
    let _ = relay.kill();
    let _ = relay.wait();
    match ended {
        Some(status) if !status.success() => {
            Err(Fault::failed(format!("the relay whose memory is measured failed ({status})")))
        }
        _ => Ok(peak),
    }
}

/// Starts this program as one of the user's commands, in silence.
pub(crate) fn start(command: &[&str], config: &Path, url: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(command)
        .args(["--quiet", "--config"])
        .arg(config)
        // Not on the command line: it may hold a password.
        .env("DATABASE_URL", url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

// The kernel keeps the highest figure until the process is gone: the last one that could be read counts.
async fn watch(relay: &mut Child) -> Option<u64> {
    let status = format!("/proc/{}/status", relay.id());
    let started = Instant::now();
    let mut peak = None;
    while started.elapsed() < WATCHED && matches!(relay.try_wait(), Ok(None)) {
        let now = std::fs::read_to_string(&status).ok().and_then(|status| bytes(&status, "VmHWM:"));
        peak = now.or(peak);
        tokio::time::sleep(INTERVAL).await;
    }
    peak
}

pub(crate) fn bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_rounds_is_told() {
        assert_eq!((middle(vec![3, 9, 1]), middle(vec![4, 2]), middle(vec![])), (Some(3), Some(4), None));
    }

    #[test]
    fn the_kernels_words_are_read() {
        let status = "Name:\tpillarbox\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\n";
        assert_eq!(bytes(status, "VmHWM:"), Some(20 * 1024 * 1024));
        assert_eq!(bytes(status, "VmSwap:"), None);
    }
}
