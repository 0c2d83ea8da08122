//! How an outbox and an inbox work in a transaction of the application, with any driver.
//!
//! An operation is a [`Operation`]: a statement to run, and what to do with its answer. It does no IO itself, so that the
//! same operation runs with drivers that wait and with drivers that block. A driver runs statements, no more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pillarbox_core::{Error, ErrorKind, Result};

/// One statement with its values. `V` is what the store binds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call<V> {
    /// The text, with the database's own placeholders.
    pub sql: Arc<str>,
    /// The values, in order.
    pub values: Vec<V>,
    /// Whether the session may keep the prepared statement. Default: yes.
    pub keep: bool,
}

impl<V> Call<V> {
    /// A call of this text with these values.
    pub fn new(sql: Arc<str>, values: Vec<V>) -> Self {
        Self { sql, values, keep: true }
    }

    /// Sets whether the session may keep the prepared statement.
    #[must_use]
    pub fn keep(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }
}

/// One row of an answer. The statements of an outbox and an inbox return text in every column, because that is what
/// all drivers read in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(pub Vec<String>);

impl Row {
    /// The text in this column, counted from zero.
    ///
    /// # Errors
    /// When the answer has no such column.
    pub fn text(&self, column: usize) -> Result<&str> {
        self.0.get(column).map(String::as_str).ok_or_else(unreadable)
    }

    /// The whole number in this column.
    ///
    /// # Errors
    /// When there is none.
    pub fn number(&self, column: usize) -> Result<i64> {
        self.text(column)?.parse().map_err(|_| unreadable())
    }

    /// The truth value in this column.
    ///
    /// # Errors
    /// When there is none.
    pub fn flag(&self, column: usize) -> Result<bool> {
        match self.text(column)? {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(unreadable()),
        }
    }
}

fn unreadable() -> Error {
    Error::new(ErrorKind::Corrupt, "the answer of the database cannot be read")
}

/// What a statement that returns no rows did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changed {
    /// How many rows it changed.
    pub rows: u64,
    /// The number that it told, on a database that does so (MySQL's `last_insert_id`). Otherwise zero.
    pub told: u64,
}

impl Changed {
    /// It changed this many rows.
    #[must_use]
    pub fn rows(rows: u64) -> Self {
        Self { rows, told: 0 }
    }

    /// Sets the number that it told.
    #[must_use]
    pub fn told(mut self, told: u64) -> Self {
        self.told = told;
        self
    }
}

/// What follows an answer of the type `A`.
pub type Next<A, V, R> = Box<dyn FnOnce(A) -> Result<Operation<V, R>> + Send>;

/// Where an operation stands: done, or at a statement.
#[non_exhaustive]
pub enum Operation<V, R> {
    /// Nothing is left to do.
    Done(R),
    /// A statement that changes rows.
    Change(Call<V>, Next<Changed, V, R>),
    /// A statement that returns rows.
    Ask(Call<V>, Next<Vec<Row>, V, R>),
}

impl<V: 'static, R: 'static> Operation<V, R> {
    /// Changes rows, and goes on with what changed.
    pub fn change(call: Call<V>, next: impl FnOnce(Changed) -> Result<Self> + Send + 'static) -> Self {
        Self::Change(call, Box::new(next))
    }

    /// Asks for rows, and goes on with them.
    pub fn ask(call: Call<V>, next: impl FnOnce(Vec<Row>) -> Result<Self> + Send + 'static) -> Self {
        Self::Ask(call, Box::new(next))
    }

    /// This operation, and after it another one that its result decides.
    pub fn then<T: 'static>(
        self,
        next: impl FnOnce(R) -> Result<Operation<V, T>> + Send + 'static,
    ) -> Result<Operation<V, T>> {
        Ok(match self {
            Self::Done(done) => return next(done),
            Self::Change(call, rest) => Operation::change(call, move |changed| rest(changed)?.then(next)),
            Self::Ask(call, rest) => Operation::ask(call, move |rows| rest(rows)?.then(next)),
        })
    }

    /// The same operation with another result.
    pub fn map<T: 'static>(self, result: impl FnOnce(R) -> T + Send + 'static) -> Operation<V, T> {
        match self {
            Self::Done(done) => Operation::Done(result(done)),
            Self::Change(call, next) => {
                Operation::change(call, move |changed| Ok(next(changed)?.map(result)))
            }
            Self::Ask(call, next) => Operation::ask(call, move |rows| Ok(next(rows)?.map(result))),
        }
    }
}

