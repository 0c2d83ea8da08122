//! The list of a store's statements.

/// Declares the statements of a store: a name is the file of that name under `sql/`, beside the file that
/// calls this. The same list fills the names of the tables in and tells the tests of query plans what there
/// is.
///
/// The caller has `Tables` and `Sql` in scope. A statement may be of another type than `Sql`; it then has the
/// same `new(template, tables)` and `name(name, texts)`.
#[macro_export]
macro_rules! statements {
    (@kind) => { Sql };
    (@kind $kind:ident) => { $kind };
    ($(#[$doc:meta])* $list:ident { $($name:ident $(: $kind:ident)?),+ $(,)? }) => {
        $(#[$doc])*
        pub(crate) struct $list {
            /// The names that are filled in.
            pub(crate) tables: Tables,
            $(pub(crate) $name: $crate::statements!(@kind $($kind)?),)+
        }

        impl $list {
            /// Fills in the names of these tables.
            pub(crate) fn new(tables: Tables) -> Self {
                Self {
                    $($name: <$crate::statements!(@kind $($kind)?)>::new(
                        include_str!(concat!("sql/", stringify!($name), ".sql")),
                        &tables,
                    ),)+
                    tables,
                }
            }

            /// Every statement with its name.
            pub(crate) fn named(&self) -> Vec<(String, String)> {
                let mut texts = Vec::new();
                $(self.$name.name(stringify!($name), &mut texts);)+
                texts
            }
        }
    };
}
