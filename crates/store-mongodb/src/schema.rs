//! The collections: how they should be, how they are, and how to get there.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::shared::Found;
use pillarbox_core::port::{Migrated, Schema, SchemaState};
use pillarbox_core::{Error, ErrorKind, Result};

use crate::call::{Link, Traffic};
use crate::command::{Change, Find, now, update};
use crate::connect;
use crate::error::{EXISTS, Phase, classify, code};
use crate::layout::{Index, collections, indexes};
use crate::row::number;
use crate::store::MongoStore;

/// The version that this program makes and needs.
const VERSION: u32 = 1;
/// What a role that migrates needs, for people.
const RIGHTS: &str = "Grant the role readWrite on this database, or find, insert, update, remove, createCollection, \
    createIndex, collMod and listIndexes on its collections";

impl MongoStore {
    /// Creates or upgrades the collections, their validators and their indexes. Concurrent calls are safe. If a call breaks
    /// off, the next one goes on where it ended.
    ///
    /// # Errors
    /// When the collections are damaged or newer than this program, when an index of the same name is another one, when
    /// the server does not fit, when a privilege is missing, or when the database fails. Before anything is made, all of
    /// that is looked at.
    pub async fn migrate(&self) -> Result<Migrated> {
        Schema::migrate(self).await
    }

    async fn look(&self) -> Result<Look> {
        Look::look(self).await
    }
}

#[async_trait]
impl Schema for MongoStore {
    async fn inspect(&self) -> Result<SchemaState> {
        Ok(self.look().await?.found.state(VERSION))
    }

    async fn migrate(&self) -> Result<Migrated> {
        let database = self.database();
        connect::check(self.client(), database.name(), self.patience()).await?;
        let look = self.look().await?;
        let state = look.found.state(VERSION);
        if matches!(state, SchemaState::Newer { .. } | SchemaState::Damaged { .. }) {
            state.check()?;
        }
        look.check_collations()?;
        look.check_foreign()?;
        let commands = look.commands(self);
        if !commands.is_empty() {
            self.probe().await?;
        }
        for command in commands {
            match database.run_command(command).await {
                // Another migration was faster.
                Err(error) if code(&error) == Some(EXISTS) => {}
                Err(error) => return Err(in_migration(&error)),
                Ok(_) => {}
            }
        }
        self.mark().await?;
        Ok(Migrated { from: look.found.version, to: VERSION })
    }

    async fn plan(&self) -> Result<String> {
        let look = self.look().await?;
        look.check_collations()?;
        look.check_foreign()?;
        let mut lines: Vec<String> = look.commands(self).iter().map(shown).collect();
        if look.found.version < VERSION {
            lines.push(shown(&self.mark_command()));
        }
        Ok(lines.join("\n"))
    }
}

/// A command as mongosh takes it.
fn shown(command: &Document) -> String {
    let json = Bson::Document(command.clone()).into_relaxed_extjson();
    format!("db.runCommand({json});")
}

fn in_migration(error: &mongodb::error::Error) -> Error {
    let classified = classify(error, Phase::Before);
    match classified.kind() {
        ErrorKind::Denied => {
            let text = format!("the user lacks a privilege that migrating needs. {RIGHTS}");
            Error::new(ErrorKind::Denied, text).with_code(classified.code().unwrap_or_default().to_owned())
        }
        _ => classified,
    }
}

impl MongoStore {
    /// The version is written last: without it, the collections count as not made.
    fn mark_command(&self) -> Document {
        let applied = vec![doc! { "$set": { "applied_at": { "$ifNull": ["$applied_at", now(None)] } } }];
        update(&self.tables.schema, [Change::upsert(doc! { "_id": i64::from(VERSION) }, applied)])
    }

    async fn mark(&self) -> Result<()> {
        self.link(Traffic::Operator).write(self.mark_command()).await.map(drop)
    }

    /// Tries every kind of command that a migration needs, so that nothing is half made for want of a privilege.
    async fn probe(&self) -> Result<()> {
        let (database, name) =
            (self.database(), format!("{}_probe_{:016x}", self.tables.prefix, pillarbox_host::random_u64()));
        let commands = [
            doc! { "create": &name },
            doc! { "createIndexes": &name, "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
            doc! { "insert": &name, "documents": [{ "_id": 1 }] },
            doc! { "update": &name, "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": 1 } } }] },
            doc! { "collMod": &name, "validator": {} },
            doc! { "delete": &name, "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] },
        ];
        let mut tried = Ok(());
        for command in commands {
            if let Err(error) = database.run_command(command).await {
                let error = in_migration(&error);
                tried = Err(match error.kind() {
                    ErrorKind::Denied => {
                        let text = format!(
                            "the user lacks a privilege that migrating needs, so nothing was changed. {RIGHTS}"
                        );
                        Error::new(ErrorKind::Denied, text)
                            .with_code(error.code().unwrap_or_default().to_owned())
                    }
                    _ => error,
                });
                break;
            }
        }
        // Best effort: a user who may not create it cannot drop it, and then there is none.
        let dropped = database.run_command(doc! { "drop": &name }).await;
        if tried.is_ok() {
            dropped.map_err(|error| in_migration(&error))?;
        }
        tried
    }
}

