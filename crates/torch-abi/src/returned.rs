//! Objects of C++ classes that functions return by value.
//!
//! The caller passes the address for such an object: on x86-64 as a hidden first argument, on 64-bit Arm in a register that no argument
//! uses. Rust passes the address in the same way for a structure that does not fit into two registers.

use std::{ffi::c_void, mem::MaybeUninit};

/// An object that a function returned by value. The function writes only the object's own words: one for an `at::Tensor`, two for a
/// `std::shared_ptr`. The caller owns its reference.
#[repr(C)]
pub(crate) struct Returned {
    pub first: *mut c_void,
    second: MaybeUninit<*mut c_void>,
    /// Makes it too large for registers.
    _third: MaybeUninit<*mut c_void>,
}

impl Returned {
    /// Returns both words.
    ///
    /// # Safety
    /// The function must have written two words.
    pub(crate) unsafe fn pair(self) -> [*mut c_void; 2] {
        // SAFETY: as the caller says.
        [self.first, unsafe { self.second.assume_init() }]
    }
}
