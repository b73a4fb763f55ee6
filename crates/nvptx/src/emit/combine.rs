//! Combines the partial results of the threads into the row's reduction, which all its threads then have.
//!
//! Threads of a warp exchange by shuffles: after five exchanges with the lane whose number differs in one bit, each lane has everything.
//! Warps exchange through shared memory: each stores its result there, and every warp loads all and shuffles again. Threads that share a
//! column are in different warps: each stores its result in shared memory and reads all of them. A buffer is used by only one reduction, so
//! that one barrier per reduction is enough.

use dynamlir_dialect::{
    ir::{Type, Value},
    upstream::gpu,
};

use super::ops::Ops;
use crate::{
    kernel::{Kernel, Outcome},
    schedule::{Class, Schedule, WARP},
};

/// One reduction at the end of a phase.
pub(super) struct Combine<'a> {
    pub(super) ops: &'a Ops,
    pub(super) schedule: Schedule,
    pub(super) outcome: Outcome,
    /// The thread's number among those that share the row.
    pub(super) thread: Value,
}

/// The shared memory that a kernel's reductions need, one buffer each, in the order of [`Combine::all`].
pub(super) fn buffers(kernel: &Kernel, schedule: Schedule) -> Vec<Type> {
    let reduced = kernel.phases.iter().flat_map(|phase| &phase.results).filter_map(|outcome| match outcome {
        Outcome::Reduced { element, .. } => Some(element.ty()),
        _ => None,
    });
    reduced.filter_map(|element| shape(schedule).map(|shape| buffer(&shape, element))).collect()
}

fn shape(schedule: Schedule) -> Option<Vec<i64>> {
    match schedule.class {
        Class::Rows if schedule.threads > WARP => Some(vec![schedule.threads / WARP]),
        Class::Columns if schedule.threads > 1 => Some(vec![schedule.threads, WARP]),
        _ => None,
    }
}

/// Shared memory. Narrow numbers take one word each: there are few of them.
fn buffer(shape: &[i64], element: Type) -> Type {
    let element = if element.width() < 32 { Type::int(element.ctx(), 32) } else { element };
    gpu::shared_memory(shape, element)
}

/// `combiner(so_far, element)`.
pub(super) fn fold(ops: &Ops, outcome: Outcome, so_far: Value, element: Value) -> Value {
    let Outcome::Reduced { combiner, accumulator, .. } = outcome else { unreachable!("only reductions are folded") };
    let copy = combiner.clone_detached();
    for index in 0..2 {
        copy.set_operand(index, if combiner.operand(index) == accumulator { so_far } else { element });
    }
    ops.insert(copy);
    copy.result(0)
}

impl Combine<'_> {
    /// Combines the values of all threads of the row.
    pub(super) fn all(&self, value: Value, buffers: &mut impl Iterator<Item = Value>) -> Value {
        match self.schedule.class {
            Class::Points => value,
            Class::Rows => self.row(value, buffers),
            Class::Columns => self.column(value, buffers),
        }
    }

    fn row(&self, value: Value, buffers: &mut impl Iterator<Item = Value>) -> Value {
        let ops = self.ops;
        let value = self.warp(value, WARP);
        let warps = self.schedule.threads / WARP;
        if warps == 1 {
            return value;
        }
        let memory = buffers.next().expect("a buffer per reduction");
        let lane = ops.andi(self.thread, ops.index(WARP - 1));
        let warp = ops.shrui(self.thread, ops.index(WARP.trailing_zeros().into()));
        ops.when(Some(ops.equals(lane, 0)), |ops| store(ops, value, memory, &[warp]));
        ops.gpu_barrier();
        // Lane `i` loads the value of warp `i mod warps`: every group of as many lanes as there are warps has all values.
        let from = ops.andi(lane, ops.index(warps - 1));
        self.warp(load(ops, memory, &[from], value.ty()), warps)
    }

    fn column(&self, value: Value, buffers: &mut impl Iterator<Item = Value>) -> Value {
        let ops = self.ops;
        if self.schedule.threads == 1 {
            return value;
        }
        let memory = buffers.next().expect("a buffer per reduction");
        let column = ops.gpu_id(gpu::THREAD_ID, "x");
        store(ops, value, memory, &[self.thread, column]);
        ops.gpu_barrier();
        let one = |row: i64| load(ops, memory, &[ops.index(row), column], value.ty());
        (1..self.schedule.threads).fold(one(0), |so_far, row| fold(ops, self.outcome, so_far, one(row)))
    }

    /// Combines groups of `lanes` lanes.
    fn warp(&self, value: Value, lanes: i64) -> Value {
        let mut value = value;
        let mut distance = lanes / 2;
        while distance > 0 {
            let other = self.exchange(value, distance);
            value = fold(self.ops, self.outcome, value, other);
            distance /= 2;
        }
        value
    }

    /// The value of the lane at this distance. The hardware shuffles words of 32 bits.
    fn exchange(&self, value: Value, distance: i64) -> Value {
        let ops = self.ops;
        if value.ty().width() <= 32 {
            return from_word(ops, self.shuffle(to_word(ops, value), distance), value.ty());
        }
        let (long, word) = (ops.int_type(64), ops.int_type(32));
        let bits = if value.ty().is_float() { ops.bitcast(value, long) } else { value };
        let half = ops.int(long, 32);
        let high = ops.shrui(bits, half);
        let [low, high] = [bits, high].map(|part| ops.trunci(part, word));
        let [low, high] = [low, high].map(|part| ops.extui(self.shuffle(part, distance), long));
        let joined = ops.ori(low, ops.shli(high, half));
        if value.ty().is_float() { ops.bitcast(joined, value.ty()) } else { joined }
    }

    fn shuffle(&self, word: Value, distance: i64) -> Value {
        let ops = self.ops;
        let number = |value| ops.int(ops.int_type(32), value);
        ops.gpu_shuffle_xor(word, number(distance), number(WARP)).result(0)
    }
}

/// Converts a number of at most 32 bits to a word that the hardware shuffles.
fn to_word(ops: &Ops, value: Value) -> Value {
    let ty = value.ty();
    if ty.width() == 32 {
        return value;
    }
    let bits = if ty.is_float() { ops.bitcast(value, ops.int_type(ty.width())) } else { value };
    ops.extui(bits, ops.int_type(32))
}

/// Reverses [`to_word`].
fn from_word(ops: &Ops, word: Value, ty: Type) -> Value {
    if ty.width() == 32 {
        return word;
    }
    let bits = ops.trunci(word, ops.int_type(ty.width()));
    if ty.is_float() { ops.bitcast(bits, ty) } else { bits }
}

fn store(ops: &Ops, value: Value, memory: Value, indices: &[Value]) {
    let value = if value.ty().width() < 32 { to_word(ops, value) } else { value };
    ops.memref_store(value, memory, indices);
}

fn load(ops: &Ops, memory: Value, indices: &[Value], ty: Type) -> Value {
    let loaded = ops.memref_load(memory, indices);
    if ty.width() < 32 { from_word(ops, loaded, ty) } else { loaded }
}
