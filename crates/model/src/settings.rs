//! How settings are written down: what a field means, its type and its default in one place.

/// A struct with a default for each field; the defaults of all fields are its `Default`.
#[macro_export]
macro_rules! settings {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[$means:meta])* pub $field:ident: $type:ty = $default:expr,)*
    }) => {
        $(#[$about])*
        pub struct $name { $($(#[$means])* pub $field: $type,)* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}
