//! Runs transform-dialect schedules on payload IR.

use mlir_sys::{
    mlirModuleCreateParse, mlirModuleDestroy, mlirModuleGetOperation, mlirTransformApplyNamedSequence, mlirTransformOptionsCreate,
    mlirTransformOptionsDestroy,
};

use crate::ir::{Block, Builder, Op, str_ref};

/// Applies the first `transform.named_sequence` of the module `schedule` (text) to a copy of `payload`, and replaces `payload` by it.
///
/// Returns `None` if the schedule does not parse or did not apply; the diagnostics give the reason, and `payload` is unchanged.
pub fn apply(payload: Op, schedule: &str) -> Option<Op> {
    // No other code has a handle into the copy, so the schedule may erase anything in it.
    let copy = payload.clone_detached();
    Builder::before(payload).insert(copy);
    let applied = apply_in_place(copy, schedule);
    (if applied { payload } else { copy }).erase();
    applied.then_some(copy)
}

fn apply_in_place(payload: Op, schedule: &str) -> bool {
    // SAFETY: the context is alive because the payload is; the text is borrowed for the call.
    let module = unsafe { mlirModuleCreateParse(payload.ctx().raw(), str_ref(schedule)) };
    if module.ptr.is_null() {
        return false;
    }
    // SAFETY: the module was just parsed and is destroyed last; the options live between create and destroy.
    unsafe {
        let root = Op::from_raw(mlirModuleGetOperation(module));
        let sequence = root.body().into_iter().flat_map(Block::ops).find(|op| op.is("transform.named_sequence"));
        let applied = sequence.is_some_and(|sequence| {
            let options = mlirTransformOptionsCreate();
            let result = mlirTransformApplyNamedSequence(payload.raw(), sequence.raw(), root.raw(), options);
            mlirTransformOptionsDestroy(options);
            result.value != 0
        });
        mlirModuleDestroy(module);
        applied
    }
}
