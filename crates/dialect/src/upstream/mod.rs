//! Upstream's operations that passes build and match: a constant for each name, and a method of [`Builder`] for those built in more than
//! one place.
//!
//! Nothing here makes decisions: a method builds the one operation that it is named after, with the type that upstream's own builder would
//! infer. Methods for `arith` and `math` have the operation's bare name; the others are prefixed with their dialect.
//!
//! ```text
//! let sum = b.addf(a, b.mulf(x, y));                  // arith.addf, arith.mulf
//! let old = b.memref_load(memory, &[index]);          // memref.load
//! if op.is(arith::ADDF) { … }
//! ```

use crate::ir::{Attr, Ctx};

/// Defines constants for names.
macro_rules! names {
    ($($constant:ident = $name:literal;)*) => { $(
        #[doc = concat!("`", $name, "`.")]
        pub const $constant: &str = $name;
    )* };
}

/// Defines builders of operations whose result has the type of their first operand.
macro_rules! like_operand {
    ($($constant:ident $method:ident($first:ident $(, $more:ident)*) = $name:literal;)*) => {
        names! { $($constant = $name;)* }
        impl Builder { $(
            #[doc = concat!("`", $name, "`.")]
            pub fn $method(&self, $first: Value $(, $more: Value)*) -> Value {
                self.value($constant, &[$first $(, $more)*], $first.ty(), &[])
            }
        )* }
    };
}

/// Defines builders of operations with one operand and a result of a given type.
macro_rules! casts {
    ($($constant:ident $method:ident = $name:literal;)*) => {
        names! { $($constant = $name;)* }
        impl Builder { $(
            #[doc = concat!("`", $name, "`.")]
            pub fn $method(&self, x: Value, ty: Type) -> Value {
                self.value($constant, &[x], ty, &[])
            }
        )* }
    };
}

pub mod arith;
pub mod bufferization;
pub mod func;
pub mod gpu;
pub mod linalg;
pub mod llvm;
pub mod math;
pub mod memref;
pub mod scf;
pub mod tensor;
pub mod vector;

/// `builtin.module`.
pub const MODULE: &str = "builtin.module";
/// `affine.min`.
pub const AFFINE_MIN: &str = "affine.min";
/// `omp.parallel`.
pub const OMP_PARALLEL: &str = "omp.parallel";

/// The number of operands in each segment of an operation.
pub fn segments(ctx: Ctx, sizes: &[i32]) -> (&'static str, Attr) {
    ("operandSegmentSizes", Attr::i32s(ctx, sizes))
}

/// A number as an attribute, with its name.
fn number(ctx: Ctx, name: &'static str, value: i64) -> (&'static str, Attr) {
    (name, Attr::i64(ctx, value))
}
