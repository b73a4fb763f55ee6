//! The values of a few neighbouring points: loads, and the phases' bodies element by element.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Op, Type, Value},
    upstream::{linalg, tensor},
};

use super::ops::Ops;
use crate::{
    kernel::{Input, Kernel, Outcome},
    schedule::{Schedule, along, bytes},
};

/// The values shared by all points of a thread.
pub(super) struct Shared<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) schedule: Schedule,
    /// The kernel's arguments in the GPU function.
    pub(super) arguments: &'a [Value],
    /// The values known for the whole row: results of phases, by phase and result.
    pub(super) rows: HashMap<(usize, usize), Value>,
}

/// `lanes` neighbouring points along the innermost dimension, and the values computed for them. It must only be used to build code at
/// places dominated by the place where it was created.
pub(super) struct Cell {
    /// The first point's index in each dimension of the domain.
    coordinates: Vec<Value>,
    lanes: i64,
    values: HashMap<(Value, i64), Value>,
    loads: HashMap<(usize, Vec<Option<usize>>), Vec<Value>>,
}

/// The number of elements of an argument that are moved by one instruction.
pub(super) fn moved_together(kernel: &Kernel, schedule: Schedule, argument: usize, access: &[Option<usize>]) -> i64 {
    let Some(innermost) = kernel.domain.len().checked_sub(1) else { return 1 };
    let fits = |aligned: i64| aligned >= schedule.vector && schedule.vector * bytes(kernel, argument) <= 16;
    along(kernel, argument, access, innermost).filter(|&aligned| fits(aligned)).map_or(1, |_| schedule.vector)
}

impl Cell {
    pub(super) fn new(coordinates: Vec<Value>, lanes: i64) -> Self {
        Self { coordinates, lanes, values: HashMap::new(), loads: HashMap::new() }
    }

    /// The result of a phase at one of the points.
    pub(super) fn result(&mut self, shared: &Shared<'_>, ops: &Ops, phase: usize, result: usize, lane: i64) -> Value {
        match shared.kernel.phases[phase].results[result] {
            Outcome::Point(value) => self.value(shared, ops, value, phase, lane),
            Outcome::Row(_) | Outcome::Reduced { .. } => shared.rows[&(phase, result)],
        }
    }

    /// The value of a phase's body at one of the points.
    pub(super) fn value(&mut self, shared: &Shared<'_>, ops: &Ops, value: Value, phase: usize, lane: i64) -> Value {
        if let Some(&known) = self.values.get(&(value, lane)) {
            return known;
        }
        let computed = match shared.kernel.inputs.get(&value) {
            Some(Input::Memory { argument, access }) => self.load(shared, ops, *argument, access, lane),
            Some(&Input::Result { phase, result }) => self.result(shared, ops, phase, result, lane),
            Some(&Input::Scalar(scalar)) => self.value(shared, ops, scalar, phase, lane),
            None => {
                let op = value.def().expect("a body uses its arguments and what it defines");
                self.operation(shared, ops, op, phase, lane);
                self.values[&(value, lane)]
            }
        };
        self.values.insert((value, lane), computed);
        computed
    }

    /// Writes an operation of a body at one of the points, its operands first.
    fn operation(&mut self, shared: &Shared<'_>, ops: &Ops, op: Op, phase: usize, lane: i64) {
        if op.is(linalg::INDEX) {
            let dim = shared.kernel.phases[phase].dims[op.required::<i64>("dim") as usize];
            let index = self.coordinate(ops, dim, lane);
            self.values.insert((op.result(0), lane), index);
            return;
        }
        let operands: Vec<_> = op
            .operands()
            .into_iter()
            .map(|operand| match shared.kernel.gathered.get(&operand) {
                Some(&argument) => shared.arguments[argument],
                None => self.value(shared, ops, operand, phase, lane),
            })
            .collect();
        if op.is(tensor::EXTRACT) {
            self.values.insert((op.result(0), lane), ops.memref_load(operands[0], &operands[1..]));
            return;
        }
        let copy = op.clone_detached();
        for (index, operand) in operands.into_iter().enumerate() {
            copy.set_operand(index, operand);
        }
        ops.insert(copy);
        for (old, new) in op.results().into_iter().zip(copy.results()) {
            self.values.insert((old, lane), new);
        }
    }

    /// The index of one of the points.
    fn coordinate(&self, ops: &Ops, dim: usize, lane: i64) -> Value {
        let first = self.coordinates[dim];
        if dim + 1 == self.coordinates.len() { ops.offset(first, lane) } else { first }
    }

    fn indices(&self, ops: &Ops, access: &[Option<usize>], lane: i64) -> Vec<Value> {
        access.iter().map(|dim| dim.map_or_else(|| ops.index(0), |dim| self.coordinate(ops, dim, lane))).collect()
    }

    /// Loads an element, together with its neighbours.
    fn load(&mut self, shared: &Shared<'_>, ops: &Ops, argument: usize, access: &[Option<usize>], lane: i64) -> Value {
        let key = (argument, access.to_vec());
        if !self.loads.contains_key(&key) {
            let loaded = self.load_all(shared, ops, argument, access);
            self.loads.insert(key.clone(), loaded);
        }
        self.loads[&key][lane as usize]
    }

    fn load_all(&self, shared: &Shared<'_>, ops: &Ops, argument: usize, access: &[Option<usize>]) -> Vec<Value> {
        let memory = shared.arguments[argument];
        let element = memory.ty().element();
        let one = |lane: i64| ops.memref_load(memory, &self.indices(ops, access, lane));
        let innermost = self.coordinates.len().wrapping_sub(1);
        // With a stride of 0, all lanes have the same element.
        let differs = access.iter().zip(memory.ty().strides()).any(|(&dim, stride)| dim == Some(innermost) && stride != 0);
        if !differs || self.lanes == 1 {
            return vec![one(0); self.lanes as usize];
        }
        if moved_together(shared.kernel, shared.schedule, argument, access) != self.lanes {
            return (0..self.lanes).map(one).collect();
        }
        let loaded = ops.vector_load(Type::vector(&[self.lanes], element), memory, &self.indices(ops, access, 0));
        (0..self.lanes).map(|lane| ops.vector_extract(loaded, lane)).collect()
    }

    /// Writes one element per point.
    pub(super) fn store(&self, shared: &Shared<'_>, ops: &Ops, argument: usize, access: &[Option<usize>], values: &[Value]) {
        let memory = shared.arguments[argument];
        if self.lanes > 1 && moved_together(shared.kernel, shared.schedule, argument, access) == self.lanes {
            ops.vector_store(ops.vector_from_elements(values), memory, &self.indices(ops, access, 0));
            return;
        }
        for (lane, &value) in values.iter().enumerate() {
            ops.memref_store(value, memory, &self.indices(ops, access, lane as i64));
        }
    }
}
