//! Devices of tensors, and functions that only torch's CUDA library has.

use std::ffi::c_void;
use std::fmt;
use std::str::FromStr;

use crate::{Library, TensorRef, TorchAbi, TorchError};

/// The device of a tensor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The processor's own memory.
    #[default]
    Cpu,
    /// `cuda:<number>`, with a nonnegative number.
    Cuda(i8),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl FromStr for Device {
    type Err = TorchError;

    /// Parses `cpu`, or `cuda:` and a number. A device that depends on the current thread is refused.
    fn from_str(text: &str) -> Result<Self, TorchError> {
        let number = |text: &str| text.strip_prefix("cuda:")?.parse::<i8>().ok().filter(|&number| number >= 0);
        match text {
            "cpu" => Ok(Self::Cpu),
            _ => number(text).map(Self::Cuda).ok_or_else(|| TorchError::new(format!("{text} is not cpu, nor cuda: and a number"))),
        }
    }
}

/// Functions of torch's CUDA library.
#[derive(Clone, Copy)]
pub(crate) struct Cuda {
    /// The library with the ops' own C functions for CUDA.
    pub library: Library,
    /// Writes torch's current stream of this thread for a device: borrowed. Initialises CUDA if necessary.
    current_stream: unsafe extern "C" fn(i32, *mut *mut c_void) -> i32,
}

impl Cuda {
    fn find(lib_dir: Option<&std::path::Path>) -> Result<Self, TorchError> {
        let library = Library::loaded(lib_dir, "libtorch_cuda.so")?;
        let stream = library.symbol(c"aoti_torch_get_current_cuda_stream");
        let stream = stream.ok_or_else(|| TorchError::new("this torch does not tell its CUDA stream"))?;
        // SAFETY: torch's shim header declares it with this type.
        let current_stream = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(i32, *mut *mut c_void) -> i32>(stream) };
        Ok(Self { library, current_stream })
    }
}

impl TorchAbi {
    /// Returns torch's numbers for a device: type and index.
    pub(crate) fn numbers(&self, device: Device) -> (i32, i32) {
        match device {
            Device::Cpu => (self.device_cpu, 0),
            Device::Cuda(number) => (self.device_cuda, number.into()),
        }
    }

    /// Returns torch's CUDA library.
    pub(crate) fn cuda(&self) -> Result<&Cuda, TorchError> {
        self.cuda.get_or_init(|| Cuda::find(self.lib_dir())).as_ref().map_err(Clone::clone)
    }

    /// Returns the library with the ops' C functions for a device, and the prefix of their names.
    pub(crate) fn shims(&self, device: Device) -> Result<(Library, &'static str), TorchError> {
        match device {
            Device::Cpu => Ok((self.cpu, "aoti_torch_cpu_")),
            Device::Cuda(_) => Ok((self.cuda()?.library, "aoti_torch_cuda_")),
        }
    }

    /// Returns torch's current `cudaStream_t` of this thread for a CUDA device; torch keeps ownership.
    pub fn current_stream(&self, number: i8) -> Result<*mut c_void, TorchError> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        self.check(unsafe { (self.cuda()?.current_stream)(number.into(), &raw mut stream) })?;
        Ok(stream)
    }
}

impl TensorRef<'_> {
    /// Returns the tensor's device; `None` if it is neither the CPU nor a CUDA device.
    pub fn device(self) -> Result<Option<Device>, TorchError> {
        let abi = TorchAbi::get()?;
        let (mut kind, mut number) = (0, 0);
        // SAFETY: the handle is alive; each getter borrows it and writes one number.
        unsafe {
            abi.check((abi.f.device_type)(self.raw(), &raw mut kind))?;
            if kind == abi.device_cpu {
                return Ok(Some(Device::Cpu));
            }
            abi.check((abi.f.device_index)(self.raw(), &raw mut number))?;
        }
        Ok(i8::try_from(number).ok().filter(|&number| kind == abi.device_cuda && number >= 0).map(Device::Cuda))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_written_as_torch_writes_them() {
        for device in [Device::Cpu, Device::Cuda(0), Device::Cuda(3)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        for text in ["cuda", "cuda:-1", "cuda:200", "xpu:0", "", "CPU"] {
            assert!(text.parse::<Device>().is_err(), "{text}");
        }
    }
}
