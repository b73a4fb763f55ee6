//! The state of torch that changes the meaning of a program without being among its values: modes of the thread, settings of the process.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::returned::Returned;
use crate::{Library, TorchAbi, TorchError};

type Flag = unsafe extern "C" fn() -> bool;
type Count = unsafe extern "C" fn() -> i64;

/// Functions that guards call, by their C++ names. All take and return plain numbers.
pub(crate) struct GuardFunctions {
    /// `c10::TensorImpl::requires_grad() const`
    pub requires_grad: unsafe extern "C" fn(*const c_void) -> bool,
    grad_mode: Flag,
    inference_mode: Flag,
    default_dtype: unsafe extern "C" fn() -> i8,
    dispatch_modes: Count,
    function_modes: Count,
    /// An enum over `int8_t`.
    function_disabled: unsafe extern "C" fn() -> i8,
    /// Borrows nothing: the context is a singleton.
    context: unsafe extern "C" fn() -> *const c_void,
    deterministic: [unsafe extern "C" fn(*const c_void) -> bool; 3],
    autocast_enabled: unsafe extern "C" fn(i8) -> bool,
    autocast_dtype: unsafe extern "C" fn(i8) -> i8,
    dual_levels: DualLevels,
    /// See [`crate::InitArgs::ordinary_keys`].
    ordinary_keys: [u64; 2],
    /// `thread_local PODLocalDispatchKeySet`: its address differs between threads.
    c10: Library,
}

const LOCAL_KEYS: &CStr = c"_ZN3c104impl26raw_local_dispatch_key_setE";

impl GuardFunctions {
    pub(crate) fn load(cpu: Library, c10: Library, ordinary_keys: [u64; 2]) -> Option<Self> {
        // SAFETY: each name fixes class, function and parameters; the results are what torch's headers declare.
        unsafe {
            use std::mem::transmute as cast;
            c10.symbol(LOCAL_KEYS)?;
            Some(Self {
                requires_grad: cast::<*mut c_void, unsafe extern "C" fn(*const c_void) -> bool>(
                    c10.symbol(c"_ZNK3c1010TensorImpl13requires_gradEv")?,
                ),
                grad_mode: cast::<*mut c_void, Flag>(c10.symbol(c"_ZN3c108GradMode10is_enabledEv")?),
                inference_mode: cast::<*mut c_void, Flag>(c10.symbol(c"_ZN3c1013InferenceMode10is_enabledEv")?),
                default_dtype: cast::<*mut c_void, unsafe extern "C" fn() -> i8>(
                    c10.symbol(c"_ZN3c1031get_default_dtype_as_scalartypeEv")?,
                ),
                dispatch_modes: cast::<*mut c_void, Count>(c10.symbol(c"_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv")?),
                function_modes: cast::<*mut c_void, Count>(cpu.symbol(c"_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv")?),
                function_disabled: cast::<*mut c_void, unsafe extern "C" fn() -> i8>(
                    cpu.symbol(c"_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv")?,
                ),
                context: cast::<*mut c_void, unsafe extern "C" fn() -> *const c_void>(cpu.symbol(c"_ZN2at13globalContextEv")?),
                deterministic: [
                    c"_ZNK2at7Context23deterministicAlgorithmsEv",
                    c"_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv",
                    c"_ZNK2at7Context36deterministicFillUninitializedMemoryEv",
                ]
                .map(|name| cpu.symbol(name).map(|p| cast::<*mut c_void, unsafe extern "C" fn(*const c_void) -> bool>(p)))
                .into_iter()
                .collect::<Option<Vec<_>>>()?
                .try_into()
                .ok()?,
                autocast_enabled: cast::<*mut c_void, unsafe extern "C" fn(i8) -> bool>(
                    cpu.symbol(c"_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE")?,
                ),
                autocast_dtype: cast::<*mut c_void, unsafe extern "C" fn(i8) -> i8>(
                    cpu.symbol(c"_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE")?,
                ),
                dual_levels: DualLevels::load(cpu)?,
                ordinary_keys,
                c10,
            })
        }
    }

    /// Returns the thread's included and excluded dispatch keys, as torch stores them.
    fn local_keys(&self) -> [u64; 2] {
        thread_local! {
            static ADDRESS: Cell<*const [u64; 2]> = const { Cell::new(std::ptr::null()) };
        }
        let mut address = ADDRESS.get();
        if address.is_null() {
            // dlsym returns this thread's instance of a thread-local variable; `load` has checked that it exists.
            address = self.c10.symbol(LOCAL_KEYS).map_or(std::ptr::null(), |p| p.cast_const().cast());
            ADDRESS.set(address);
        }
        if address.is_null() {
            return [0; 2];
        }
        // SAFETY: two words that live as long as this thread, which is the only one to write them.
        let keys = unsafe { address.read() };
        // Removing a key leaves its backend bit behind, which has no meaning alone.
        keys.map(|set| set & !BACKENDS)
    }
}