/// What the catalogue says.
struct Look {
    found: Found,
    /// The collections that are there, with their validators.
    collections: BTreeMap<String, Document>,
    /// Collections whose names are not compared byte by byte.
    collated: Vec<String>,
    /// Indexes of our names that are others.
    foreign: Vec<String>,
    /// Indexes to make, by their collections.
    lacking: Vec<(String, Index)>,
}

impl Look {
    async fn look(store: &MongoStore) -> Result<Self> {
        let (tables, database) = (&store.tables, store.database());
        let (mut there, mut collated) = (BTreeMap::new(), Vec::new());
        let wanted = collections(tables);
        let list =
            doc! { "listCollections": 1, "filter": { "name": { "$regex": format!("^{}_", tables.prefix) } } };
        for found in cursor(&database, list).await? {
            let options = found.get_document("options").cloned().unwrap_or_default();
            let validator = options.get_document("validator").cloned().unwrap_or_default();
            let name = found.get_str("name").unwrap_or_default().to_owned();
            if options.contains_key("collation") && wanted.iter().any(|(wanted, _)| *wanted == name) {
                collated.push(name.clone());
            }
            there.insert(name, validator);
        }
        let version = match there.contains_key(&tables.schema) {
            true => version(store).await?,
            false => 0,
        };
        // The collection of versions is gone, and the others are there.
        let lost = !there.contains_key(&tables.schema)
            && wanted.iter().filter(|(name, _)| there.contains_key(name)).count() == wanted.len() - 1;
        let version = if lost { VERSION } else { version };
        let collation = |name: &String| format!("the collection {name} has a collation");
        let mut differences: Vec<String> = collated.iter().map(collation).collect();
        let (mut foreign, mut lacking, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for (name, _) in &wanted {
            let mut named: BTreeMap<String, Document> = BTreeMap::new();
            if there.contains_key(name) {
                for index in cursor(&database, doc! { "listIndexes": name }).await? {
                    named.insert(index.get_str("name").unwrap_or_default().to_owned(), index);
                }
            } else {
                differences.push(format!("the collection {name} is missing"));
            }
            for index in indexes(tables, store.options())
                .into_iter()
                .filter(|(of, _)| of == name)
                .map(|(_, index)| index)
            {
                match named.get(&index.name) {
                    Some(found) if index.is(found) => {}
                    Some(_) => foreign.push(format!("{} of {name}", index.name)),
                    None => {
                        if index.is_needed {
                            differences.push(format!("the unique index {} is missing", index.name));
                        } else {
                            missing.push(index.name.clone());
                        }
                        lacking.push((name.clone(), index));
                    }
                }
            }
        }
        // A migration that broke off has not written its version: it goes on.
        if version == 0 {
            differences.clear();
        }
        let found = Found { version, differences, missing };
        Ok(Self { found, collections: there, collated, foreign, lacking })
    }

    /// Indexes take over the collation of their collection: then `a` and `A` can be one key, and one id.
    fn check_collations(&self) -> Result<()> {
        if self.collated.is_empty() {
            return Ok(());
        }
        let text = format!(
            "a collection has a collation, in which different keys can be equal: {}. Nothing was changed. Drop it or create \
             it without a collation, or use another prefix",
            self.collated.join(", ")
        );
        Err(Error::new(ErrorKind::Schema, text))
    }

    fn check_foreign(&self) -> Result<()> {
        if self.foreign.is_empty() {
            return Ok(());
        }
        let indexes = self.foreign.iter().map(String::as_str).collect::<BTreeSet<_>>();
        let indexes = indexes.into_iter().collect::<Vec<_>>().join(", ");
        let text = format!(
            "an index has the name of one of Pillarbox and other keys or options: {indexes}. Nothing was changed. Drop or \
             rename it, or use another prefix"
        );
        Err(Error::new(ErrorKind::Schema, text))
    }

    /// What is to be run from here.
    fn commands(&self, store: &MongoStore) -> Vec<Document> {
        let mut commands = Vec::new();
        for (name, validator) in collections(&store.tables) {
            match self.collections.get(&name) {
                None => {
                    let mut create = doc! { "create": &name };
                    if !validator.is_empty() {
                        create.insert("validator", validator);
                        create.insert("validationLevel", "moderate");
                    }
                    commands.push(create);
                }
                Some(found) if *found != validator => {
                    commands.push(
                        doc! { "collMod": &name, "validator": validator, "validationLevel": "moderate" },
                    );
                }
                Some(_) => {}
            }
        }
        for (collection, index) in &self.lacking {
            commands.push(doc! { "createIndexes": collection, "indexes": [index.specification()] });
        }
        commands
    }
}

async fn cursor(database: &mongodb::Database, command: Document) -> Result<Vec<Document>> {
    use futures_util::TryStreamExt;
    let failed = |error: mongodb::error::Error| classify(&error, Phase::Before);
    let cursor = database.run_cursor_command(command).await.map_err(failed)?;
    cursor.try_collect().await.map_err(failed)
}

async fn version(store: &MongoStore) -> Result<u32> {
    let newest = Find::new(&store.tables.schema, Document::new()).sort(doc! { "_id": -1 }).limit(1);
    let mut link: Link<'_> = store.link(Traffic::Operator);
    let found = link.find(newest).await?;
    Ok(found.first().map_or(0, |found| u32::try_from(number(found, "_id")).unwrap_or(u32::MAX)))
}
