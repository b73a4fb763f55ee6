//! Kernels with reductions: the threads of a block share rows or columns; their partial results are combined between phases.
//!
//! A row is cut into vectors, which are dealt out to its threads round robin: in chunk `c` thread `t` has vector `c * threads + t`, so that
//! neighbours read neighbouring memory. For columns `t` counts the rows that share a block of 32 columns, one per lane.
//!
//! Threads past the end of a row use the row's last vector instead and ignore it: all threads reach all barriers.

use std::collections::HashMap;

use dynamlir_dialect::{ir::Value, upstream::gpu};

use super::{
    cell::{Cell, Shared},
    combine::{Combine, fold},
    ops::Ops,
    points::{is_point, store_points},
};
use crate::{
    kernel::{Kernel, Outcome},
    schedule::{Class, Schedule},
};

/// The position of a thread.
struct Place {
    /// Indices of the kept dimensions.
    kept: Vec<(usize, Value)>,
    /// The condition that its row exists; `None` if all rows do.
    inside: Option<Value>,
    /// Its number among those that share the row.
    thread: Value,
}

/// One step of a thread along its row.
struct Step {
    cell: Cell,
    /// The condition that the points exist; `None` if all do.
    inside: Option<Value>,
}

pub(super) fn write(kernel: &Kernel, schedule: Schedule, ops: Ops, arguments: &[Value], buffers: &[Value]) {
    let place = place(kernel, schedule, &ops);
    let mut shared = Shared { kernel, schedule, arguments, rows: HashMap::new() };
    let mut row = Cell::new(coordinates(kernel, &place, &ops, None), 1);
    let mut steps: Vec<_> = if schedule.keep {
        (0..schedule.chunks).map(|chunk| step(kernel, schedule, &place, &ops, ops.index(chunk))).collect()
    } else {
        Vec::new()
    };
    let mut buffers = buffers.iter().copied();

    for (number, phase) in kernel.phases.iter().enumerate() {
        let reduced: Vec<_> = (0..phase.results.len()).filter(|&r| matches!(phase.results[r], Outcome::Reduced { .. })).collect();
        let start: Vec<_> = reduced.iter().map(|&r| start(&ops, phase.results[r])).collect();
        let taken = if reduced.is_empty() {
            Vec::new()
        } else if schedule.keep {
            steps.iter_mut().fold(start, |so_far, step| take(&shared, &ops, number, &reduced, step, &so_far))
        } else {
            ops.repeat(schedule.chunks, &start, |ops, chunk, so_far| {
                let mut step = step(kernel, schedule, &place, ops, chunk);
                take(&shared, ops, number, &reduced, &mut step, so_far)
            })
        };
        for (&result, value) in reduced.iter().zip(taken) {
            let combine = Combine { ops: &ops, schedule, outcome: phase.results[result], thread: place.thread };
            let whole = combine.all(value, &mut buffers);
            shared.rows.insert((number, result), whole);
        }
        for (result, outcome) in phase.results.iter().enumerate() {
            if let Outcome::Row(value) = *outcome {
                let computed = row.value(&shared, &ops, value, number, 0);
                shared.rows.insert((number, result), computed);
            }
        }
    }

    if kernel.stores.iter().any(|store| is_point(kernel, store.phase, store.result)) {
        if schedule.keep {
            for step in &mut steps {
                store_step(&shared, &ops, &place, step);
            }
        } else {
            ops.repeat(schedule.chunks, &[], |ops, chunk, _| {
                let mut step = step(kernel, schedule, &place, ops, chunk);
                store_step(&shared, ops, &place, &mut step);
                Vec::new()
            });
        }
    }
    store_rows(&shared, &ops, &place, &row);
}

fn store_step(shared: &Shared<'_>, ops: &Ops, place: &Place, step: &mut Step) {
    let inside = ops.both(step.inside, place.inside);
    ops.when(inside, |ops| store_points(shared, ops, &mut step.cell));
}

