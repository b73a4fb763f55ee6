//! Where a module's tensors live and what its kernels are made for, as the module says it.
//!
//! `module attributes {dynamo.device = "cuda:0", dynamo.target = #dynamo.target<…, chip = "sm_90">}`: so a dumped stage can be
//! replayed anywhere. Without a device tensors live in the CPU's memory; a chip alone means kernels of a GPU that reaches that
//! memory, which is how they are tested where there is none. What says no target is compiled for this machine.

use std::env;

use dynamlir_codegen::target::{host, runs_here};
use dynamlir_dialect::{
    ir::{Attr, AttrValue, Op, Target},
    ops,
};
use dynamlir_nvptx::ptx;
use dynamlir_runtime::Device;

use crate::{Error, gpu};

/// What a module is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Where tensors live.
    pub device: Device,
    /// What kernels are made for.
    pub target: Target,
}

impl Placement {
    /// This machine, for a graph on a device: of a GPU the chip that is given, else the one that `DYNAMLIR_CUDA_CHIP` names, else
    /// one whose code the device takes.
    pub fn here(device: Device, chip: Option<&str>) -> Result<Self, Error> {
        Self { device, target: host() }.with_chip(chip)
    }

    /// What a module says, and for the rest this machine; a chip that is given has the say.
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

    /// Says it on a module. The CPU's memory is not worth a word.
    pub fn write(&self, module: Op) {
        if self.device != Device::Cpu {
            ops::DEVICE.set(module, &self.device.to_string());
        }
        ops::TARGET.set(module, &self.target);
    }

    /// What tells kernels for this from those with the same text for something else.
    pub fn key(&self, module: Op) -> String {
        let target: Attr = Target::write(module.ctx(), &self.target);
        format!("{} {target}\n", self.device)
    }

    /// Whether this process can run the kernels.
    ///
    /// # Errors
    /// What the machine that they are for has and this one does not.
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

/// Where a module's tensors live.
pub fn device(module: Op) -> Result<Device, Error> {
    let wrong = |error: dynamlir_torch_abi::TorchError| Error::Plan(format!("dynamo.device: {error}"));
    ops::DEVICE.of(module).map_or(Ok(Device::Cpu), |text| text.parse().map_err(wrong))
}
