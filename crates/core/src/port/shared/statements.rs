//! The list of a store's statements.

/// Declares the statements of a store. Each name stands for the file of that name under `sql/`, beside the file
/// that calls the macro. From the same list come the names of the tables in the text, and the list of statements
/// for the tests of query plans.
///
/// The caller has `Tables` and `Sql` in scope. If a statement has another type than `Sql`, that type has the same
/// `new(template, tables)` and `name(name, texts)`.
#[macro_export]
macro_rules! statements {
    (@kind) => { Sql };
    (@kind $kind:ident) => { $kind };
    ($(#[$doc:meta])* $list:ident { $($name:ident $(: $kind:ident)?),+ $(,)? }) => {
        $(#[$doc])*
        pub(crate) struct $list {
            /// The names of the tables.
            pub(crate) tables: Tables,
            $(pub(crate) $name: $crate::statements!(@kind $($kind)?),)+
        }

        impl $list {
            /// Fills the names of these tables into every statement.
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