/// The first thread of a row writes the outputs with one value per row, after all threads have read inputs that may share that memory.
fn store_rows(shared: &Shared<'_>, ops: &Ops, place: &Place, row: &Cell) {
    let stores: Vec<_> = shared.kernel.stores.iter().filter(|store| !is_point(shared.kernel, store.phase, store.result)).collect();
    if stores.is_empty() {
        return;
    }
    ops.gpu_barrier();
    let first = ops.both(Some(ops.equals(place.thread, 0)), place.inside);
    ops.when(first, |ops| {
        for store in stores {
            row.store(shared, ops, store.argument, &store.access, &[shared.rows[&(store.phase, store.result)]]);
        }
    });
}

fn place(kernel: &Kernel, schedule: Schedule, ops: &Ops) -> Place {
    let (x, y) = (ops.gpu_id(gpu::THREAD_ID, "x"), ops.gpu_id(gpu::THREAD_ID, "y"));
    let (thread, beside) = if schedule.class == Class::Rows { (x, y) } else { (y, x) };
    let rows = kernel.elements(true);
    let first = ops.scale(ops.gpu_id(gpu::BLOCK_ID, "x"), schedule.across);
    let mut row = if schedule.across == 1 { first } else { ops.addi(first, beside) };
    let mut inside = None;
    if rows % schedule.across != 0 {
        inside = Some(ops.below(row, rows));
        row = ops.at_most(row, rows - 1);
    }
    let dims = kernel.dims(true);
    let sizes: Vec<_> = dims.iter().map(|&d| kernel.domain[d]).collect();
    Place { kept: dims.into_iter().zip(ops.unravel(row, &sizes)).collect(), inside, thread }
}

/// An index for each dimension: the thread's row, and a position in it.
fn coordinates(kernel: &Kernel, place: &Place, ops: &Ops, position: Option<Value>) -> Vec<Value> {
    let mut found = vec![None; kernel.domain.len()];
    for &(dim, index) in &place.kept {
        found[dim] = Some(index);
    }
    if let Some(position) = position {
        let dims = kernel.dims(false);
        let sizes: Vec<_> = dims.iter().map(|&d| kernel.domain[d]).collect();
        for (dim, index) in dims.into_iter().zip(ops.unravel(position, &sizes)) {
            found[dim] = Some(index);
        }
    }
    found.into_iter().map(|index| index.unwrap_or_else(|| ops.index(0))).collect()
}

fn step(kernel: &Kernel, schedule: Schedule, place: &Place, ops: &Ops, chunk: Value) -> Step {
    let row = kernel.elements(false);
    let vector = ops.addi(ops.scale(chunk, schedule.threads), place.thread);
    let mut position = ops.scale(vector, schedule.vector);
    let mut inside = None;
    if row != schedule.chunks * schedule.threads * schedule.vector {
        inside = Some(ops.below(position, row));
        position = ops.at_most(position, row - schedule.vector);
    }
    Step { cell: Cell::new(coordinates(kernel, place, ops, Some(position)), schedule.vector), inside }
}

/// Folds the points of a step into accumulators.
fn take(shared: &Shared<'_>, ops: &Ops, phase: usize, reduced: &[usize], step: &mut Step, so_far: &[Value]) -> Vec<Value> {
    let results = &shared.kernel.phases[phase].results;
    let one = |(&result, &before): (&usize, &Value)| {
        let Outcome::Reduced { element, .. } = results[result] else { unreachable!("only reductions are asked for") };
        let after = (0..shared.schedule.vector).fold(before, |so_far, lane| {
            let element = step.cell.value(shared, ops, element, phase, lane);
            fold(ops, results[result], so_far, element)
        });
        step.inside.map_or(after, |inside| ops.select(inside, after, before))
    };
    reduced.iter().zip(so_far).map(one).collect()
}

/// The constant that a reduction starts from.
fn start(ops: &Ops, outcome: Outcome) -> Value {
    let Outcome::Reduced { start, .. } = outcome else { unreachable!("only reductions are asked for") };
    let copy = start.def().expect("starts are constants").clone_detached();
    ops.insert(copy);
    copy.result(0)
}
