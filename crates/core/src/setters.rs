//! Setters of options, written once. Each option is a field, and the type of the field decides how it is set.

/// Writes the setters of an options struct from a list of its fields.
///
/// `as into` takes any value that converts into the field's type. `as some` and `as some_into` set an `Option`
/// field.
///
/// ```
/// #[derive(Default)]
/// pub struct Options {
///     source: String,
///     prefetch: Option<usize>,
/// }
///
/// pillarbox_core::setters! {
///     impl Options {
///         /// Sets the source.
///         source: String as into;
///         /// Sets how many messages are taken ahead.
///         prefetch: usize as some;
///     }
/// }
///
/// let options = Options::default().source("/shop").prefetch(8);
/// assert_eq!((options.source.as_str(), options.prefetch), ("/shop", Some(8)));
/// ```
#[macro_export]
macro_rules! setters {
    (impl $options:ident { $($(#[$doc:meta])* $field:ident: $type:ty $(as $how:ident)?;)* }) => {
        impl $options {
            $($crate::__setter! { [$(#[$doc])*] $field $type, $($how)? })*
        }
    };
}

/// Writes one setter for [`setters!`](crate::setters!).
#[doc(hidden)]
#[macro_export]
macro_rules! __setter {
    ([$(#[$doc:meta])*] $field:ident $type:ty,) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    };
    ([$(#[$doc:meta])*] $field:ident $type:ty, into) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: impl Into<$type>) -> Self {
            self.$field = $field.into();
            self
        }
    };
    ([$(#[$doc:meta])*] $field:ident $type:ty, some) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = Some($field);
            self
        }
    };
    ([$(#[$doc:meta])*] $field:ident $type:ty, some_into) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: impl Into<$type>) -> Self {
            self.$field = Some($field.into());
            self
        }
    };
}
