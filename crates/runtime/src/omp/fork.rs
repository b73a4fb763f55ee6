//! `__kmpc_fork_call`: opens a parallel region on a microtask with any number of arguments.
//!
//! The function is variadic in C. Rust cannot define such functions, and a C file would require a C compiler in every build for ten
//! instructions. So a naked function stores the argument registers and passes them on. Every variadic argument is one pointer.

use std::ffi::c_void;

use super::{TEAM, run_region};

/// The maximum number of arguments of a microtask beyond the two thread numbers. Code from MLIR has one: a pointer to a struct.
const MAX_ARGS: usize = 12;

/// The number of argument registers left after location, count and microtask: by the System V convention, and by Arm's procedure call
/// standard.
const REGISTER_ARGS: usize = if cfg!(target_arch = "aarch64") { 5 } else { 3 };

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the OpenMP fork shim is written for x86-64 and aarch64; another architecture needs its own `fork_call`");

/// `void __kmpc_fork_call(ident_t *location, int32_t count, kmpc_micro microtask, ...)`; everything is borrowed.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn fork_call() {
    core::arch::naked_asm!(
        // On entry: rdi location, esi count, rdx microtask, rcx r8 r9 the first three arguments, the others above the return address.
        ".cfi_startproc",
        "sub rsp, 40",
        ".cfi_def_cfa_offset 48",
        "mov [rsp], rcx",
        "mov [rsp + 8], r8",
        "mov [rsp + 16], r9",
        "mov edi, esi",
        "mov rsi, rdx",
        "mov rdx, rsp",
        "lea rcx, [rsp + 48]",
        "call {fork}",
        "add rsp, 40",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        fork = sym fork,
    )
}

/// See above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn fork_call() {
    core::arch::naked_asm!(
        // On entry: x0 location, w1 count, x2 microtask, x3 to x7 the first five arguments, the others at the stack pointer.
        ".cfi_startproc",
        "stp x29, x30, [sp, #-64]!",
        ".cfi_def_cfa_offset 64",
        ".cfi_offset x29, -64",
        ".cfi_offset x30, -56",
        "mov x29, sp",
        "stp x3, x4, [sp, #16]",
        "stp x5, x6, [sp, #32]",
        "str x7, [sp, #48]",
        "mov w0, w1",
        "mov x1, x2",
        "add x2, sp, #16",
        "add x3, sp, #64",
        "bl {fork}",
        "ldp x29, x30, [sp], #64",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_endproc",
        fork = sym fork,
    )
}

/// Runs the microtask with `count` pointers, taken from the saved registers and then from the caller's stack.
///
/// # Safety
/// The four values describe one call of `fork_call`.
unsafe extern "C" fn fork(count: i32, microtask: *const c_void, registers: *const usize, stack: *const usize) {
    let count = count.max(0) as usize;
    if count > MAX_ARGS {
        // The error cannot be reported from here, and running with wrong arguments would be worse. Code generation never does this.
        std::process::abort();
    }
    let mut args = [0_usize; MAX_ARGS];
    for (i, arg) in args.iter_mut().enumerate().take(count) {
        // SAFETY: the caller passed `count` arguments; the first are in registers, the rest on its stack.
        *arg = unsafe { if i < REGISTER_ARGS { registers.add(i).read() } else { stack.add(i - REGISTER_ARGS).read() } };
    }
    let microtask = microtask as usize;
    // SAFETY: the microtask is the address the compiler passed, and takes `count` pointers.
    run_region(&|| unsafe { call(microtask, count, &args) });
}

/// `void __kmpc_fork_call_if(ident_t *location, int32_t count, kmpc_micro microtask, int32_t condition, void *args)`.
pub(super) unsafe extern "C" fn fork_call_if(
    _location: *const c_void,
    count: i32,
    microtask: *const c_void,
    condition: i32,
    args: *mut c_void,
) {
    let (microtask, count) = (microtask as usize, usize::from(count > 0));
    let mut list = [0; MAX_ARGS];
    list[0] = args as usize;
    // SAFETY: as in `fork`; this entry passes at most one argument.
    let task = || unsafe { call(microtask, count, &list) };
    if condition != 0 {
        run_region(&task);
    } else {
        let outer = TEAM.get();
        TEAM.set(super::Team { thread: 0, threads: 1, depth: outer.depth + 1 });
        task();
        TEAM.set(outer);
    }
}

/// Calls a microtask: pointers to the thread's number and to its number in the bound team, then the arguments.
///
/// # Safety
/// `microtask` is a function of `2 + count` pointers.
unsafe fn call(microtask: usize, count: usize, a: &[usize; MAX_ARGS]) {
    let thread = TEAM.get().thread as i32;
    let ids = (&raw const thread, &raw const thread);
    macro_rules! with {
        ($($i:literal)*) => {{
            type Task = unsafe extern "C" fn(*const i32, *const i32 $(, with!(@ $i))*);
            // SAFETY: both conventions ignore surplus arguments, so one type serves several counts.
            unsafe { std::mem::transmute::<usize, Task>(microtask)(ids.0, ids.1 $(, a[$i])*) }
        }};
        (@ $i:literal) => { usize };
    }
    if count <= 4 {
        with!(0 1 2 3);
    } else {
        with!(0 1 2 3 4 5 6 7 8 9 10 11);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    type Fork = unsafe extern "C" fn(*const c_void, i32, *const c_void, ...);

    extern "C" fn one(thread: *const i32, _bound: *const i32, sum: *const AtomicUsize) {
        // SAFETY: the test passes live pointers.
        unsafe { (*sum).fetch_add(1 + *thread as usize, Ordering::Relaxed) };
    }

    extern "C" fn eight(
        _t: *const i32,
        _b: *const i32,
        sum: *const AtomicUsize,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
        g: usize,
    ) {
        // SAFETY: the test passes a live pointer.
        unsafe { (*sum).fetch_add(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g, Ordering::Relaxed) };
    }

    #[test]
    fn variadic_arguments_arrive_from_registers_and_stack() {
        // SAFETY: the entry has this C type.
        let fork = unsafe { std::mem::transmute::<*const c_void, Fork>(fork_call as *const c_void) };
        let sum = AtomicUsize::new(0);
        let at = &raw const sum;
        // SAFETY: the counts match the microtasks' parameters.
        unsafe {
            fork(std::ptr::null(), 1, one as *const c_void, at);
            assert_eq!(sum.swap(0, Ordering::Relaxed), 1);
            fork(std::ptr::null(), 8, eight as *const c_void, at, 1_usize, 2_usize, 3_usize, 4_usize, 5_usize, 6_usize, 7_usize);
        }
        assert_eq!(sum.load(Ordering::Relaxed), 140);
        assert_eq!(TEAM.get().depth, 0);
    }

    #[test]
    fn conditional_regions_run_either_way() {
        let sum = AtomicUsize::new(0);
        let at = (&raw const sum).cast_mut().cast();
        // SAFETY: one argument, as `one` takes.
        unsafe {
            fork_call_if(std::ptr::null(), 1, one as *const c_void, 0, at);
            fork_call_if(std::ptr::null(), 1, one as *const c_void, 1, at);
        }
        assert_eq!(sum.load(Ordering::Relaxed), 2);
    }
}