/// A driver that blocks.
pub trait Blocking<V> {
    /// Runs a statement that returns no rows, and returns what it changed.
    ///
    /// # Errors
    /// What the database says, by the store's table.
    fn change(&mut self, call: Call<V>) -> Result<Changed>;

    /// Runs a statement and returns its rows.
    ///
    /// # Errors
    /// What the database says, by the store's table.
    fn ask(&mut self, call: Call<V>) -> Result<Vec<Row>>;
}

/// A driver that waits.
pub trait Waiting<V>: Send {
    /// Runs a statement that returns no rows, and returns what it changed.
    fn change(&mut self, call: Call<V>) -> impl Future<Output = Result<Changed>> + Send;

    /// Runs a statement and returns its rows.
    fn ask(&mut self, call: Call<V>) -> impl Future<Output = Result<Vec<Row>>> + Send;
}

/// Runs an operation to its end.
///
/// # Errors
/// Those of the operation and of its statements.
pub fn run_blocking<V, R>(driver: &mut impl Blocking<V>, first: Result<Operation<V, R>>) -> Result<R> {
    let mut step = first?;
    loop {
        step = match step {
            Operation::Done(done) => return Ok(done),
            Operation::Change(call, next) => next(driver.change(call)?)?,
            Operation::Ask(call, next) => next(driver.ask(call)?)?,
        };
    }
}

/// The result of an operation with a driver that waits.
pub type Pending<'t, R> = Pin<Box<dyn Future<Output = Result<R>> + Send + 't>>;

/// Runs an operation to its end.
///
/// # Errors
/// Those of the operation and of its statements.
pub async fn run_waiting<V: Send, R: Send>(
    driver: &mut impl Waiting<V>,
    first: Result<Operation<V, R>>,
) -> Result<R> {
    let mut step = first?;
    loop {
        step = match step {
            Operation::Done(done) => return Ok(done),
            Operation::Change(call, next) => next(driver.change(call).await?)?,
            Operation::Ask(call, next) => next(driver.ask(call).await?)?,
        };
    }
}

/// Writes the sealed trait of a store's transactions, for the type of its values. The documentation that is passed
/// is added to that of the trait. [`driver!`](crate::driver!) implements it.
#[macro_export]
macro_rules! transactions {
    ($(#[$doc:meta])* $value:ty) => {
        /// A transaction of the application, in which events are staged and accepted.
        ///
        /// It is implemented for the transactions of the supported drivers only. A pool or a connection outside
        /// of a transaction is refused by the compiler. A connection of diesel has no type that shows its
        /// transaction: there every call checks it, and outside of one it is refused at run time. For any other
        /// driver, [`Outbox::statement`](crate::Outbox::statement) returns SQL and parameters.
        ///
        $(#[$doc])*
        #[diagnostic::on_unimplemented(
            message = "`{Self}` is not a transaction of a supported driver",
            label = "begin a transaction and pass it",
            note = "what is staged outside of a transaction would not be committed with your own write",
            note = "drivers other than sqlx need the feature that is named after them"
        )]
        pub trait Transaction: sealed::Sealed {
            /// What a call in this transaction returns. It follows the driver: a future of a
            /// [`Result`](pillarbox_core::Result) where the driver is async, and the result itself where it blocks.
            type Answer<'t, R: Send + 'static>
            where
                Self: 't;

            #[doc(hidden)]
            fn run<'t, R: Send + 'static>(
                &'t mut self,
                first: ::pillarbox_core::Result<$crate::Operation<$value, R>>,
            ) -> Self::Answer<'t, R>;
        }

        pub(crate) mod sealed {
            /// Sealed: only this crate knows what a transaction is.
            pub trait Sealed {}
        }
    };
}

