//! Guards: check whether the assumptions of a capture still hold.
//!
//! A capture describes *where* values came from with [`Source`]s and *what* it assumed about them with [`Guard`]s, through a
//! [`GuardBuilder`]. The result is a [`GuardSet`]: a tree, evaluated natively, with three outcomes: pass, fail, an exception. A check that
//! passes also collects the tensors with which the graph is called.
//!
//! *Architecture invariant:* a guard set owns no objects of the user's. Models, parameters, functions and classes are held weakly, and when
//! one of them dies the guard set becomes invalid forever.
#![forbid(unsafe_code)]

mod abc_registrations;
mod builder;
mod check;
mod computed;
mod constant;
mod death_watchers;
mod direct;
mod explain;
mod guard;
mod guard_set;
mod identity_pins;
mod ledger;
mod relation;
mod remembered_checks;
mod route;
mod set_coverage;
mod shared_guards;
mod size_differences;
mod sizes;
mod source;
mod tensor;
mod tree;

pub use builder::{GuardBuilder, Savepoint};
pub use computed::{Computed, Operand, Predicate, compare};
pub use constant::Constant;
pub use death_watchers::{is_bookkeeping, is_watched};
pub use explain::{Failure, Texts};
pub use guard::{Comparison, DictKey, Guard, GuardError, Relation, StorageMember};
pub use guard_set::{Checked, GuardSet, Inputs, Roots};
pub use ledger::{Facet, Forgotten, Open};
pub use relation::sharing;
pub use remembered_checks::Remembered;
pub use route::Hop;
pub use shared_guards::SharedGuards;
pub use sizes::{Extent, SizeRelation, size_in};
pub use source::{HeldId, ModuleTable, Name, Source, SourceId, Sources};
pub use tensor::{Contents, DYNAMIC_MARKS, TensorMatch};
