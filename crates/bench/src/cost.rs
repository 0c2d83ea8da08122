//! What a run costs the server: processor time of its processes, and bytes written ahead.

use std::collections::HashMap;

use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::median;
use serde::Serialize;

use super::bed::Bed;

/// What the server spent on each entry.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// Processor time in microseconds; absent where the server's processes cannot be seen from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_cpu_micros: Option<f64>,
    /// Bytes written ahead.
    pub(crate) wal_bytes: f64,
}

impl Cost {
    /// The middle of several; `None` without any.
    pub(crate) fn median(costs: &[Self]) -> Option<Self> {
        if costs.is_empty() {
            return None;
        }
        let cpu: Option<Vec<f64>> = costs.iter().map(|cost| cost.server_cpu_micros).collect();
        let wal: Vec<f64> = costs.iter().map(|cost| cost.wal_bytes).collect();
        Some(Self { server_cpu_micros: cpu.map(|cpu| tenth(median(&cpu))), wal_bytes: median(&wal).round() })
    }
}

/// The server's figures at one moment.
pub(crate) struct Meter {
    wal_bytes: f64,
    /// Nanoseconds by process.
    cpu: Option<HashMap<String, u64>>,
}

impl Meter {
    /// Reads the figures; `None` for a database without a server.
    pub(crate) async fn read(bed: &Bed) -> Result<Option<Self>, Fault> {
        let (Some(wal), Some(processes)) = (bed.sql.wal_bytes, bed.sql.processes) else { return Ok(None) };
        let wal = bed.main.staging.texts(wal, "").await?;
        let Some(wal_bytes) = wal.first().and_then(|bytes| bytes.parse().ok()) else { return Ok(None) };
        let processes = bed.main.staging.texts(processes, "").await?;
        let cpu = processes.into_iter().map(|id| Some((cpu_nanos(&id)?, id))).collect::<Option<Vec<_>>>();
        let cpu = cpu.map(|all| all.into_iter().map(|(nanos, id)| (id, nanos)).collect());
        Ok(Some(Self { wal_bytes, cpu }))
    }

    /// What was spent since then on so many entries.
    pub(crate) async fn since(before: Option<Self>, bed: &Bed, entries: u32) -> Result<Option<Cost>, Fault> {
        let (Some(before), Some(after)) = (before, Self::read(bed).await?) else { return Ok(None) };
        let entries = f64::from(entries.max(1));
        let spent = before.cpu.zip(after.cpu).map(|(before, after)| {
            let spent =
                |(id, nanos): (&String, &u64)| nanos.saturating_sub(before.get(id).copied().unwrap_or(0));
            let nanos: u64 = after.iter().map(spent).sum();
            std::time::Duration::from_nanos(nanos).as_secs_f64() * 1e6 / entries
        });
        Ok(Some(Cost { server_cpu_micros: spent, wal_bytes: (after.wal_bytes - before.wal_bytes) / entries }))
    }
}

/// How long a process has run, as the kernel counts it; `None` if it is not one of a PostgreSQL on this machine.
fn cpu_nanos(process: &str) -> Option<u64> {
    let command = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
    if !command.starts_with(b"postgres") {
        return None;
    }
    std::fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?.split(' ').next()?.parse().ok()
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_processor_time_leaves_it_out() {
        let cost = |cpu, wal_bytes| Cost { server_cpu_micros: cpu, wal_bytes };
        assert_eq!(Cost::median(&[]), None);
        let costs = [cost(Some(1.04), 9.0), cost(Some(3.0), 10.4), cost(Some(2.0), 11.0)];
        assert_eq!(Cost::median(&costs), Some(cost(Some(2.0), 10.0)));
        assert_eq!(Cost::median(&[cost(None, 1.0), cost(Some(1.0), 1.0)]), Some(cost(None, 1.0)));
    }

    #[test]
    fn a_process_that_is_no_server_is_not_counted() {
        assert_eq!(cpu_nanos(&std::process::id().to_string()), None);
    }
}
