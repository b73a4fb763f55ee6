//! The driver's C functions. Contracts are those of `cuda.h`; handles are numbers.
//!
//! # Safety
//! For all of them: pointers must be as `cuda.h` requires, and addresses passed to a launched kernel must be valid memory.
#![expect(clippy::missing_safety_doc, reason = "it is the same for all, and stands above")]
#![expect(missing_docs, reason = "the names are CUDA's, and its manual says what they do")]

use std::{
    cell::RefCell,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    sync::Arc,
};

use crate::{
    parse, run,
    state::{Function, log, number, state},
};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const INVALID_DEVICE: c_int = 101;
const INVALID_CONTEXT: c_int = 201;
const INVALID_PTX: c_int = 218;
const UNSUPPORTED_PTX: c_int = 222;
const NOT_FOUND: c_int = 500;
const LAUNCH_FAILED: c_int = 719;
/// The newest supported PTX version, and the context of the only device.
const PTX: u32 = 90;
const CONTEXT: usize = 0xC0;
/// Names and descriptions of the statuses that occur in tests.
const STATUSES: &[(c_int, &CStr, &CStr)] = &[
    (INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (INVALID_PTX, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
    (UNSUPPORTED_PTX, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", c"the provided PTX was compiled with an unsupported toolchain."),
    (NOT_FOUND, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch"),
    (LAUNCH_FAILED, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
];

thread_local! {
    /// The contexts of this thread, the current one last.
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn current() -> usize {
    CONTEXTS.with_borrow(|contexts| contexts.last().copied().unwrap_or(0))
}

/// Returns early if the environment requests that a call fail.
macro_rules! may_fail {
    ($name:literal) => {
        if let Some(status) = state().fails($name) {
            return status;
        }
    };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: c_uint) -> c_int {
    may_fail!("cuInit");
    if flags == 0 { SUCCESS } else { INVALID_VALUE }
}

/// # Safety
/// See the module.
unsafe fn describe(status: c_int, text: *mut *const c_char, which: fn(&(c_int, &'static CStr, &'static CStr)) -> &'static CStr) -> c_int {
    let found = STATUSES.iter().find(|(number, _, _)| *number == status);
    // SAFETY: the caller provides memory for a pointer.
    unsafe { text.write(found.map_or(std::ptr::null(), |entry| which(entry).as_ptr())) };
    if found.is_some() { SUCCESS } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(status: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { describe(status, text, |entry| entry.1) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(status: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { describe(status, text, |entry| entry.2) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { version.write(number("DYNAMLIR_CUDA_MOCK_VERSION", 12080)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    may_fail!("cuDeviceGet");
    // SAFETY: as the caller promises.
    unsafe { device.write(ordinal) };
    if ordinal == 0 { SUCCESS } else { INVALID_DEVICE }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) -> c_int {
    let chip = number("DYNAMLIR_CUDA_MOCK_CHIP", 90);
    let answer = match attribute {
        75 => chip / 10,
        76 => chip % 10,
        _ => return INVALID_VALUE,
    };
    // SAFETY: as the caller promises.
    unsafe { value.write(answer) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _device: c_int) -> c_int {
    may_fail!("cuDevicePrimaryCtxRetain");
    state().retained += 1;
    // SAFETY: as the caller promises.
    unsafe { context.write(CONTEXT as *mut c_void) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> c_int {
    let mut state = state();
    if state.retained == 0 {
        return INVALID_CONTEXT;
    }
    state.retained -= 1;
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { context.write(current() as *mut c_void) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPushCurrent_v2(context: *mut c_void) -> c_int {
    may_fail!("cuCtxPushCurrent");
    CONTEXTS.with_borrow_mut(|contexts| contexts.push(context as usize));
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut *mut c_void) -> c_int {
    let popped = CONTEXTS.with_borrow_mut(Vec::pop);
    // SAFETY: as the caller promises.
    unsafe { context.write(popped.unwrap_or(0) as *mut c_void) };
    if popped.is_some() { SUCCESS } else { INVALID_CONTEXT }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSynchronize() -> c_int {
    may_fail!("cuCtxSynchronize");
    if current() == CONTEXT { SUCCESS } else { INVALID_CONTEXT }
}

/// Writes an error message into the buffer that the options name.
///
/// # Safety
/// See the module.
unsafe fn explain(message: &str, count: c_uint, options: *const c_int, values: *mut *mut c_void) {
    // SAFETY: there are as many options and values as are counted; the buffer has the stated size.
    unsafe {
        let value = |option: c_int| (0..count as usize).find(|&i| options.add(i).read() == option).map(|i| values.add(i).read());
        if let (Some(buffer), Some(room)) = (value(5), value(6)) {
            let length = message.len().min((room as usize).saturating_sub(1));
            std::ptr::copy_nonoverlapping(message.as_ptr(), buffer.cast(), length);
            buffer.cast::<u8>().add(length).write(0);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut *mut c_void,
    image: *const c_void,
    count: c_uint,
    options: *const c_int,
    values: *mut *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises, the text is terminated.
    let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy().into_owned();
    // SAFETY: as the caller promises.
    let refuse = |status: c_int, message: &str| unsafe {
        explain(message, count, options, values);
        status
    };
    if let Some(status) = state().fails("cuModuleLoadDataEx") {
        return refuse(status, "ptxas fatal: the tests want this to fail");
    }
    if current() != CONTEXT {
        return INVALID_CONTEXT;
    }
    let parsed = match parse::module(&text) {
        Ok(parsed) => parsed,
        Err(message) => return refuse(INVALID_PTX, &format!("ptxas error: {message}")),
    };
    let device = number("DYNAMLIR_CUDA_MOCK_CHIP", 90);
    if parsed.version > PTX {
        return refuse(UNSUPPORTED_PTX, &format!("ptxas fatal: Unsupported .version {}", parsed.version));
    }
    if i64::from(parsed.chip) > i64::from(device) {
        return refuse(INVALID_PTX, &format!("ptxas fatal: code for sm_{} on a device of sm_{device}", parsed.chip));
    }
    let names: Vec<_> = parsed.entries.iter().map(|entry| entry.name.as_str()).collect();
    log(&format!("load sm_{} {}", parsed.chip, names.join(" ")));
    let mut state = state();
    let handle = state.handle();
    state.modules.insert(handle, Arc::new(parsed));
    // SAFETY: as the caller promises.
    unsafe { module.write(handle as *mut c_void) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: *mut c_void) -> c_int {
    let mut state = state();
    if current() != CONTEXT || state.modules.remove(&(module as usize)).is_none() {
        return INVALID_CONTEXT;
    }
    state.functions.retain(|_, function| function.module != module as usize);
    log("unload");
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> c_int {
    may_fail!("cuModuleGetFunction");
    // SAFETY: as the caller promises, the name is terminated.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let mut state = state();
    let found = state.modules.get(&(module as usize)).and_then(|module| module.entries.iter().find(|entry| entry.name == name).cloned());
    let Some(entry) = found else { return NOT_FOUND };
    let handle = state.handle();
    state.functions.insert(handle, Function { module: module as usize, entry: Arc::new(entry), shared: 48 << 10 });
    // SAFETY: as the caller promises.
    unsafe { function.write(handle as *mut c_void) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetAttribute(function: *mut c_void, attribute: c_int, value: c_int) -> c_int {
    may_fail!("cuFuncSetAttribute");
    let mut state = state();
    match (state.functions.get_mut(&(function as usize)), attribute, u32::try_from(value)) {
        (Some(function), 8, Ok(bytes)) if bytes <= 227 << 10 => {
            function.shared = bytes;
            SUCCESS
        }
        _ => INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: *mut c_void,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    may_fail!("cuLaunchKernel");
    if current() != CONTEXT {
        return INVALID_CONTEXT;
    }
    let Some(known) = state().functions.get(&(function as usize)).cloned() else { return INVALID_VALUE };
    let [grid, block] = [[grid_x, grid_y, grid_z], [block_x, block_y, block_z]].map(|sizes| sizes.map(|size| size as usize));
    if shared > known.shared || !extra.is_null() || grid.contains(&0) {
        return INVALID_VALUE;
    }
    // SAFETY: the caller promises a pointer to eight bytes for each parameter.
    let values: Vec<u64> = (0..known.entry.parameters).map(|i| unsafe { parameters.add(i).read().cast::<u64>().read() }).collect();
    log(&format!("launch {} grid={grid:?} block={block:?} shared={shared} stream={stream:?}", known.entry.name));
    match run::launch(&known.entry, grid, block, &values) {
        Ok(()) => SUCCESS,
        Err(message) => {
            log(&format!("failed {message}"));
            eprintln!("cuda-mock: {message}");
            LAUNCH_FAILED
        }
    }
}
