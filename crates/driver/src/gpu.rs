//! Kernels for a GPU: compiles code for a chip, and loads it into a device's context.

use std::{sync::Arc, time::Instant};

use dynamlir_cuda::{Context, Driver, Kernel, Module as Loaded};
use dynamlir_dialect::{
    Session,
    context::{module_op, module_text},
    ir::{Block, Op, Target},
    ops::{self, LaunchOp},
    program::{entries, kernels_module, write_format},
    upstream,
};
use dynamlir_import::Frame;
use dynamlir_nvptx::{libdevice, pipelines, ptx};
use dynamlir_reasons as reason;
use dynamlir_runtime::{Device, TorchAbi};

use crate::{Error, Report, placement::Placement, stages::Dumper};

/// The chip to compile for so that a device can run the code.
pub(crate) fn chip_for(device: Device) -> Result<String, Error> {
    let own = context(device)?.chip().map_err(|error| refused(&error))?;
    ptx::for_device(&own).map(str::to_owned).ok_or_else(|| no_code(&own))
}

pub(crate) fn no_code(chip: &str) -> Error {
    Error::Unsupported { reason: reason::GPU_CHIP, message: format!("no code is made for {chip}"), location: Vec::new() }
}

/// The context that a device's kernels are loaded into.
pub fn context(device: Device) -> Result<Arc<Context>, Error> {
    let number = if let Device::Cuda(number) = device { number.into() } else { 0 };
    Driver::get().and_then(|driver| Context::of(&driver, number)).map_err(|error| refused(&error))
}

/// Converts an error of the driver: CUDA is not available, or it rejects the code.
fn refused(error: &dynamlir_cuda::Error) -> Error {
    use dynamlir_cuda::Error as Cuda;
    let reason = if matches!(error, Cuda::NoDriver(_) | Cuda::Call { .. }) { reason::NO_CUDA } else { reason::GPU_KERNEL };
    Error::Unsupported { reason, message: error.to_string(), location: Vec::new() }
}

/// Compiles the named kernels of a module for a chip, and loads them into a context, which is requested only once the code exists.
pub fn generate(
    module: Op,
    names: &[String],
    placement: &Placement,
    dumper: &Dumper,
    report: &mut Report,
    check: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<Vec<(String, Kernel)>, Error> {
    pipelines::register_all();
    let chip = placement.target.chip.as_deref().unwrap_or(ptx::CHIP);
    // Works on a copy, in a session of its own: the graph's launches must not lose their kernels, which will look different.
    let session = Session::new().trusting();
    let mut kernels = session.read(&copied(module, names)?)?;
    let library = libdevice::find(TorchAbi::get().ok().and_then(TorchAbi::lib_dir));
    let options = [("libdevice", if library.is_some() { "found" } else { "none" })];
    for (name, label, passes) in [("gpu", "06-gpu", pipelines::TO_GPU), ("nvvm", "07-nvvm", pipelines::TO_NVVM)] {
        check()?;
        let start = Instant::now();
        let pipeline = format!("builtin.module({})", pipelines::with_options(passes, &options));
        session.run_timed(&mut kernels, &pipeline, &mut |pass, seconds| report.time_pass(pass, seconds))?;
        report.time(name, start.elapsed().as_secs_f64());
        dumper.write(&format!("{label}.mlir"), || module_text(&kernels) + "\n")?;
        refuse_what_is_left(module, module_op(&kernels))?;
    }
    check()?;
    let start = Instant::now();
    let device = module_op(&kernels).body().into_iter().flat_map(Block::ops).find(|op| op.is(upstream::gpu::MODULE));
    let Some(device) = device else { return Ok(Vec::new()) };
    let code = ptx::compile(device, chip, library.as_deref()).map_err(|error| {
        let message = format!("{error} (for the kernels {})\n{}", names.join(", "), session.take_diagnostics());
        Error::Unsupported { reason: reason::GPU_KERNEL, message: message.trim_end().to_owned(), location: Vec::new() }
    })?;
    report.time("ptx", start.elapsed().as_secs_f64());
    dumper.write("08-kernels.ptx", || code.text.clone())?;
    let start = Instant::now();
    let loaded = Loaded::load(&context(placement.device)?, &code.text, &code.launches).map_err(|error| refused(&error))?;
    report.time("link", start.elapsed().as_secs_f64());
    Ok(loaded.into_iter().map(|kernel| (kernel.description().name.clone(), kernel)).collect())
}

/// The bytecode of a module with copies of these kernels.
fn copied(module: Op, names: &[String]) -> Result<Vec<u8>, Error> {
    let session_module = kernels_module(module).ok_or_else(|| Error::Plan("there is no module @kernels".into()))?;
    let copy = session_module.clone_detached();
    write_format(copy);
    ops::TARGET.set(copy, &Target::of(module));
    for function in copy.body().map(Block::ops).unwrap_or_default() {
        // Functions that kernels call stay declared.
        if ops::KERNEL.is_on(function) && !function.symbol().is_some_and(|name| names.contains(&name)) {
            function.erase();
        }
    }
    let bytes = copy.bytecode();
    copy.erase();
    Ok(bytes)
}

/// A kernel that does not have a form for threads makes its whole graph fall back to eager; the error names its Python line.
fn refuse_what_is_left(module: Op, kernels: Op) -> Result<(), Error> {
    let mut left = kernels.body().map(Block::ops).unwrap_or_default().into_iter();
    let Some((name, why)) = left.find_map(|op| Some((op.symbol()?, ops::NO_GPU.of(op)?))) else { return Ok(()) };
    let mut launches = entries(module).into_iter().filter_map(Op::body).flat_map(Block::ops);
    let launch = launches.find(|op| LaunchOp::cast(*op).is_some_and(|launch| launch.kernel().name == name));
    let location = launch.map(|op| op.loc().frames().into_iter().map(Frame::from).collect());
    let message = format!("kernel {name} has no form for threads: {why}");
    Err(Error::Unsupported { reason: reason::GPU_KERNEL, message, location: location.unwrap_or_default() })
}
