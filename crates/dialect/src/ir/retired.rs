//! Operations that passes have erased.
//!
//! A handle is one word that any code may have copied, so an erased operation is not freed at once. It leaves its block and drops its
//! operands, and its memory stays until the pass that erased it is over or its context is destroyed. A handle used by mistake therefore
//! finds an operation without operands in no block, not memory reused for something else.

use std::{cell::RefCell, collections::HashMap};

use mlir_sys::{MlirOperation, mlirOperationDestroy, mlirOperationGetBlock, mlirOperationGetContext, mlirOperationRemoveFromParent};

use super::Ctx;
use crate::ffi;

thread_local! {
    /// Erased operations by context. An operation is only ever handled on the thread that its pass runs on.
    static RETIRED: RefCell<HashMap<usize, Vec<MlirOperation>>> = RefCell::default();
}

/// Takes an operation out of use; its results must not have uses.
pub(super) fn retire(op: MlirOperation) {
    // SAFETY: the handle is live (see the module's contract).
    let context = unsafe {
        mlirOperationRemoveFromParent(op);
        ffi::dynamoOperationDropReferences(op);
        mlirOperationGetContext(op)
    };
    RETIRED.with_borrow_mut(|retired| retired.entry(context.ptr as usize).or_default().push(op));
}

/// Frees the operations retired in a context on this thread. Handles on them are invalid from here on.
pub(crate) fn free(ctx: Ctx) {
    let mut ops = RETIRED.with_borrow_mut(|retired| retired.remove(&(ctx.raw().ptr as usize))).unwrap_or_default();
    ops.sort_unstable_by_key(|op| op.ptr as usize);
    ops.dedup_by_key(|op| op.ptr as usize);
    // An operation that has been put into a block again belongs to that block. All are checked before any is freed. SAFETY: retired
    // operations are freed only here.
    ops.retain(|op| unsafe { mlirOperationGetBlock(*op) }.ptr.is_null());
    for op in ops {
        // SAFETY: as above; the results have no uses, and the operation has no operands.
        unsafe { mlirOperationDestroy(op) };
    }
}
