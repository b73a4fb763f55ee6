//! Objects as guards look at them: what is stored where, read without running Python code, and a recording of what was read
//! that tells in nanoseconds whether all of it still is so.

mod callable;
mod pins;
mod recorder;
mod tensor;
mod trail;

pub use callable::{Arguments, Callee, callable, callable_type, callee_of};
pub use pins::{Pin, Pins};
pub use recorder::{Proof, Reached, Recorder, Spot, code, code_address};
pub use tensor::{Attributes, TensorClass, learn_tensors, tensor_of};
pub use trail::Trail;
