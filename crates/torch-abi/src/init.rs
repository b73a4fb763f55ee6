//! The single initialised view of libtorch.

use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use crate::device::Cuda;
use crate::dtype::DTypeCodes;
use crate::ffi::{C10, Functions, Handle};
use crate::state::GuardFunctions;
use crate::thread::ThreadFunctions;
use crate::{DType, Device, Library, TorchError};

static ABI: OnceLock<TorchAbi> = OnceLock::new();

/// A live Python tensor with its `_cdata`, from which the offset of the handle inside the object is learnt.
#[derive(Debug, Clone, Copy)]
pub struct PySample {
    /// The `PyObject*`, borrowed for the duration of the call.
    pub object: *const c_void,
    /// The value of `tensor._cdata`.
    pub cdata: usize,
}

/// The facts that only Python knows.
#[derive(Debug, Clone, Default)]
pub struct InitArgs {
    /// The folder of torch's shared objects; if absent, they are found by name.
    pub lib_dir: Option<PathBuf>,
    /// Numbers of the Autograd and Autocast dispatch keys of the CPU, from `torch._C.DispatchKey`.
    pub below_autograd: Vec<u16>,
    /// The same for CUDA; needed once code for CUDA is compiled.
    pub below_autograd_cuda: Vec<u16>,
    /// The number of `ADInplaceOrView`.
    pub inplace_or_view: Option<u16>,
    /// The dispatch keys that a thread includes and excludes by default, by autocast and by inference mode, as torch stores them.
    pub ordinary_keys: [u64; 2],
    /// Absent without Python.
    pub sample: Option<PySample>,
}

/// libtorch, found and checked. See the crate's documentation.
pub struct TorchAbi {
    pub(crate) f: Functions,
    pub(crate) c10: C10,
    pub(crate) codes: DTypeCodes,
    pub(crate) cpu: Library,
    pub(crate) device_cpu: i32,
    pub(crate) device_cuda: i32,
    /// Looked up once code for CUDA is compiled. An error gives the reason why it is missing.
    pub(crate) cuda: OnceLock<Result<Cuda, TorchError>>,
    pub(crate) strided: i32,
    pub(crate) version: u64,
    pub(crate) below_autograd: Vec<u16>,
    below_autograd_cuda: Vec<u16>,
    /// True if code for CUDA has been compiled.
    uses_cuda: AtomicBool,
    pub(crate) inplace_or_view: Option<u16>,
    pub(crate) handle_offset: Option<usize>,
    /// `THPVariable_Wrap(const at::TensorBase&)`: borrows the handle, returns a new Python reference.
    pub(crate) wrap: Option<unsafe extern "C" fn(Handle) -> *mut c_void>,
    /// `THPVariable_Wrap(at::TensorBase&&)`: like `wrap`, but moves the reference out of the handle.
    pub(crate) wrap_moved: Option<unsafe extern "C" fn(Handle) -> *mut c_void>,
    /// Absent if this torch exports them under other names.
    pub(crate) guards: Option<GuardFunctions>,
    pub(crate) thread: ThreadFunctions,
    lib_dir: Option<PathBuf>,
}

