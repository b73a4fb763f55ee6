//! The table of libtorch's C functions, with the ownership contract of each.
//!
//! Handles are addresses of `at::Tensor`. Every function that returns an `i32` status returns 0 for success. After a failure,
//! `exception_what` returns the message on the same thread.

use std::ffi::{CStr, c_char, c_void};

use crate::{Library, TorchError};

pub(crate) type Handle = *mut c_void;

/// Declares the table: missing `required` symbols make `load` fail; `optional` ones are `Option`s.
macro_rules! functions {
    (
        required { $($(#[$rdoc:meta])* $r:ident = $rsym:literal : $rty:ty;)* }
        optional { $($(#[$odoc:meta])* $o:ident = $osym:literal : $oty:ty;)* }
    ) => {
        pub(crate) struct Functions { $($(#[$rdoc])* pub $r: $rty,)* $($(#[$odoc])* pub $o: Option<$oty>,)* }

        impl Functions {
            pub(crate) fn load(cpu: Library) -> Result<Self, TorchError> {
                Ok(Self {
                    // SAFETY: each symbol is declared by torch's shim headers with exactly this type.
                    $($r: unsafe { std::mem::transmute::<*mut c_void, $rty>(required(cpu, $rsym)?) },)*
                    // SAFETY: as above; an absent symbol is None.
                    $($o: cpu.symbol($osym).map(|p| unsafe { std::mem::transmute::<*mut c_void, $oty>(p) }),)*
                })
            }
        }
    };
}

fn required(cpu: Library, symbol: &CStr) -> Result<*mut c_void, TorchError> {
    cpu.symbol(symbol).ok_or_else(|| TorchError::new(format!("this torch does not export {}", symbol.to_string_lossy())))
}

type Code = unsafe extern "C" fn() -> i32;

functions! {
    required {
        dtype_float64 = c"aoti_torch_dtype_float64": Code;
        dtype_float32 = c"aoti_torch_dtype_float32": Code;
        dtype_bfloat16 = c"aoti_torch_dtype_bfloat16": Code;
        dtype_float16 = c"aoti_torch_dtype_float16": Code;
        dtype_int64 = c"aoti_torch_dtype_int64": Code;
        dtype_int32 = c"aoti_torch_dtype_int32": Code;
        dtype_int16 = c"aoti_torch_dtype_int16": Code;
        dtype_int8 = c"aoti_torch_dtype_int8": Code;
        dtype_uint8 = c"aoti_torch_dtype_uint8": Code;
        dtype_bool = c"aoti_torch_dtype_bool": Code;
        dtype_complex64 = c"aoti_torch_dtype_complex64": Code;
        dtype_complex128 = c"aoti_torch_dtype_complex128": Code;
        device_cpu = c"aoti_torch_device_type_cpu": Code;
        device_cuda = c"aoti_torch_device_type_cuda": Code;
        layout_strided = c"aoti_torch_layout_strided": Code;
        format_contiguous = c"aoti_torch_memory_format_contiguous_format": Code;
        format_channels_last = c"aoti_torch_memory_format_channels_last": Code;
        format_channels_last_3d = c"aoti_torch_memory_format_channels_last_3d": Code;
        format_preserve = c"aoti_torch_memory_format_preserve_format": Code;
        abi_version = c"aoti_torch_abi_version": unsafe extern "C" fn() -> u64;

        /// Steals the handle.
        delete = c"aoti_torch_delete_tensor_object": unsafe extern "C" fn(Handle) -> i32;
        /// Borrows the handle; the out value is a new handle of the same tensor.
        new_handle = c"aoti_torch_new_tensor_handle": unsafe extern "C" fn(Handle, *mut Handle) -> i32;
        /// Borrows; the pointer belongs to the tensor.
        data_ptr = c"aoti_torch_get_data_ptr": unsafe extern "C" fn(Handle, *mut *mut c_void) -> i32;
        /// Borrows.
        dim = c"aoti_torch_get_dim": unsafe extern "C" fn(Handle, *mut i64) -> i32;
        /// Borrows.
        numel = c"aoti_torch_get_numel": unsafe extern "C" fn(Handle, *mut i64) -> i32;
        /// Borrows; the array belongs to the tensor and lives until its metadata changes.
        sizes = c"aoti_torch_get_sizes": unsafe extern "C" fn(Handle, *mut *mut i64) -> i32;
        /// Borrows; as `sizes`.
        strides = c"aoti_torch_get_strides": unsafe extern "C" fn(Handle, *mut *mut i64) -> i32;
        /// Borrows.
        dtype = c"aoti_torch_get_dtype": unsafe extern "C" fn(Handle, *mut i32) -> i32;
        /// Borrows.
        device_type = c"aoti_torch_get_device_type": unsafe extern "C" fn(Handle, *mut i32) -> i32;
        /// Borrows.
        device_index = c"aoti_torch_get_device_index": unsafe extern "C" fn(Handle, *mut i32) -> i32;
        /// Borrows.
        storage_offset = c"aoti_torch_get_storage_offset": unsafe extern "C" fn(Handle, *mut i64) -> i32;
        /// Borrows; bytes.
        storage_size = c"aoti_torch_get_storage_size": unsafe extern "C" fn(Handle, *mut i64) -> i32;
        /// Borrows.
        is_defined = c"aoti_torch_is_defined": unsafe extern "C" fn(Handle, *mut bool) -> i32;
        /// Borrows the arrays; the out value is new.
        empty_strided = c"aoti_torch_empty_strided":
            unsafe extern "C" fn(i64, *const i64, *const i64, i32, i32, i32, *mut Handle) -> i32;
        /// Borrows the arrays and the memory, which must outlive every use of the new handle.
        from_blob = c"aoti_torch_create_tensor_from_blob_v2":
            unsafe extern "C" fn(*mut c_void, i64, *const i64, *const i64, i64, i32, i32, i32, *mut Handle, i32, *const u8, i64) -> i32;
        /// Borrows; the new tensor shares the storage but is not a view and has its own version counter.
        reinterpret = c"aoti_torch__reinterpret_tensor":
            unsafe extern "C" fn(Handle, i64, *const i64, *const i64, i64, *mut Handle) -> i32;
        /// Borrows (destination, source, `non_blocking`).
        copy = c"aoti_torch_copy_": unsafe extern "C" fn(Handle, Handle, i32) -> i32;

        /// Borrows the names; steals the content of the stack and leaves new values in it.
        call_dispatcher = c"torch_call_dispatcher": unsafe extern "C" fn(*const c_char, *const c_char, *mut u64, u64) -> i32;
        /// The out value is new.
        new_list = c"torch_new_list_reserve_size": unsafe extern "C" fn(usize, *mut Handle) -> i32;
        /// Borrows the list, steals the value.
        list_push = c"torch_list_push_back": unsafe extern "C" fn(Handle, u64) -> i32;
        /// Borrows.
        list_size = c"torch_list_size": unsafe extern "C" fn(Handle, *mut usize) -> i32;
        /// Borrows the list; the element's reference passes to the next code that deletes the list.
        list_get = c"torch_list_get_item": unsafe extern "C" fn(Handle, usize, *mut u64) -> i32;
        /// Steals the list, not its elements.
        delete_list = c"torch_delete_list": unsafe extern "C" fn(Handle) -> i32;
        /// Borrows the bytes; the out value is new.
        new_string = c"torch_new_string_handle": unsafe extern "C" fn(*const c_char, usize, *mut Handle) -> i32;
        num_threads = c"torch_get_num_threads": unsafe extern "C" fn(*mut u32) -> i32;
    }
    optional {
        /// Borrows the arrays, whose length must be the tensor's number of dimensions; the new tensor is a view with the same offset.
        as_strided = c"aoti_torch_as_strided": unsafe extern "C" fn(Handle, *const i64, *const i64, *mut Handle) -> i32;
        /// The message of this thread's last failure; borrowed until the next one.
        exception_what = c"torch_exception_get_what_without_backtrace": unsafe extern "C" fn() -> *const c_char;
        /// The out value is new; the dispatcher steals it.
        new_box = c"torch_new_stable_ivalue": unsafe extern "C" fn(*mut *mut u64) -> i32;
        /// C++ `operator new`, for torch versions older than `new_box`, which delete boxes as C++ objects.
        operator_new = c"_Znwm": unsafe extern "C" fn(usize) -> *mut u64;
        /// Borrows the handle and the type; the out value is a new Python reference. Needs the GIL.
        to_pyobject = c"torch_tensor_to_pyobject": unsafe extern "C" fn(Handle, *mut c_void, *mut *mut c_void) -> i32;
        /// Borrows. Must not be called for an inference tensor outside inference mode: it would throw.
        bump_version = c"_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE": unsafe extern "C" fn(Handle);
    }
}

type SetExcluded = unsafe extern "C" fn(u16, bool);
type IsExcluded = unsafe extern "C" fn(u16) -> bool;

/// Functions of `libc10.so`, by their C++ names.
pub(crate) struct C10 {
    /// Sets whether a dispatch key is excluded on this thread.
    pub set_excluded: SetExcluded,
    /// Returns true if a dispatch key is excluded on this thread.
    pub is_excluded: IsExcluded,
}

impl C10 {
    pub(crate) fn load(c10: Library) -> Result<Self, TorchError> {
        let set = required(c10, c"_ZN3c104impl29tls_set_dispatch_key_excludedENS_11DispatchKeyEb")?;
        let is = required(c10, c"_ZN3c104impl28tls_is_dispatch_key_excludedENS_11DispatchKeyE")?;
        // SAFETY: DispatchKey is an enum over uint16_t, and both functions are plain free functions of these types.
        unsafe {
            Ok(Self {
                set_excluded: std::mem::transmute::<*mut c_void, SetExcluded>(set),
                is_excluded: std::mem::transmute::<*mut c_void, IsExcluded>(is),
            })
        }
    }
}
