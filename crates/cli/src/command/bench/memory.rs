//! What this process takes of memory, as the kernel counts it.

use serde::Serialize;

/// Resident memory after the drains.
#[derive(Debug, Serialize)]
pub(crate) struct MemoryFigures {
    /// The largest backlog that was drained from.
    pub(crate) backlog: u32,
    /// Now; absent where the kernel does not tell.
    pub(crate) resident_bytes: Option<u64>,
    /// At its highest.
    pub(crate) peak_bytes: Option<u64>,
}

/// Reads the figures.
pub(crate) fn now(backlog: u32) -> MemoryFigures {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    MemoryFigures { backlog, resident_bytes: bytes(&status, "VmRSS:"), peak_bytes: bytes(&status, "VmHWM:") }
}

fn bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let status = "Name:\tpillarbox\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\n";
        assert_eq!(bytes(status, "VmRSS:"), Some(10 * 1024 * 1024));
        assert_eq!(bytes(status, "VmHWM:"), Some(20 * 1024 * 1024));
        assert_eq!(bytes(status, "VmSwap:"), None);
    }
}
