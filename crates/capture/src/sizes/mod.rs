//! The dynamic sizes of a capture: which sizes of its inputs get symbols, and what the program does with them. The sizes themselves are
//! those of `crates/symint`.

mod decisions;
mod inputs;
mod int_inputs;
mod policy;
mod program_floats;
mod recipes;
mod unbacked_names;

pub use dynamlir_symint::{Declared, SizeNode, Sizes, Unbacked, class, expression};
pub(crate) use dynamlir_symint::{as_program, is_asked, is_size, node_of};

pub use self::inputs::Dynamic;
pub(crate) use self::{decisions::Decided, inputs::DynamicSizes, policy::follow};
