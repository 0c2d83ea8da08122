//! The application's side: staging events in its own transaction.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use pillarbox_core::{Error, EventId, NewEntry, Result, Staged, check_name};
use pillarbox_host::{Operation, Row, Staging, outbox_calls};

use crate::batch::{batch, check_packet};
use crate::bind::Bind;
use crate::commit::{Tx, commit};
use crate::driver::Transaction;
use crate::options::Options;
use crate::sql::Statements;
use crate::statement::{Value, params};
use crate::store::MySqlStore;
use crate::tables::Tables;

/// Stages events of one route inside the application's own transaction. Cheap to clone: one for each route
/// and process is enough.
///
/// The events become durable when that transaction commits, and a rollback removes them.
///
/// Do not drop the future of a call half-way, as a timeout around it does, and then go on with the transaction. The
/// driver cannot recover a connection on which it was preparing a statement. Put the timeout around the whole
/// transaction, and close its connection.
#[derive(Clone)]
pub struct Outbox {
    pub(crate) staging: Staging,
    pub(crate) statements: Arc<Statements>,
}

/// Filled in once, so that an outbox may be made anew for each request.
static DEFAULT_STATEMENTS: LazyLock<Arc<Statements>> =
    LazyLock::new(|| Arc::new(Statements::new(Tables::new(&Options::default()))));

impl MySqlStore {
    /// The outbox of this route in the same tables. It stages in any transaction of this database.
    pub fn outbox(&self, route: impl Into<String>) -> Outbox {
        Outbox { staging: Staging::new(route), statements: Arc::clone(&self.statements) }
    }
}

outbox_calls! {
    impl Outbox {
        new;

        options;

        /// # Errors
        /// When the route or the event breaks a rule, or is larger than the server's `max_allowed_packet`, before
        /// anything is written. Also any error of the database.
        stage;

        /// # Errors
        /// As for [`stage`](Self::stage).
        stage_all;

        /// Call it before staging. If you lock several keys, lock them in the same order everywhere, or the
        /// database may detect a deadlock. The nodes of a Galera cluster do not share locks: there, of two transactions on
        /// two nodes, the one that commits later fails with
        /// [`Contention`](pillarbox_core::ErrorKind::Contention).
        ///
        /// # Errors
        /// When the route or the key breaks a rule, or when the lock is not free within the lock timeout.
        serialize;

        /// `Ok` means that the transaction is committed. The driver's own `commit` does not promise that. After a deadlock
        /// it returns `Ok` too, although the server has rolled everything back. This check costs one round trip more.
        ///
        /// # Errors
        /// [`Aborted`](pillarbox_core::ErrorKind::Aborted) when the transaction had already ended. Also any error
        /// of the database. [`Retry::Unknown`](pillarbox_core::Retry::Unknown) means that the commit may have
        /// happened.
        commit;
    }
}

impl Outbox {
    /// One event without the detour that any number of them take.
    fn one(&self, entry: NewEntry) -> Result<Operation<Value, Staged>> {
        let (id, bytes) = (entry.event_id, entry.event.payload.len());
        let bind = params(entry)?.into_iter().fold(Bind::new(), Bind::param);
        let one = Operation::change(self.statements.stage_one.call(bind)?, move |changed| {
            // The server tells the number of a new row, and zero for one that was there.
            Ok(Operation::Done(if changed.told == 0 { Staged::Duplicate(id) } else { Staged::Fresh(id) }))
        });
        check_packet(bytes, &self.statements, one)
    }

    fn several(&self, entries: Vec<NewEntry>) -> Result<Operation<Value, Vec<Staged>>> {
        let ids: Vec<EventId> = entries.iter().map(|entry| entry.event_id).collect();
        let batch = batch(&entries)?;
        let bytes = batch.bytes();
        let bind = Bind::new().bytes(self.staging.route_text()).bytes(batch.json);
        let ask = self.statements.stage_fresh.call(bind.clone())?;
        let call = self.statements.stage_many.call(bind.bytes(batch.payloads))?;
        let many = Operation::change(call, move |changed| {
            if changed.rows >= ids.len() as u64 {
                let fresh = ids.iter().copied().collect();
                return Ok(Operation::Done(Staged::tell(ids, fresh)));
            }
            // Duplicates are rare: only then ask which.
            Ok(Operation::ask(ask, move |rows| Ok(Operation::Done(told(ids, &rows)?))))
        });
        check_packet(bytes, &self.statements, many)
    }

    fn lock(&self, key: &str) -> Result<Operation<Value, ()>> {
        let route = self.staging.route()?;
        check_name("key", key)?;
        let bind = Bind::new().bytes(route.as_str()).bytes(key);
        let end = self.statements.serialize_end.call(bind.clone())?;
        Ok(Operation::change(self.statements.serialize.call(bind)?, |_| {
            Ok(Operation::change(end, |_| Ok(Operation::Done(()))))
        }))
    }
}

/// Which of these events are new: no other event has the stamp that this call gave.
fn told(ids: Vec<EventId>, rows: &[Row]) -> Result<Vec<Staged>> {
    let (mut there, mut fresh) = (HashSet::new(), HashSet::new());
    for row in rows {
        let id: EventId = row.text(0)?.parse()?;
        there.insert(id);
        if row.flag(1)? {
            fresh.insert(id);
        }
    }
    // IGNORE is for duplicates, and leaves out as well what the table refuses.
    if let Some(id) = ids.iter().find(|id| !there.contains(id)) {
        return Err(Error::invalid(format!("the table refuses the event {id}")));
    }
    Ok(Staged::tell(ids, fresh))
}
