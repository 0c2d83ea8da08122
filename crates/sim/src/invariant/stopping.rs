//! F-02: a relay that was asked to stop leaves nothing leased that it knew of and could settle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::history::Happened;
use super::{Evidence, Findings};

/// What a relay holds, by what it was told.
#[derive(Default)]
struct Holds {
    /// Entries by seq: the fence, and the end of the lease.
    leases: BTreeMap<i64, (i64, i64)>,
    /// Claims that it tried to settle: whether that arrived is not in its hands.
    tried: BTreeSet<(i64, i64)>,
}

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let mut relays: BTreeMap<Arc<str>, Holds> = BTreeMap::new();
    let mut leases: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for record in &evidence.records {
        match record.what {
            Happened::Granted { seq, fence, until, .. } => {
                release(&mut relays, seq);
                leases.insert(seq, (fence, until));
            }
            Happened::Told { seq, fence } => {
                if let Some(lease) = leases.get(&seq).filter(|lease| lease.0 == fence) {
                    relays.entry(Arc::clone(&record.who)).or_default().leases.insert(seq, *lease);
                }
            }
            Happened::Extended { seq, fence, until, accepted: true } => {
                let holds = relays.entry(Arc::clone(&record.who)).or_default();
                if let Some(lease) = holds.leases.get_mut(&seq).filter(|lease| lease.0 == fence) {
                    lease.1 = until;
                }
            }
            Happened::SettleSent { seq, fence } => {
                relays.entry(Arc::clone(&record.who)).or_default().tried.insert((seq, fence));
            }
            Happened::Settled { seq, accepted: true, .. } | Happened::Reaped { seq, .. } => {
                release(&mut relays, seq);
                leases.remove(&seq);
            }
            Happened::Stopped { error: None, .. } => {
                let Some(holds) = relays.get(&record.who) else { continue };
                for (seq, (fence, until)) in &holds.leases {
                    if *until > record.db && !holds.tried.contains(&(*seq, *fence)) {
                        findings.add(
                            "F-02",
                            format!("at {} ms {} stopped and left seq {seq} leased", record.at, record.who),
                        );
                    }
                }
            }
            _ => {}
        }
    }
}

fn release(relays: &mut BTreeMap<Arc<str>, Holds>, seq: i64) {
    for holds in relays.values_mut() {
        holds.leases.remove(&seq);
    }
}
