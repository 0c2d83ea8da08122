//! What outboxes have besides their statements. These are macros, because each store has its own types and methods.

/// Writes the part that is equal in every outbox.
///
/// A store calls it in its `transaction.rs`, with the type of the outbox and a generic alias `Tx<'c>` of the
/// transaction. The outbox has a field `staging` of the type [`Staging`](crate::Staging) and defines `stage_all`,
/// `stage_saga` and `commit`. A function `rollback(tx)` stands beside the call. The documentation that is passed is
/// added to that of `transaction`. If the type of the transaction borrows nothing, write `owned` before its alias. If it
/// borrows, the database speaks SQL: the outbox then gets `statement` as well, from `stage_one` of its field `statements`, with
/// `Statement` and `params` beside the call.
///
/// It writes the setters, `transaction`, `Debug`, the ports, and the sealed trait `Begin`.
#[macro_export]
macro_rules! outbox {
    ($(#[$example:meta])* $outbox:ident, $tx:ident) => {
        $crate::outbox!(@outbox $(#[$example])* $outbox, $tx);
        $crate::outbox!(@ports <'c> $outbox, $tx<'c>);

        impl $outbox {
            /// The SQL and the parameters that stage this event with any other driver, in a transaction of that
            /// driver.
            ///
            /// # Errors
            /// When the route or the event breaks a rule.
            pub fn statement(
                &self,
                event: ::pillarbox_core::Event,
            ) -> ::pillarbox_core::Result<Statement> {
                let entry = self.staging.entry(&self.staging.route()?, event)?;
                Ok(Statement::new(self.statements.stage_one.as_str(), params(entry)?))
            }
        }
    };
    ($(#[$example:meta])* $outbox:ident, owned $tx:ident) => {
        $crate::outbox!(@outbox $(#[$example])* $outbox, $tx);
        $crate::outbox!(@ports <> $outbox, $tx<'static>);
    };
    (@ports <$($life:lifetime)?> $outbox:ident, $tx:ty) => {
        #[::async_trait::async_trait]
        impl<$($life)?> ::pillarbox_core::port::Stage<$tx> for $outbox {
            async fn stage_all(
                &self,
                tx: &mut $tx,
                events: Vec<::pillarbox_core::Event>,
            ) -> ::pillarbox_core::Result<Vec<::pillarbox_core::Staged>> {
                Self::stage_all(self, tx, events).await
            }
        }

        #[::async_trait::async_trait]
        impl<$($life)?> ::pillarbox_core::port::StageSaga<$tx> for $outbox {
            async fn stage_saga(
                &self,
                tx: &mut $tx,
                saga: ::pillarbox_core::Saga,
            ) -> ::pillarbox_core::Result<::pillarbox_core::port::StagedSaga> {
                Self::stage_saga(self, tx, saga).await
            }
        }
    };
    (@outbox $(#[$example:meta])* $outbox:ident, $tx:ident) => {
        impl $outbox {
            /// Sets the limits of events. Default: those of
            /// [`EventLimits::default`](pillarbox_core::EventLimits).
            #[must_use]
            pub fn limits(mut self, limits: ::pillarbox_core::EventLimits) -> Self {
                self.staging.limits = limits;
                self
            }

            /// Declares that the route is delivered in order per key (`order = "key"`). A delayed event with a key
            /// is then refused, because it would hold back its key. Default: not known, and such an event does hold
            /// back its key.
            #[must_use]
            pub fn ordered(mut self) -> Self {
                self.staging.ordered = true;
                self
            }

            /// Sets the relay in this process that [`commit`](Self::commit) and [`committed`](Self::committed) wake.
            /// Default: none.
            #[must_use]
            pub fn wake(mut self, wake: impl ::pillarbox_core::port::Wake + 'static) -> Self {
                self.staging.wake = Some(::std::sync::Arc::new(wake));
                self
            }

            /// Sets the function that returns the W3C `traceparent` of the current span. It becomes the header of
            /// that name unless the event already has one. Default: none.
            #[must_use]
            pub fn trace(mut self, trace: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
                self.staging.trace = Some(::std::sync::Arc::new(trace));
                self
            }

            /// Sets the tracer. Each staged event then has a *create* span, whose context is stored in the headers
            /// `traceparent` and `tracestate`. An event that already has a `traceparent` keeps it and gets no span.
            /// The function of [`trace`](Self::trace) is not called. Default: none.
            #[must_use]
            pub fn tracer(mut self, tracer: impl $crate::Tracer + 'static) -> Self {
                self.staging.tracer = Some(::std::sync::Arc::new(tracer));
                self
            }

            /// Sets the source of clock stamps. Default: the one clock of this process.
            #[must_use]
            pub fn clock(mut self, clock: ::std::sync::Arc<::pillarbox_core::HybridClock>) -> Self {
                self.staging.clock = Some(clock);
                self
            }

            /// Wakes the relay of this process, if there is one. Call it after the commit of a driver that has its own:
            /// [`commit`](Self::commit) does it by itself. Without it, the relay finds the event when it polls.
            pub fn committed(&self) {
                self.staging.committed();
            }

            /// Runs an operation in a transaction. It begins the transaction, runs the operation, and stages the
            /// events of the buffer in one statement. Then it commits and wakes the relay of this process. If the
            /// operation or staging fails, everything is rolled back.
            ///
            /// If the operation owns the values that it uses, as an `async move` closure does, the future can be
            /// spawned. If the closure borrows, the compiler cannot see yet that its future is `Send`.
            ///
            $(#[$example])*
            ///
            /// # Errors
            /// Those of the operation; and as for [`stage_all`](Self::stage_all) and [`commit`](Self::commit).
            pub async fn transaction<T, E: From<::pillarbox_core::Error>>(
                &self,
                on: &impl Begin,
                work: impl AsyncFnOnce(
                    &mut $tx<'static>,
                    &mut ::pillarbox_core::port::Buffer,
                ) -> ::std::result::Result<T, E>,
            ) -> ::std::result::Result<T, E> {
                let tx = on.begin_one().await?;
                match ::pillarbox_core::port::Buffer::around(self, tx, work).await {
                    (tx, Ok(done)) => {
                        self.commit(tx).await?;
                        Ok(done)
                    }
                    (tx, Err(error)) => {
                        // Not in the background: a caller that sees the error may count on the rollback.
                        rollback(tx).await;
                        Err(error)
                    }
                }
            }
        }

        impl ::std::fmt::Debug for $outbox {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($outbox))
                    .field("route", &self.staging.route_text())
                    .finish_non_exhaustive()
            }
        }

        /// A value on which an outbox's `transaction` can begin a transaction: a store, or a pool of the
        /// application.
        pub trait Begin: sealed::Begin {}

        mod sealed {
            /// Sealed: only this crate can begin a transaction that an outbox commits.
            pub trait Begin: Sync {
                /// Begins a transaction.
                fn begin_one(
                    &self,
                ) -> impl ::std::future::Future<Output = ::pillarbox_core::Result<super::$tx<'static>>> + Send;
            }
        }
    };
}

/// Writes the calls of an outbox that are equal in several stores, from a list of their names.
///
/// A store calls it in its `outbox.rs`, with the type of the outbox, which has a field `staging` of the type
/// [`Staging`](crate::Staging). The documentation above a name is added to what is the same everywhere.
///
/// | name | what the outbox has for it | what stands beside the call |
/// |---|---|---|
/// | `new`, `options` | `statements` in an `Arc`, and no other field | `DEFAULT_STATEMENTS`, `Statements`, `Tables` and `Options` |
/// | `stage`, `stage_all` | `one(NewEntry)` and, for at least two, `several(Vec<NewEntry>)`: each makes an [`Operation`](crate::Operation) | `Transaction` of [`transactions!`](crate::transactions!), and `Value` |
/// | `serialize` | `lock(&str)`, which makes an operation | `Transaction` |
/// | `commit` | nothing | the generic alias `Tx<'c>` of the transaction, and a function `commit(tx)` |
#[macro_export]
macro_rules! outbox_calls {
    (impl $outbox:ident { $($(#[$doc:meta])* $call:ident;)* }) => {
        impl $outbox {
            $($crate::__outbox_call! { $call $(#[$doc])* })*
        }
    };
}

/// Writes one call for [`outbox_calls!`](crate::outbox_calls!).
#[doc(hidden)]
#[macro_export]
macro_rules! __outbox_call {
    (new $(#[$doc:meta])*) => {
        /// The outbox of this route, with default settings. If the route breaks a rule, staging refuses it.
        ///
        $(#[$doc])*
        #[must_use]
        pub fn new(route: impl Into<String>) -> Self {
            let statements = ::std::sync::Arc::clone(&DEFAULT_STATEMENTS);
            Self { staging: $crate::Staging::new(route), statements }
        }
    };
    (options $(#[$doc:meta])*) => {
        /// Sets which tables to write to. Default: those of [`Options::default`].
        ///
        $(#[$doc])*
        #[must_use]
        pub fn options(mut self, options: Options) -> Self {
            self.statements = ::std::sync::Arc::new(Statements::new(Tables::new(&options)));
            self
        }
    };
    (stage $(#[$doc:meta])*) => {
        /// Stages one event in the application's transaction, of any [supported driver](Transaction).
        ///
        $(#[$doc])*
        pub fn stage<'t, T: Transaction>(
            &self,
            tx: &'t mut T,
            event: ::pillarbox_core::Event,
        ) -> T::Answer<'t, ::pillarbox_core::Staged> {
            let entry = self.staging.route().and_then(|route| self.staging.entry(&route, event));
            tx.run(entry.and_then(|entry| self.one(entry)))
        }
    };
    (stage_all $(#[$doc:meta])*) => {
        /// Stages any number of events in one statement. The outcomes are in the order of the events. Without
        /// events it does nothing.
        ///
        $(#[$doc])*
        pub fn stage_all<'t, T: Transaction>(
            &self,
            tx: &'t mut T,
            events: impl IntoIterator<Item = ::pillarbox_core::Event>,
        ) -> T::Answer<'t, Vec<::pillarbox_core::Staged>> {
            tx.run(self.many(events))
        }

        /// What stages any number of events.
        pub(crate) fn many(
            &self,
            events: impl IntoIterator<Item = ::pillarbox_core::Event>,
        ) -> ::pillarbox_core::Result<$crate::Operation<Value, Vec<::pillarbox_core::Staged>>> {
            let mut entries = self.staging.entries(events)?;
            if entries.len() > 1 {
                return self.several(entries);
            }
            // One alone costs half as much by its own statement.
            match entries.pop() {
                Some(entry) => Ok(self.one(entry)?.map(|staged| vec![staged])),
                None => Ok($crate::Operation::Done(Vec::new())),
            }
        }
    };
    (serialize $(#[$doc:meta])*) => {
        /// Locks this key until the transaction ends. Another transaction that calls this for the same route and
        /// key waits until then, so that the events of both have an order. Without this call, two transactions
        /// that stage one key at the same time are unordered.
        ///
        $(#[$doc])*
        pub fn serialize<'t, T: Transaction>(&self, tx: &'t mut T, key: &str) -> T::Answer<'t, ()> {
            tx.run(self.lock(key))
        }
    };
    (commit $(#[$doc:meta])*) => {
        /// Commits the transaction, then wakes the relay of this process if there is one.
        ///
        $(#[$doc])*
        pub async fn commit(&self, tx: Tx<'_>) -> ::pillarbox_core::Result<()> {
            commit(tx).await?;
            self.staging.committed();
            Ok(())
        }
    };
}
