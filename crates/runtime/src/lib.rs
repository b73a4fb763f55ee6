//! Runs a compiled graph inside the user's process.
//!
//! A [`Plan`] says what to do; [`Executable`] checks it once, flattens it into tables and then runs it without hashing or allocating per
//! step. Machine code comes from [`Jit`], which links object code in process; parallel loops in it run through [`omp`], on the thread pool
//! that torch uses. Kernels of a CUDA device are launched through `dynamlir-cuda`; see [`Code`].

mod arrival;
mod bases;
mod bounds;
mod check;
mod derived;
mod device;
mod effects;
mod executor;
mod externs;
mod gathered;
mod instances;
mod jit;
mod layout;
mod lower;
pub mod omp;
mod open;
mod outputs;
mod overlap;
mod plan;
mod profile;
mod recent;
mod reuse;
mod symbols;
mod training;
mod undefined;
mod verify;
mod workspace;

pub use derived::{Derived, Gradients, NodeInput};
pub use device::Code;
pub use dynamlir_torch_abi::{Arg as ExternArg, DType, Device, OwnedTensor, Route, TensorRef, TorchAbi};
pub use executor::{Executable, Failure, RunError};
pub use externs::{ExternReport, PythonCalls, PythonError};
pub use instances::Instances;
pub use jit::{Jit, JitError, Kernel, PackedFn, WeakKernel};
pub use layout::Layout;
pub use lower::PlanError;
pub use open::{LayoutField, Open, OpenPlan, PlanSlot, Varying};
pub use outputs::{OutputValue, Outputs, Results, Views};
pub use plan::{Base, Const, Derivative, ExternCall, GradientOf, InputSpec, KernelSpec, Output, Plan, Reg, Saved, Step, Training};
pub use profile::{About, Measured, Profile, Tally, Timed};
pub use recent::Recent;
pub use training::{Differentiable, Fitting, Graph, computed_gradient};
pub use verify::Unfit;