/// The way to query for an open level of forward-mode gradients in any thread: torch has one list of them.
enum DualLevels {
    /// `static bool torch::autograd::ForwardADLevel::has_any_level()`
    Any(Flag),
    /// `static std::shared_ptr<ForwardADLevel> torch::autograd::ForwardADLevel::try_get_by_idx(uint64_t)`, for torch versions without the
    /// other function: returns the pointer and its count.
    First(unsafe extern "C" fn(u64) -> Returned),
}

impl DualLevels {
    fn load(cpu: Library) -> Option<Self> {
        // SAFETY: as in `GuardFunctions::load`.
        unsafe {
            use std::mem::transmute as cast;
            if let Some(any) = cpu.symbol(c"_ZN5torch8autograd14ForwardADLevel13has_any_levelEv") {
                return Some(Self::Any(cast::<*mut c_void, Flag>(any)));
            }
            let first = cpu.symbol(c"_ZN5torch8autograd14ForwardADLevel14try_get_by_idxEm")?;
            Some(Self::First(cast::<*mut c_void, unsafe extern "C" fn(u64) -> Returned>(first)))
        }
    }

    fn any(&self) -> bool {
        match self {
            // SAFETY: a plain getter.
            Self::Any(any) => unsafe { any() },
            Self::First(first) => {
                // SAFETY: the function returns the two words of a `shared_ptr`. The second is null or points to libstdc++'s counts: the
                // number of owners follows the vtable, and the list's own copy keeps it above zero.
                let shared = unsafe {
                    let shared = first(0).pair();
                    if let Some(count) = shared[1].cast::<AtomicI32>().wrapping_add(2).as_ref().filter(|_| !shared[1].is_null()) {
                        count.fetch_sub(1, Ordering::AcqRel);
                    }
                    shared
                };
                !shared[0].is_null()
            }
        }
    }
}

/// The bits of a set of dispatch keys that name backends (`c10::BackendComponent`); functionalities follow.
const BACKENDS: u64 = (1 << 15) - 1;

/// The device types that autocast supports, with torch's numbers.
const AUTOCAST_DEVICES: [(i8, &str); 8] =
    [(0, "cpu"), (1, "cuda"), (9, "xla"), (12, "xpu"), (13, "mps"), (15, "hpu"), (18, "ipu"), (20, "privateuseone")];

/// Autocast is off everywhere.
const NO_AUTOCAST: [i8; AUTOCAST_DEVICES.len()] = [-1; AUTOCAST_DEVICES.len()];

/// Mechanisms beyond the kernels that take part in a thread's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// Dispatch modes.
    Modes,
    /// Levels of forward-mode gradients.
    ForwardAd,
    /// Dispatch keys that neither autocast nor inference mode sets.
    Keys,
}

/// A snapshot of the state. Equal snapshots mean that eager execution would do the same with the same values.
///
/// The number of threads is not part of it: it changes the speed, not the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    local_keys: [u64; 2],
    grad_mode: bool,
    inference_mode: bool,
    default_dtype: i8,
    dispatch_modes: i64,
    function_modes: i64,
    function_disabled: i8,
    /// True if tensors may have forward-mode tangents.
    dual_levels: bool,
    deterministic: [bool; 3],
    /// The dtype if autocast is on, by [`AUTOCAST_DEVICES`]; -1 if it is off.
    autocast: [i8; AUTOCAST_DEVICES.len()],
}

impl State {
    /// Returns the current state of this thread.
    ///
    /// # Errors
    /// If this torch lacks one of the required functions.
    pub fn now() -> Result<Self, TorchError> {
        let abi = TorchAbi::get()?;
        let f = abi.guards.as_ref().ok_or_else(|| TorchError::new("this torch does not export what its global state is read by"))?;
        let mut state = Self::without_autocast(f);
        for (slot, (device, _)) in state.autocast.iter_mut().zip(AUTOCAST_DEVICES) {
            // SAFETY: plain functions of a device type torch knows.
            unsafe {
                if (f.autocast_enabled)(device) {
                    *slot = (f.autocast_dtype)(device);
                }
            }
        }
        Ok(state)
    }

