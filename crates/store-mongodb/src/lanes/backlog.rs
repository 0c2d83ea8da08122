//! What waits in each lane, for people.

use std::collections::BTreeMap;

use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::limits::LANE_WAITING_MAX;
use pillarbox_core::port::{LANES, LaneBacklog};
use pillarbox_core::{Result, RouteName};
use uuid::Uuid;

use super::attend::owner;
use super::waiting;
use crate::call::{Reading, Traffic};
use crate::command::{Find, aggregate};
use crate::row::{Cells, number, text};
use crate::store::MongoStore;
use crate::tables::{LANE, Tables};

impl MongoStore {
    pub(crate) async fn lane_backlogs(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        let of_route = || doc! { "route": route.as_str() };
        let find = Find::new(&self.tables.lane, of_route()).sort(doc! { "lane": 1 });
        let lanes = self.find(Traffic::Operator, find).await?;
        if lanes.is_empty() {
            return Ok(vec![]);
        }
        let sessions = self.find(Traffic::Operator, Find::new(&self.tables.lane_session, of_route())).await?;
        let named = |session: &Document| Some((owner(session)?, text(session, "owner").to_owned()));
        let names: BTreeMap<Uuid, String> = sessions.iter().filter_map(named).collect();
        let look = waiting_look(&self.tables, route);
        let counted = self.rows(Traffic::Operator, look, Reading::Newest).await?;
        let counts: BTreeMap<i64, i64> =
            counted.iter().map(|row| (number(row, "_id"), number(row, "entries"))).collect();
        let read = |document: &Document| {
            let lane = number(document, "lane");
            let entries = counts.get(&lane).copied().unwrap_or(0);
            let name = owner(document).and_then(|session| names.get(&session));
            let name = name.map_or(Bson::Null, |name| name.as_str().into());
            LaneBacklog::read(&mut Cells::values(vec![lane.into(), entries.into(), name]))
        };
        lanes.iter().map(read).collect()
    }
}

/// Counts each lane up to a limit. One arm a lane: no index could find a limit for each of them.
fn waiting_look(tables: &Tables, route: &RouteName) -> Document {
    let arm = |lane: u8| {
        let mut filter = doc! { "route": route.as_str(), "lane": i32::from(lane) };
        filter.extend(waiting());
        vec![
            doc! { "$match": filter },
            doc! { "$sort": { "seq": 1 } },
            doc! { "$limit": i64::from(LANE_WAITING_MAX) },
            doc! { "$group": { "_id": "$lane", "entries": { "$sum": 1_i64 } } },
        ]
    };
    let mut pipeline = arm(0);
    pipeline.extend(
        (1..LANES).map(|lane| doc! { "$unionWith": { "coll": &tables.outbox, "pipeline": arm(lane) } }),
    );
    let mut command = aggregate(&tables.outbox, pipeline);
    command.insert("hint", tables.index(LANE));
    command
}