impl TorchAbi {
    /// Finds libtorch in this process. The first successful call is final; later ones return the same view.
    ///
    /// # Errors
    /// If torch is not loaded, lacks a required symbol, or has its handle at an unknown offset.
    pub fn init(args: &InitArgs) -> Result<&'static Self, TorchError> {
        if let Some(abi) = ABI.get() {
            return Ok(abi);
        }
        let abi = Self::find(args)?;
        Ok(ABI.get_or_init(|| abi))
    }

    /// Returns the initialised view.
    ///
    /// # Errors
    /// If [`TorchAbi::init`] has not succeeded yet.
    pub fn get() -> Result<&'static Self, TorchError> {
        ABI.get().ok_or_else(|| TorchError::new("libtorch's C ABI was not initialised"))
    }

    fn find(args: &InitArgs) -> Result<Self, TorchError> {
        if args.below_autograd.len() + args.below_autograd_cuda.len() > 62 {
            return Err(TorchError::new("more dispatch keys to exclude than a guard can hold"));
        }
        let dir = args.lib_dir.as_deref();
        let cpu = Library::loaded(dir, "libtorch_cpu.so")?;
        let f = Functions::load(cpu)?;
        if f.new_box.is_none() && f.operator_new.is_none() {
            return Err(TorchError::new("this torch has no way to make an optional argument"));
        }
        let c10_library = Library::loaded(dir, "libc10.so")?;
        let c10 = C10::load(c10_library)?;
        let handle_offset = match args.sample {
            None => None,
            Some(sample) => Some(crate::pyobject::find_handle(sample)?),
        };
        let python = Library::loaded(dir, "libtorch_python.so").ok();
        let wrap = |name: &CStr| {
            let found = python.as_ref()?.symbol(name)?;
            // SAFETY: the mangled name fixes the parameter, a reference; the result of THPVariable_Wrap is a PyObject*.
            Some(unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Handle) -> *mut c_void>(found) })
        };
        // SAFETY: getters without arguments.
        let (device_cpu, device_cuda) = unsafe { ((f.device_cpu)(), (f.device_cuda)()) };
        // SAFETY: as above.
        let (strided, version) = unsafe { ((f.layout_strided)(), (f.abi_version)()) };
        Ok(Self {
            codes: DTypeCodes::read(&f),
            f,
            guards: GuardFunctions::load(cpu, c10_library, args.ordinary_keys),
            thread: ThreadFunctions::load(cpu, c10_library),
            c10,
            cpu,
            device_cpu,
            device_cuda,
            cuda: OnceLock::new(),
            strided,
            version,
            below_autograd: args.below_autograd.clone(),
            below_autograd_cuda: args.below_autograd_cuda.clone(),
            uses_cuda: AtomicBool::new(false),
            inplace_or_view: args.inplace_or_view,
            handle_offset,
            wrap: wrap(c"_Z16THPVariable_WrapRKN2at10TensorBaseE"),
            wrap_moved: wrap(c"_Z16THPVariable_WrapON2at10TensorBaseE"),
            lib_dir: args.lib_dir.clone(),
        })
    }

    /// Returns the number of threads that torch would use here. The first call on a thread also initialises torch's pool for it.
    #[must_use]
    pub fn num_threads(&self) -> usize {
        let mut n = 1_u32;
        // SAFETY: writes one u32.
        let status = unsafe { (self.f.num_threads)(&raw mut n) };
        if status == 0 { (n as usize).max(1) } else { 1 }
    }

    /// Announces that ops on a device will be called.
    pub fn expect(&self, device: Device) {
        if device != Device::Cpu {
            self.uses_cuda.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the keys of CUDA, once it is in use.
    #[inline]
    pub(crate) fn below_autograd_cuda(&self) -> &[u16] {
        if self.uses_cuda.load(Ordering::Relaxed) { &self.below_autograd_cuda } else { &[] }
    }

    /// Returns torch's number for an element type.
    #[must_use]
    pub fn dtype_code(&self, dtype: DType) -> i32 {
        self.codes.code(dtype)
    }

    /// Returns the element type with a number; `None` for one that compiled code does not support.
    #[must_use]
    pub fn dtype_of(&self, code: i32) -> Option<DType> {
        self.codes.dtype(code)
    }

    /// Returns the address of a symbol of `libtorch_cpu.so` (vector math, for example).
    #[must_use]
    pub fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        self.cpu.symbol(name)
    }

    /// Returns the folder of torch's shared objects, if it was given.
    #[must_use]
    pub fn lib_dir(&self) -> Option<&Path> {
        self.lib_dir.as_deref()
    }

    /// Returns another shared object shipped with torch, such as its OpenMP library.
    ///
    /// # Errors
    /// If it is not loaded.
    pub fn sibling(&self, name: &str) -> Result<Library, TorchError> {
        Library::loaded(self.lib_dir.as_deref(), name)
    }

    /// Turns a status into a result with torch's message.
    #[inline]
    pub(crate) fn check(&self, status: i32) -> Result<(), TorchError> {
        if status == 0 { Ok(()) } else { Err(self.last_error()) }
    }

    #[cold]
    pub(crate) fn last_error(&self) -> TorchError {
        let Some(what) = self.f.exception_what else {
            return TorchError::new("torch reported an error (this version does not say which)");
        };
        // SAFETY: the text is borrowed until this thread's next failure; we copy it at once.
        let text = unsafe {
            let p = what();
            if p.is_null() { String::new() } else { CStr::from_ptr(p).to_string_lossy().into_owned() }
        };
        TorchError::new(text)
    }
}
