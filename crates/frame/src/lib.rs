//! Compiled callables: what happens between a call and the graph that answers it.
//!
//! Arguments are bound as Python binds them, the entries of the cache are scanned in order, and the first one whose guards
//! pass runs its graph and rebuilds what the function returns. A miss is somebody else's business: capture and compiler come
//! in through [`Cache`]'s user.
#![forbid(unsafe_code)]

mod bind;
mod cache;
mod recipe;

pub use bind::Signature;
pub use cache::{Cache, Entry, Hit, Run};
pub use recipe::{Instance, Recipe};
