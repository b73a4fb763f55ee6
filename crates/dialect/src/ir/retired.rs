//! Operations that passes have erased.
//!
//! A handle is one word that anybody may have copied, so an erased operation is not freed at once: it leaves its block, uses
//! nothing any more, and its memory stays until the pass that erased it is over, or its context is. So a handle on it that is
//! used by mistake finds an operation without operands in no block, and no memory that is somebody else's.

use std::{cell::RefCell, collections::HashMap};

use mlir_sys::{MlirOperation, mlirOperationDestroy, mlirOperationGetBlock, mlirOperationGetContext, mlirOperationRemoveFromParent};

use super::Ctx;
use crate::ffi;

thread_local! {
    /// By context. An operation is only ever handled on the thread that its pass runs on.
    static RETIRED: RefCell<HashMap<usize, Vec<MlirOperation>>> = RefCell::default();
}

/// Takes an operation out of use; its results must have no uses.
pub(super) fn retire(op: MlirOperation) {
    // SAFETY: the handle is live (see the module's contract).
    let context = unsafe {
        mlirOperationRemoveFromParent(op);
        ffi::dynamoOperationDropReferences(op);
        mlirOperationGetContext(op)
    };
    RETIRED.with_borrow_mut(|retired| retired.entry(context.ptr as usize).or_default().push(op));
}

/// Frees what was retired in a context on this thread. Handles on it are dead from here on.
pub(crate) fn free(ctx: Ctx) {
    let mut ops = RETIRED.with_borrow_mut(|retired| retired.remove(&(ctx.raw().ptr as usize))).unwrap_or_default();
    ops.sort_unstable_by_key(|op| op.ptr as usize);
    ops.dedup_by_key(|op| op.ptr as usize);
    // What somebody has put into a block again is that block's. All are asked before any is freed.
    // SAFETY: retired operations are freed here only.
    ops.retain(|op| unsafe { mlirOperationGetBlock(*op) }.ptr.is_null());
    for op in ops {
        // SAFETY: as above; nothing uses the results, and it uses nothing.
        unsafe { mlirOperationDestroy(op) };
    }
}
