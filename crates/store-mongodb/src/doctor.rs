//! What only MongoDB has to be examined for: the replica set, and how far its log reaches back.

use std::time::Duration;

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::limits::TRANSACTIONS_TOLD_MAX;
use pillarbox_core::port::{Connections, Depth, Doctor, Finding, OpenTransaction};
use pillarbox_core::{Result, Timestamp};

use crate::call::Reading;
use crate::call::{Link, clock};
use crate::error::{Phase, classify};
use crate::options::Traffic;
use crate::store::MongoStore;

impl MongoStore {
    async fn told(&self, database: &str, command: Document) -> Result<Document> {
        let database = self.client().database(database);
        database.run_command(command).await.map_err(|error| classify(&error, Phase::Before))
    }

    async fn replica_set(&self) -> Result<Finding> {
        let hello = self.told("admin", doc! { "hello": 1 }).await?;
        let name = hello.get_str("setName").unwrap_or_default().to_owned();
        let members = hello.get_array("hosts").map_or(0, Vec::len);
        Ok(if hello.get_bool("isWritablePrimary").is_ok_and(|primary| primary) {
            Finding::ok(
                "replica_set",
                format!("the primary of {name} takes writes; the set has {members} members"),
            )
        } else {
            Finding::problem(
                "replica_set",
                format!("the server that answers is not the primary of {name}"),
                "Name the replica set in the URL (`?replicaSet=NAME`), or let its members elect a primary.",
            )
        })
    }
}

#[async_trait]
impl Doctor for MongoStore {
    async fn now(&self) -> Result<Timestamp> {
        clock(&self.database(), Phase::Before).await
    }

    async fn connections(&self) -> Result<Option<Connections>> {
        let status =
            self.told("admin", doc! { "serverStatus": 1, "repl": 0, "metrics": 0, "locks": 0 }).await?;
        let Ok(connections) = status.get_document("connections") else { return Ok(None) };
        let number = |name: &str| whole(connections.get(name));
        let used = number("current");
        let max = used.saturating_add(number("available"));
        let ours_max = u64::from(self.options().connections.max(1)) + u64::from(crate::connect::RELAY);
        Ok(Some(Connections { max, used, ours_max }))
    }

    async fn transactions(&self, older_than: Duration) -> Result<Vec<OpenTransaction>> {
        let least = i64::try_from(older_than.as_micros()).unwrap_or(i64::MAX);
        let pipeline = vec![
            doc! { "$currentOp": { "allUsers": true, "idleSessions": true } },
            doc! { "$match": { "transaction.timeOpenMicros": { "$gte": least } } },
            doc! { "$sort": { "transaction.timeOpenMicros": -1 } },
            doc! { "$limit": i64::from(TRANSACTIONS_TOLD_MAX) },
            doc! { "$project": { "open": "$transaction.timeOpenMicros", "client": 1, "appName": 1, "type": 1 } },
        ];
        let command = doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {} };
        let admin = self.client().database("admin");
        let mut link = Link::alone(admin, self.options().statement_timeout);
        let found = link.ask(command, Reading::Newest).await?;
        let read = |one: &Document| {
            let text = |name: &str| one.get_str(name).unwrap_or("?").to_owned();
            OpenTransaction {
                age: Duration::from_micros(whole(one.get("open"))),
                holder: format!("client {} ({}, {})", text("client"), text("appName"), text("type")),
            }
        };
        Ok(found.iter().map(read).collect())
    }

    async fn examine(&self, _depth: Depth) -> Result<Vec<Finding>> {
        let mut findings =
            Finding::made("replica_set", self.replica_set().await.map(|finding| vec![finding]));
        // Reading and writing nothing: the rights are checked all the same.
        let nothing = doc! { "delete": &self.tables.outbox, "deletes": [{ "q": { "_id": { "$in": [] } }, "limit": 0 }] };
        let database = self.database_for(Traffic::Operator);
        findings.push(match database.run_command(nothing).await {
            Ok(_) => Finding::ok("rights", "this user may write to the outbox"),
            Err(error) => {
                let error = classify(&error, Phase::Before);
                Finding::problem(
                    "rights",
                    format!("this user may not write to the outbox: {error}"),
                    "A relay of this user cannot work. Grant the role readWrite on this database.",
                )
            }
        });
        Ok(findings)
    }
}

/// A number, whichever kind the server chose for it.
fn whole(value: Option<&Bson>) -> u64 {
    match value {
        Some(Bson::Int32(number)) => u64::try_from(*number).unwrap_or(0),
        Some(Bson::Int64(number)) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}