    fn without_autocast(f: &GuardFunctions) -> Self {
        // SAFETY: plain getters of this thread's and the process's state; the context is a live singleton.
        unsafe {
            let context = (f.context)();
            Self {
                local_keys: f.local_keys(),
                grad_mode: (f.grad_mode)(),
                inference_mode: (f.inference_mode)(),
                default_dtype: (f.default_dtype)(),
                dispatch_modes: (f.dispatch_modes)(),
                function_modes: (f.function_modes)(),
                function_disabled: (f.function_disabled)(),
                dual_levels: f.dual_levels.any(),
                deterministic: f.deterministic.map(|get| get(context)),
                autocast: NO_AUTOCAST,
            }
        }
    }

    /// Returns true if the current state equals this one. Called at each call of a compiled function.
    #[must_use]
    pub fn holds(&self) -> bool {
        let Some(f) = TorchAbi::get().ok().and_then(|abi| abi.guards.as_ref()) else { return false };
        // Autocast for a device is a bit of the thread's dispatch keys. So if it was off everywhere, equal keys show that it still is.
        //
        // SAFETY: as in `without_autocast`.
        unsafe {
            f.local_keys() == self.local_keys
                && (f.grad_mode)() == self.grad_mode
                && (f.inference_mode)() == self.inference_mode
                && (f.default_dtype)() == self.default_dtype
                && (f.function_modes)() == self.function_modes
                && (f.function_disabled)() == self.function_disabled
                && (f.dispatch_modes)() == self.dispatch_modes
                && f.dual_levels.any() == self.dual_levels
                && {
                    let context = (f.context)();
                    f.deterministic.iter().zip(self.deterministic).all(|(get, expected)| get(context) == expected)
                }
                && (self.autocast == NO_AUTOCAST || Self::now().is_ok_and(|now| now.autocast == self.autocast))
        }
    }

    /// Returns a mechanism that takes part in this thread's operations, which compiled code cannot handle. `None` if there is none.
    #[must_use]
    pub fn disturbance() -> Option<Disturbance> {
        let f = TorchAbi::get().ok()?.guards.as_ref()?;
        let [included, excluded] = f.local_keys();
        // SAFETY: a plain getter of this thread's state.
        if unsafe { (f.dispatch_modes)() } != 0 {
            Some(Disturbance::Modes)
        } else if f.dual_levels.any() {
            Some(Disturbance::ForwardAd)
        } else if included & !f.ordinary_keys[0] | excluded & !f.ordinary_keys[1] != 0 {
            Some(Disturbance::Keys)
        } else {
            None
        }
    }

    /// Returns true if a level of forward-mode gradients is open, in any thread: only then may tensors have tangents.
    #[must_use]
    pub fn has_dual_levels() -> bool {
        TorchAbi::get().ok().and_then(|abi| abi.guards.as_ref()).is_some_and(|f| f.dual_levels.any())
    }

    /// Returns the numbers of active torch-function and dispatch modes.
    #[must_use]
    pub fn modes(&self) -> (i64, i64) {
        (self.function_modes, self.dispatch_modes)
    }

    /// Returns its parts as name and value, for printing and for comparing two states as text.
    #[must_use]
    pub fn parts(&self) -> Vec<(&'static str, String)> {
        let python = |flag: bool| if flag { "True" } else { "False" }.to_owned();
        let [algorithms, warn_only, fill] = self.deterministic;
        let autocast: Vec<_> = AUTOCAST_DEVICES.iter().zip(self.autocast).filter(|(_, dtype)| *dtype >= 0).collect();
        let autocast = autocast.iter().map(|((_, name), dtype)| format!("'{name}': {dtype}")).collect::<Vec<_>>().join(", ");
        vec![
            ("grad mode", python(self.grad_mode)),
            ("inference mode", python(self.inference_mode)),
            ("autocast", format!("{{{autocast}}}")),
            ("default dtype", self.default_dtype.to_string()),
            ("deterministic algorithms", python(algorithms)),
            ("deterministic warnings only", python(warn_only)),
            ("deterministic fill of memory", python(fill)),
            ("torch function modes", self.function_modes.to_string()),
            ("torch function disabled", self.function_disabled.to_string()),
            ("dispatch modes", self.dispatch_modes.to_string()),
            ("forward-mode gradients", python(self.dual_levels)),
            ("dispatch keys of the thread", format!("{:#x}, {:#x}", self.local_keys[0], self.local_keys[1])),
        ]
    }
}
