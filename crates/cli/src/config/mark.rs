//! What a part of the file said, in a form that tells a change and nothing else: it holds no secret.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use pillarbox_core::RouteName;
use toml::{Table, Value};

/// A number that differs when the part differs.
pub(crate) type Mark = u64;

/// The marks of a file, with all variables filled in. Comments and the order of lines do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    tables: BTreeMap<String, Mark>,
    routes: BTreeMap<String, Mark>,
}

impl Marks {
    /// The marks of a file.
    pub(crate) fn of(file: &Table) -> Self {
        let each = |table: &Table| table.iter().map(|(name, value)| (name.clone(), mark(value))).collect();
        let routes = file.get("routes").and_then(Value::as_table).map(each).unwrap_or_default();
        Self { tables: each(file), routes }
    }

    /// The mark of a route. `None`: the file does not have it.
    pub(crate) fn route(&self, route: &RouteName) -> Option<Mark> {
        self.routes.get(route.as_str()).copied()
    }

    /// Whether a table other than `[routes]` differs.
    pub(crate) fn differs_in(&self, other: &Self, table: &str) -> bool {
        self.tables.get(table) != other.tables.get(table)
    }
}

fn mark(value: &Value) -> Mark {
    let mut hasher = DefaultHasher::new();
    // Tables are sorted by key, so their text is the same for the same content.
    value.to_string().hash(&mut hasher);
    hasher.finish()
}
