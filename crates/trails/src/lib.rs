//! Trails: words of memory that together prove that a walk through live objects would end as it did before.
//!
//! Guards walk from a root (a function's arguments, its globals) to what they are about. A [`Recorder`] takes each step by
//! CPython's own functions and notes the word of memory that decided it; the [`Trail`] of all these words is compared at the
//! next check instead of walking again. What lies where is asked of `cpython-abi` and `torch-abi`; this crate knows which words
//! prove what, and is the only one that reads them.

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
