//! Trails: words of memory that together prove that a walk through live objects would end as it did before.
//!
//! Guards walk from a root (a function's arguments, its globals) to the guarded objects. A [`Recorder`] takes each step with CPython's own
//! functions and records the word of memory that decided it. The [`Trail`] of all these words is compared at the next check instead of
//! walking again. `cpython-abi` and `torch-abi` supply the layouts; this crate knows which words prove what, and is the only one that reads
//! them.

mod learn;
mod pins;
mod recorder;
mod tensor;
mod trail;

pub use learn::learn_tensors;
pub use pins::{Pin, Pins, is_pin};
pub use recorder::{Proof, Reached, Recorder, Spot};
pub use tensor::{TensorClass, tensor_of};
pub use trail::Trail;