/// Implements the trait of [`transactions!`](crate::transactions!) for a driver's transaction, which is [`Waiting`] or
/// [`Blocking`]. It is called in a child of the module of that trait. `shared` is for a driver that needs no more than
/// a shared reference: then the reference is a transaction too.
#[macro_export]
macro_rules! driver {
    (waiting $tx:ty, $value:ty) => {
        $crate::driver!(@waiting $tx, $value, |tx| tx);
    };
    (shared waiting $tx:ty, $value:ty) => {
        $crate::driver!(@waiting $tx, $value, |tx| &mut &*tx);
        $crate::driver!(@waiting &$tx, $value, |tx| tx);
    };
    (blocking $tx:ty, $value:ty) => {
        $crate::driver!(@blocking $tx, $value, |tx| tx);
    };
    (shared blocking $tx:ty, $value:ty) => {
        $crate::driver!(@blocking $tx, $value, |tx| &mut &*tx);
        $crate::driver!(@blocking &$tx, $value, |tx| tx);
    };
    (@waiting $tx:ty, $value:ty, |$me:ident| $driver:expr) => {
        $crate::driver!(@impl $tx, $value, <'t, R> $crate::Pending<'t, R>, |$me, first| {
            ::std::boxed::Box::pin(async move { $crate::run_waiting($driver, first).await })
        });
    };
    (@blocking $tx:ty, $value:ty, |$me:ident| $driver:expr) => {
        $crate::driver!(@impl $tx, $value, <'t, R> ::pillarbox_core::Result<R>, |$me, first| {
            $crate::run_blocking($driver, first)
        });
    };
    (@impl $tx:ty, $value:ty, <$t:lifetime, $r:ident> $answer:ty, |$me:ident, $first:ident| $run:expr) => {
        impl super::sealed::Sealed for $tx {}

        impl super::Transaction for $tx {
            type Answer<$t, $r: Send + 'static>
                = $answer
            where
                Self: $t;

            fn run<$t, $r: Send + 'static>(
                &$t mut self,
                $first: ::pillarbox_core::Result<$crate::Operation<$value, $r>>,
            ) -> Self::Answer<$t, $r> {
                let $me = self;
                $run
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each statement by the number that its text is, and refuses any other.
    struct Echo(Vec<String>);

    impl Blocking<()> for Echo {
        fn change(&mut self, call: Call<()>) -> Result<Changed> {
            self.0.push(call.sql.to_string());
            call.sql.parse().map(Changed::rows).map_err(|_| Error::invalid("refused"))
        }

        fn ask(&mut self, call: Call<()>) -> Result<Vec<Row>> {
            self.0.push(call.sql.to_string());
            Ok(vec![Row(vec![call.sql.to_string()])])
        }
    }

    impl Waiting<()> for Echo {
        async fn change(&mut self, call: Call<()>) -> Result<Changed> {
            Blocking::change(self, call)
        }

        async fn ask(&mut self, call: Call<()>) -> Result<Vec<Row>> {
            Blocking::ask(self, call)
        }
    }

    fn call(sql: &str) -> Call<()> {
        Call::new(sql.into(), vec![])
    }

    /// Changes rows, asks for rows, and adds up what both said.
    fn sum(change: &str, ask: &str) -> Operation<(), i64> {
        let ask = call(ask);
        Operation::change(call(change), move |changed| {
            Ok(Operation::ask(ask, move |rows| {
                Ok(Operation::Done(rows[0].number(0)? + i64::try_from(changed.rows).unwrap()))
            }))
        })
    }

    #[test]
    fn an_operation_runs_to_its_end_in_either_way() {
        let mut driver = Echo(vec![]);
        assert_eq!(run_blocking(&mut driver, Ok(sum("3", "4").map(|sum| sum * 10))).unwrap(), 70);
        assert_eq!(driver.0, ["3", "4"]);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut waiting = std::pin::pin!(run_waiting(&mut driver, Ok(sum("1", "2"))));
        let std::task::Poll::Ready(done) = waiting.as_mut().poll(&mut context) else { panic!("it waits") };
        assert_eq!(done.unwrap(), 3);
    }

    #[test]
    fn an_error_ends_an_operation_where_it_is() {
        let mut driver = Echo(vec![]);
        let first: Result<Operation<(), ()>> = Err(Error::invalid("out of bounds"));
        assert!(run_blocking(&mut driver, first).is_err());
        assert!(driver.0.is_empty(), "a statement was sent");
        assert!(run_blocking(&mut driver, Ok(sum("no number", "1"))).is_err());
        assert_eq!(driver.0, ["no number"], "the next statement was sent");
    }

    #[test]
    fn what_cannot_be_read_is_corrupt() {
        let row = Row(["7", "true", "0", "maybe"].map(String::from).to_vec());
        assert_eq!((row.number(0).unwrap(), row.flag(1).unwrap(), row.flag(2).unwrap()), (7, true, false));
        for unread in [row.number(3).map(|_| ()), row.flag(3).map(|_| ()), row.text(4).map(|_| ())] {
            assert_eq!(unread.unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
