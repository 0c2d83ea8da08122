//! What ended and what was accepted lately, and how long deliveries took.

use mongodb::bson::{Document, doc};
use pillarbox_core::limits::{WAITS_LOOKED_MAX, WAITS_MAX};
use pillarbox_core::port::{Recent, RecentRequest, Waits, WaitsRequest};
use pillarbox_core::{Result, Status};

use crate::call::{Reading, Traffic};
use crate::command::aggregate;
use crate::row::{Cells, number, text};
use crate::store::MongoStore;
use crate::tables::ENDED;

impl MongoStore {
    pub(crate) async fn recent_activity(&self, request: RecentRequest) -> Result<Recent> {
        let mut link = self.link(Traffic::Operator);
        let since = link.now_or(request.now).await?.saturating_sub(request.within).as_micros();
        let mut recent = Recent::default();
        let ended = [Status::Delivered, Status::Dead, Status::Discarded].map(|status| status.as_str());
        let filter = doc! { "status": { "$in": ended.to_vec() }, "settled_at": { "$gt": since } };
        let by = doc! { "route": "$route", "status": "$status" };
        let mut command = aggregate(&self.tables.outbox, grouped(filter, by));
        command.insert("hint", self.tables.index(ENDED));
        for row in link.ask(command, Reading::Newest).await? {
            let of = row.get_document("_id").cloned().unwrap_or_default();
            let entries = number(&row, "entries");
            let cells = vec![text(&of, "route").into(), text(&of, "status").into(), entries.into()];
            recent.end(&mut Cells::values(cells))?;
        }
        let filter = doc! { "accepted_at": { "$gt": since } };
        let by = doc! { "consumer": "$_id.consumer" };
        let mut command = aggregate(&self.tables.inbox, grouped(filter, by));
        command.insert("hint", self.tables.index("inbox_age"));
        for row in link.ask(command, Reading::Newest).await? {
            let of = row.get_document("_id").cloned().unwrap_or_default();
            let cells = vec![text(&of, "consumer").into(), number(&row, "entries").into()];
            recent.accept(&mut Cells::values(cells))?;
        }
        Ok(recent)
    }

    /// The index is in the order of settling for all routes together: so it is followed from its end until
    /// there are enough deliveries of this route.
    pub(crate) async fn delivery_waits(&self, request: WaitsRequest) -> Result<Waits> {
        let mut link = self.link(Traffic::Operator);
        let since = link.now_or(request.now).await?.saturating_sub(request.within).as_micros();
        let delivered = doc! { "status": Status::Delivered.as_str(), "settled_at": { "$gt": since } };
        let wait = doc! { "$subtract": ["$settled_at", "$created_at"] };
        let pipeline = vec![
            doc! { "$match": delivered },
            doc! { "$sort": { "status": -1, "settled_at": -1 } },
            doc! { "$limit": i64::from(WAITS_LOOKED_MAX) },
            doc! { "$match": { "route": request.route.as_str(), "created_at": { "$gte": 0 } } },
            doc! { "$limit": i64::from(WAITS_MAX) },
            doc! { "$project": { "_id": 0, "wait": wait } },
        ];
        let mut command = aggregate(&self.tables.outbox, pipeline);
        command.insert("hint", self.tables.index(ENDED));
        let mut waits = Waits::default();
        for row in link.ask(command, Reading::Newest).await? {
            waits.count(&mut Cells::of(&row, &["wait"]))?;
        }
        Ok(waits)
    }
}

fn grouped(filter: Document, by: Document) -> Vec<Document> {
    vec![doc! { "$match": filter }, doc! { "$group": { "_id": by, "entries": { "$sum": 1_i64 } } }]
}
