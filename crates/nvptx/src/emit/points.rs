//! Kernels without reductions: thread `i` computes the `i`-th vector of the innermost dimension.

use dynamlir_dialect::{ir::Value, upstream::gpu};
use std::collections::HashMap;

use super::{
    cell::{Cell, Shared},
    ops::Ops,
};
use crate::{kernel::Kernel, schedule::Schedule};

pub(super) fn write(kernel: &Kernel, schedule: Schedule, ops: Ops, arguments: &[Value]) {
    let shared = Shared { kernel, schedule, arguments, rows: HashMap::new() };
    let vectors = kernel.elements(true) / schedule.vector;
    let block = ops.scale(ops.gpu_id(gpu::BLOCK_ID, "x"), schedule.threads);
    let thread = ops.addi(block, ops.gpu_id(gpu::THREAD_ID, "x"));
    let exact = vectors % schedule.threads == 0;
    let inside = (!exact).then(|| ops.below(thread, vectors));
    ops.when(inside, |ops| {
        let mut sizes = kernel.domain.clone();
        if let Some(last) = sizes.last_mut() {
            *last /= schedule.vector;
        }
        let mut coordinates = ops.unravel(thread, &sizes);
        if let Some(last) = coordinates.last_mut() {
            *last = ops.scale(*last, schedule.vector);
        }
        let mut cell = Cell::new(coordinates, schedule.vector);
        store_points(&shared, ops, &mut cell);
    });
}

/// Computes all outputs of the kernel at some points before writing them: they may be written where inputs are read.
pub(super) fn store_points(shared: &Shared<'_>, ops: &Ops, cell: &mut Cell) {
    let points = || shared.kernel.stores.iter().filter(|store| is_point(shared.kernel, store.phase, store.result));
    let lanes = shared.schedule.vector;
    let computed: Vec<Vec<_>> =
        points().map(|store| (0..lanes).map(|lane| cell.result(shared, ops, store.phase, store.result, lane)).collect()).collect();
    for (store, values) in points().zip(computed) {
        cell.store(shared, ops, store.argument, &store.access, &values);
    }
}

/// Returns true if a result has a value for each point.
pub(super) fn is_point(kernel: &Kernel, phase: usize, result: usize) -> bool {
    matches!(kernel.phases[phase].results[result], crate::kernel::Outcome::Point(_))
}
