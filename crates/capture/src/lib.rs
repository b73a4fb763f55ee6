//! The capture policy: runs a frame on fakes, records its torch operations, and notes its assumptions about everything else.
//!
//! Values are real Python objects; only tensors are replaced, by fakes. Objects that existed before the frame are never touched. A table
//! ([`objects::effects`]) says what C code may do to them; C code that is not in the table ends the capture with a reason.
#![forbid(unsafe_code)]

mod floors;
mod frames;
pub mod graph_break;
mod heap;
mod objects;
mod operations;
mod recipes;
mod recorder;
mod session_scope;
mod state;
mod values;

pub use frames::{
    audit::Decisions,
    run::{CaptureFailure, CaptureRequest, Captured, Ends, Tables, capture},
    specialize::{Backend, CapturedPiece, Compilation, EntryParts, capture_and_compile},
};
pub use heap::describe_effects::SeenEffect;
pub use objects::{effects, interruptions::interruption_behind};
pub use state::dynamic_sizes::Dynamic;
pub use values::guard_completeness::{forget_guard, forgotten_guard, unproven};
