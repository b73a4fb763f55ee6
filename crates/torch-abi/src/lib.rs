//! libtorch through its C ABI, without linking against it.
//!
//! The symbols are looked up in the `libtorch_cpu.so` that the process has already loaded, so one build serves every torch that exports
//! them. [`TorchAbi::init`] runs once. After that, tensors are [`OwnedTensor`] or [`TensorRef`], and ops are prepared once as an [`OpCall`]
//! and then called by the cheapest [`Route`] that can carry their arguments.
//!
//! The ownership terms used forevery foreign function: *borrowed* (the callee only reads), *stolen* (the callee takes the reference) and
//! *new* (the caller receives a reference that it must release).

mod cshim;
mod device;
mod dispatcher;
mod dtype;
mod error;
mod ffi;
mod guard;
mod impl_layout;
mod init;
mod library;
mod meta;
mod op;
mod pyobject;
mod returned;
mod shim_table;
mod signature;
mod state;
mod tensor;
mod thread;

pub use device::Device;
pub use dtype::DType;
pub use error::TorchError;
pub use guard::BelowAutograd;
pub use impl_layout::{Autograd, Readable, TensorSample, learn};
pub use init::{InitArgs, PySample, TorchAbi};
pub use library::Library;
pub use meta::{Field, Meta, Pattern, StoragePosition};
pub use op::{Arg, OpCall, Route};
pub use signature::{Base, Signature, Ty};
pub use state::{Disturbance, State};
pub use tensor::{OwnedTensor, RawHandle, TensorRef};
pub use thread::{NoGrad, RandomState};
