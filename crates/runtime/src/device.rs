//! Kernels on a CUDA device: the context into which they were loaded, and the state needed to run them.
//!
//! A launch is put on torch's current stream, as is torch's own work, so that kernels, extern calls and all later work stay in order
//! without waiting. Memory comes from torch's allocator, which reuses memory freed during a run only for work on the same stream: a buffer
//! may be freed while kernels that use it are still running.

use std::ffi::c_void;
use std::sync::Arc;

use dynamlir_cuda::{Context, Entered, Error, Kernel as DeviceKernel, Stream};
use dynamlir_torch_abi::{Device, TorchAbi};

use crate::executor::Failure;
use crate::jit::Kernel;
use crate::lower::{Op, PlanError, Program};
use crate::plan::Plan;

/// A plan's kernels, in order.
pub enum Code {
    /// Machine code of this process.
    Host(Vec<Kernel>),
    /// Code loaded into a device's context. If the plan's memory is the CPU's, the device must be able to access it.
    Device(Arc<Context>, Vec<DeviceKernel>),
}

impl Code {
    fn len(&self) -> usize {
        match self {
            Self::Host(kernels) => kernels.len(),
            Self::Device(_, kernels) => kernels.len(),
        }
    }

    /// Checks that these are the plan's kernels, for the device of the plan's memory.
    pub(crate) fn fits(&self, plan: &Plan) -> Result<(), PlanError> {
        if self.len() != plan.kernels.len() {
            return Err(PlanError(format!("{} kernels are named, {} given", plan.kernels.len(), self.len())));
        }
        match (self, plan.device) {
            (Self::Host(kernels), Device::Cuda(_)) if !kernels.is_empty() => {
                Err(PlanError("a kernel of the CPU for memory of a device".into()))
            }
            (Self::Host(_), _) => Ok(()),
            (Self::Device(context, _), Device::Cuda(number)) if context.ordinal() != i32::from(number) => {
                Err(PlanError(format!("kernels of device {} for memory of {}", context.ordinal(), plan.device)))
            }
            (Self::Device(_, kernels), _) => {
                for (kernel, spec) in kernels.iter().zip(&plan.kernels) {
                    let arguments = &kernel.description().arguments;
                    let written = |argument: &dynamlir_cuda::Argument| argument.written;
                    if arguments.len() != spec.arguments || arguments.iter().take(spec.arguments - spec.written).any(written) {
                        return Err(PlanError(format!("the code of {} has other arguments than the plan says", spec.name)));
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns the alignments that addresses inside inputs must have, beyond those of their elements. They are collected for all launches,
    /// so that nothing has been written when one is violated. Torch's allocations are aligned to more than any kernel requires.
    pub(crate) fn alignments(&self, program: &Program) -> Vec<Alignment> {
        let Self::Device(_, kernels) = self else { return Vec::new() };
        let mut found = Vec::new();
        for op in &program.ops {
            let Op::Launch { kernel, row } = *op else { continue };
            for (place, argument) in kernels[kernel].description().arguments.iter().enumerate() {
                let entry = row + place;
                let bound = program.input_binds.iter().find(|(_, (index, _))| *index == entry);
                let (Some(&(input, _)), true) = (bound, argument.alignment > 1) else { continue };
                found.push(Alignment { entry, input, kernel, bytes: argument.alignment.unsigned_abs() });
            }
        }
        found
    }
}

impl From<Vec<Kernel>> for Code {
    fn from(kernels: Vec<Kernel>) -> Self {
        Self::Host(kernels)
    }
}

/// The required divisor of an entry of the address table.
pub(crate) struct Alignment {
    pub entry: usize,
    pub input: usize,
    kernel: usize,
    bytes: u64,
}

impl Alignment {
    /// Returns the reason that an address is unsuitable, if it is.
    pub(crate) fn refuses(&self, address: *mut c_void, plan: &Plan) -> Option<Failure> {
        if (address as u64).is_multiple_of(self.bytes) {
            return None;
        }
        let (input, bytes, kernel) = (self.input, self.bytes, &plan.kernels[self.kernel].name);
        Some(Failure::misaligned(format!(
            "input {input} does not lie at a multiple of {bytes} bytes, which the code of {kernel} counts on"
        )))
    }
}

/// A run on a device, on one thread: the context is current, and torch's stream is known.
pub(crate) struct Session<'a> {
    entered: Entered<'a>,
    stream: Stream,
    kernels: &'a [DeviceKernel],
    /// True if the CPU continues with the same memory, so that each launch must be waited for.
    shared: bool,
}

impl<'a> Session<'a> {
    /// Begins a session; returns None for CPU kernels.
    pub(crate) fn begin(abi: &TorchAbi, plan: &Plan, code: &'a Code) -> Result<Option<Self>, Failure> {
        let Code::Device(context, kernels) = code else { return Ok(None) };
        let stream = match plan.device {
            Device::Cuda(number) => abi.current_stream(number)?,
            Device::Cpu => std::ptr::null_mut(),
        };
        let entered = context.enter().map_err(|error| Failure::of_device(&error))?;
        Ok(Some(Self { entered, stream: Stream(stream), kernels, shared: plan.device == Device::Cpu }))
    }

    /// Launches a kernel.
    ///
    /// # Safety
    /// The row holds the address of element 0 of each of the kernel's arguments, each with the layout it was compiled for, in
    /// memory that lives until the stream has passed the launch.
    pub(crate) unsafe fn launch(&self, kernel: usize, row: *const *mut c_void) -> Result<(), Failure> {
        // SAFETY: as the caller promises; `Code::fits` has compared the number of arguments, and the stream is of torch's
        // context on the device, which is the primary one.
        unsafe { self.kernels[kernel].launch(&self.entered, self.stream, row) }.map_err(|error| Failure::of_device(&error))?;
        if self.shared { self.wait() } else { Ok(()) }
    }
}

impl Session<'_> {
    /// Waits for all work submitted to the device.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        self.entered.synchronize().map_err(|error| Failure::of_device(&error))
    }
}

impl Failure {
    fn of_device(error: &Error) -> Self {
        match error {
            Error::Misaligned { .. } => Self::misaligned(error.to_string()),
            _ => Self::plain(error.to_string()),
        }
    }
}
