//! The device of a module's tensors and the target of its kernels, as stated on the module.
//!
//! `module attributes {dynamo.device = "cuda:0", dynamo.target = #dynamo.target<…, chip = "sm_90">}`: with these a dumped stage can be
//! replayed anywhere. Without a device, tensors are in the CPU's memory. A chip alone means GPU kernels that access that memory, which is
//! how they are tested without a GPU. A module without a target is compiled for this machine.

use std::env;

use dynamlir_codegen::target::{host, runs_here};
use dynamlir_dialect::{
    ir::{Attr, AttrValue, Op, Target},
    ops,
};
use dynamlir_nvptx::ptx;
use dynamlir_runtime::Device;

use crate::{Error, gpu};

/// The device and target of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The device of the tensors.
    pub device: Device,
    /// The target of the kernels.
    pub target: Target,
}

impl Placement {
    /// This machine, for a graph on a device. For a GPU, the chip is the given one, else the one in `DYNAMLIR_CUDA_CHIP`, else one whose
    /// code the device accepts.
    pub fn here(device: Device, chip: Option<&str>) -> Result<Self, Error> {
        Self { device, target: host() }.with_chip(chip)
    }

    /// The placement stated by a module, completed by this machine; a given chip takes precedence.
    pub fn of(module: Op, chip: Option<&str>) -> Result<Self, Error> {
        Self { device: device(module)?, target: Target::written(module).unwrap_or_else(host) }.with_chip(chip)
    }

    fn with_chip(mut self, chip: Option<&str>) -> Result<Self, Error> {
        let named = || env::var("DYNAMLIR_CUDA_CHIP").ok().filter(|chip| !chip.is_empty());
        let known = chip.map(str::to_owned).or_else(|| self.target.chip.take());
        self.target.chip = match (known, self.device) {
            (Some(chip), _) => Some(chip),
            (None, Device::Cpu) => None,
            (None, Device::Cuda(_)) => Some(named().map_or_else(|| gpu::chip_for(self.device), Ok)?),
        };
        match &self.target.chip {
            Some(chip) if !ptx::is_supported(chip) => Err(gpu::no_code(chip)),
            _ => Ok(self),
        }
    }

    /// Writes the placement to a module. The CPU's memory is the default and not written.
    pub fn write(&self, module: Op) {
        if self.device != Device::Cpu {
            ops::DEVICE.set(module, &self.device.to_string());
        }
        ops::TARGET.set(module, &self.target);
    }

    /// A text that distinguishes kernels for this placement from kernels with the same text for another one.
    pub fn key(&self, module: Op) -> String {
        let target: Attr = Target::write(module.ctx(), &self.target);
        format!("{} {target}\n", self.device)
    }

    /// Checks that this process can run the kernels.
    ///
    /// # Errors
    /// The features that their target has and this machine lacks.
    pub fn runs_here(&self) -> Result<(), Error> {
        runs_here(&self.target).map_err(|what| {
            let Target { cpu, triple, .. } = &self.target;
            Error::Target(format!(
                "the kernels are made for {cpu} ({triple}), and cannot run here: {what}. Without `dynamo.target` on the module they are made \
                 for this machine"
            ))
        })
    }
}

/// The device of a module's tensors.
pub fn device(module: Op) -> Result<Device, Error> {
    let wrong = |error: dynamlir_torch_abi::TorchError| Error::Plan(format!("dynamo.device: {error}"));
    ops::DEVICE.of(module).map_or(Ok(Device::Cpu), |text| text.parse().map_err(wrong))
}
