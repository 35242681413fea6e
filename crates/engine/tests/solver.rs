//! The batch solver against the cases of the specification, against brute force, and against its promises.

mod solver {
    mod exhaustive;
    mod filters;
    mod promises;
    mod properties;
    mod replay;
    mod sets;
    mod support;
    mod times;
    mod walk;
}
