//! I-05 where relays by rows and relays by lanes meet: rows are claimed only of a route that nobody reads by lanes, and
//! who holds a lane does not hand out what a relay by rows still holds.

use pillarbox_core::Status;

use super::super::super::history::Happened;
use super::super::Findings;
use super::model::walk;
use super::{Evidence, by_rows};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let by_rows = by_rows(evidence);
    walk(evidence, |model, record| {
        let (at, who) = (record.at, &record.who);
        match record.what {
            Happened::Granted { seq, .. } => {
                if let Some(reader) = model.sessions.values().next() {
                    let reader = &reader.who;
                    findings.add(
                        "I-05",
                        format!("at {at} ms {who} claimed seq {seq} as a row while {reader} read lanes"),
                    );
                }
            }
            Happened::Handed { seq, fence, .. } if !by_rows.contains(&**who) => {
                let Some(place) = model.places.get(&seq) else { return };
                let lane = place.entered.lane;
                let holds = model.sessions.values().any(|session| session.lanes.get(&lane) == Some(&fence));
                if holds && place.status == Some(Status::InFlight) {
                    findings.add(
                        "I-05",
                        format!("at {at} ms {who} handed out seq {seq}, which a relay by rows holds"),
                    );
                }
            }
            _ => {}
        }
    });
}
