//! Compiled callables: what happens between a call and the graph that answers it.
//!
//! Arguments are bound as Python binds them, the entries of the code object's cache are asked, and the first one whose guards
//! pass runs its graph and rebuilds what the function returns. A miss is somebody else's business: capture and compiler come
//! in as a [`Compiler`], graphs as [`CompiledGraph`]s.
//!
//! *Architecture invariant:* no Python code runs between a guard hit and a native graph, nor between that and the result.
#![forbid(unsafe_code)]

mod audit;
mod bind;
mod cache;
mod call;
mod called;
mod chain;
mod description;
mod drive;
mod entry_code;
mod epilogue;
mod floats;
mod graph;
mod plainly;
mod point;
mod recipe;
mod room;
pub mod settings;
mod stance;
mod successors;
mod told;
mod turn;

pub use audit::{Difference, Replay, Verdict};
pub use bind::{Given, Owned, Signature, Slots};
pub use cache::{Broke, Cache, Entry, Limits, Plain, Run, Share, forget_all};
pub use call::{Callable, Compiled, Compiler, Miss, Next, Unforeseen};
pub use description::{Description, Method};
pub use entry_code::{EntryCode, Named, write};
pub use epilogue::{AfterGraph, Epilogue, FrameParts, Suspension};
pub use floats::Floats;
pub use graph::{CompiledGraph, Failed, NoGraph, Objects, PythonGraph};
pub use recipe::{Instance, Made, Measured, Recipe, SetKind, Supply};
pub use room::Kind;
pub use told::{Told, content, without_addresses};
