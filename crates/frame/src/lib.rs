//! Compiled callables: the path from a call to the graph that answers it.
//!
//! Arguments are bound as Python binds them, and the entries of the code object's cache are checked. The first one whose guards pass runs
//! its graph and rebuilds the function's result. Misses are handled elsewhere: capture and compiler are supplied as a [`Compiler`], graphs
//! as [`CompiledGraph`]s.
//!
//! *Architecture invariant:* no Python code runs between a guard hit and a native graph, nor between the graph and the result.
#![forbid(unsafe_code)]

mod audit;
mod back_off;
mod bind;
mod cache;
mod callable;
mod callable_description;
mod callees;
mod compile_lock;
mod continuation_key;
mod describe_epilogue;
mod entry_code;
mod epilogue;
mod frame_chain;
mod graph;
mod limits;
mod plain_calls;
mod recipe;
mod replaced_code;
mod resume;
pub mod settings;
mod stance;
mod value_history;

pub use audit::{Difference, Recapture, Verdict};
pub use bind::{CallArguments, Owned, Signature, Slots};
pub use cache::{Cache, Entry, EntryBreak, Limits, Plain, Run, Share, forget_all};
pub use callable::{Callable, Compiled, Compiler, Miss, Next, Unforeseen};
pub use callable_description::{Description, Method};
pub use describe_epilogue::{EpilogueText, content, without_addresses};
pub use entry_code::{EntryCode, Named, write};
pub use epilogue::{AfterGraph, Epilogue, FrameParts, Suspension};
pub use graph::{CompiledGraph, Failed, NoGraph, Objects, PythonGraph};
pub use limits::{Admission, SizeClass};
pub use recipe::{Instance, Made, Measured, Recipe, SetKind, Supply};
pub use value_history::ValueHistory;
