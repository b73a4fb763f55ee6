//! The capture policy: runs a frame on fakes, notes what it asks of torch and what it assumed about everything else.
//!
//! Values are real Python objects; only tensors are replaced, by fakes. Objects that existed before the frame are never
//! touched. What C code may do to them is a table ([`effects`]); what is not in it ends the capture with a reason.
#![forbid(unsafe_code)]

mod applied;
mod asked;
mod attempts;
mod attributes;
mod beneath;
mod callbacks;
mod calls;
mod changed;
mod classes;
mod computed;
mod consulted;
mod containers;
mod contents;
pub mod effects;
mod effects_told;
mod entered;
mod finalizers;
mod getters;
mod given;
mod gradients;
pub mod graph_break;
mod identity;
mod indirect;
pub mod inside;
mod iterators;
mod keys;
mod kinds;
mod known;
mod leave;
mod lookups;
mod made;
mod names;
mod natives;
mod nesting;
mod numbers;
pub mod operands;
mod outputs;
mod patched;
mod places;
mod policy;
mod rebuilt;
mod receivers;
mod reduce;
mod refusals;
mod regions;
mod repeats;
mod replay;
mod reports;
mod run;
mod same;
pub mod sizes;
mod snapshots;
mod specialize;
mod specials;
pub mod state;
mod stores;
mod subclassed;
mod suspend;
mod switches;
mod tensor_writes;
mod tensors;
pub mod torch;
mod unpacked;
mod values;
mod views;
mod wrapped;
mod written;
mod written_names;

pub use effects_told::SeenEffect;
pub use refusals::interruption_behind;
pub use run::{Broken, Captured, Ends, Subject, Tables, capture};
pub use specialize::{Backend, Compilation, EntryParts, WholeFrame, specialize};
