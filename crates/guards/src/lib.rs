//! Guards: whether what a capture assumed still holds.
//!
//! A capture describes *where* values came from with [`Source`]s and *what* it assumed of them with [`Guard`]s, through a
//! [`GuardBuilder`]. The result is a [`GuardSet`]: a tree, evaluated natively, with three outcomes: pass, fail, an exception.
//! A check that passes also collects the tensors that the graph is called with.
//!
//! *Architecture invariant:* a guard set owns nothing of the user's. Models, parameters, functions and classes are held weakly,
//! and when one of them dies the guard set is invalid for ever.
#![forbid(unsafe_code)]

mod alike;
mod builder;
mod check;
mod computed;
mod constant;
mod covers;
mod direct;
mod explain;
mod guard;
mod held;
mod ledger;
mod memo;
mod part;
mod registered;
mod relation;
mod route;
mod set;
mod sizes;
mod source;
mod tensor;
mod tree;
mod watched;

pub use builder::{Checkpoint, GuardBuilder};
pub use computed::{Computed, Operand, Predicate, compare};
pub use constant::Constant;
pub use explain::{Failure, Texts};
pub use guard::{Comparison, DictKey, Guard, GuardError, Relation, StorageMember};
pub use ledger::{Facet, Forgotten, Open};
pub use memo::Remembered;
pub use part::Part;
pub use relation::sharing;
pub use route::Hop;
pub use set::{Checked, GuardSet, Inputs, Roots};
pub use sizes::{Extent, LARGEST_SIZE, SizeRelation, size_in};
pub use source::{HeldId, ModuleTable, Name, Source, SourceId, Sources};
pub use tensor::{Contents, DYNAMIC_MARKS, TensorMatch};
pub use watched::{is_bookkeeping, is_watched};
