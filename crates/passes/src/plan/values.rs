//! Plans operations that are neither launches nor views: concatenations and other assembled values, indexed writes, checks, library calls.

use dynamlir_dialect::{
    ir::{AttrValue, Symbol, Type, Value},
    ops::{AsStridedScatterOp, AtenOp, CheckRangeOp, ConcatenateOp, ExternOp, LaunchOp, PadOp, Route, ScatterOp},
    pass::PassError,
    program::KERNELS,
};
use dynamlir_shapes::{Dim, Dimension, Relation, Scope};

use super::{
    Window,
    buffers::{BufferWindow, Owner},
    careful::{is_dense, is_empty, row_major, same_strides, strided},
    externs::{has_out_form, strides},
    graph::Planner,
    layouts::is_written_over,
    views::{at, block, is_open, memref, numbers_of},
};

impl Planner<'_> {
    pub(super) fn concatenate(&mut self, concatenate: ConcatenateOp) -> Result<(), PassError> {
        let (op, result) = (concatenate.op(), concatenate.result());
        let element = result.ty().element();
        let place = self.destination(result);
        let dim = concatenate.dim() as usize;
        let mut starts = vec![Dim::from(0); result.ty().rank()];
        for value in concatenate.inputs() {
            let (from, sizes) = (self.place_of(value, op)?, value.ty().dims());
            let window = block(op, &place.window, &starts, &sizes)?;
            self.copy(&from, &BufferWindow { window, buffer: place.buffer }, element)?;
            starts[dim] = at(op, starts[dim].add(&sizes[dim]))?;
        }
        self.places.insert(result, place);
        Ok(())
    }

    pub(super) fn pad(&mut self, pad: PadOp) -> Result<(), PassError> {
        let (op, result) = (pad.op(), pad.result());
        let element = result.ty().element();
        let from = self.place_of(pad.operand(), op)?;
        let place = self.destination(result);
        self.fill(&place, element, pad.value())?;
        let window = block(op, &place.window, &pad.low_dims(), &pad.operand().ty().dims())?;
        self.copy(&from, &BufferWindow { window, buffer: place.buffer }, element)?;
        self.places.insert(result, place);
        Ok(())
    }

    pub(super) fn strided_scatter(&mut self, scatter: AsStridedScatterOp) -> Result<(), PassError> {
        let op = scatter.op();
        let element = scatter.result().ty().element();
        let base = self.place_of(scatter.base(), op)?;
        let source = self.place_of(scatter.source(), op)?;
        let place = self.row_major_copy(&base, element)?;
        let (strides, offset) = (scatter.strides_dims(), scatter.offset_dims());
        let window = at(op, place.window.as_strided_in(&source.window.sizes, &strides, &offset, &self.scope))?;
        let window = window.ok_or_else(|| PassError::at(op, "a dense window has no such view"))?;
        self.copy(&source, &BufferWindow { window, buffer: place.buffer }, element)?;
        self.places.insert(op.result(0), place);
        Ok(())
    }

    /// Plans a kernel that writes by index into the base, if the base has no other use, or else into a copy of it.
    pub(super) fn scatter(&mut self, scatter: ScatterOp) -> Result<(), PassError> {
        let (op, base, given) = (scatter.op(), scatter.base(), scatter.indices().into_iter().chain([scatter.source()]));
        let from = self.place_of(base, op)?;
        let mut operands = Vec::new();
        for value in given {
            operands.push((self.place_of(value, op)?, value.ty().element()));
        }
        let to = if is_written_over(op) { from.clone() } else { self.destination(op.result(0)) };
        if from.buffer != to.buffer {
            self.copy(&from, &to, base.ty().element())?;
        }
        self.places.insert(op.result(0), to.clone());
        operands.push((to, base.ty().element()));
        if operands.iter().any(|(place, _)| is_empty(&place.window.sizes)) {
            return Ok(());
        }
        let windows: Vec<Window> = operands.iter().map(|(place, _)| place.window.clone()).collect();
        let name = self.shared.kernels.scatter(scatter, &numbers_of(op, &windows)?);
        let values: Vec<Value> = operands.iter().map(|(place, element)| self.show(place, *element)).collect();
        LaunchOp::build(&self.b, &Symbol::nested(KERNELS, &name), &values, &[]);
        Ok(())
    }

    /// Checks the operand in place; the result shares its place.
    pub(super) fn check_range(&mut self, check: CheckRangeOp) -> Result<(), PassError> {
        let value = check.operand();
        let place = self.place_of(value, check.op())?;
        let memref = self.show(&place, value.ty().element());
        let planned = CheckRangeOp::build(&self.b, memref, 0, 0, &check.message(), &[]);
        planned.set_low_dims(&check.low_dims());
        planned.set_high_dims(&check.high_dims());
        self.places.insert(check.op().result(0), place);
        Ok(())
    }

    pub(super) fn extern_op(&mut self, call: AtenOp) -> Result<(), PassError> {
        let op = call.op();
        let wanted = strides(call.operand_strides());
        let mut operands = Vec::new();
        for (i, value) in op.operands().into_iter().enumerate() {
            let place = self.place_of(value, op)?;
            let place = self.as_wanted(place, wanted.get(i), value.ty().element())?;
            operands.push(self.show(&place, value.ty().element()));
        }
        let schema = call.schema();
        let given = strides(call.result_strides());
        let mut outs = Vec::new();
        let mut made = Vec::new();
        let out_form = op.results().len() == 1 && has_out_form(&schema, op.result(0).ty());
        for (i, value) in op.results().into_iter().enumerate() {
            let sizes = value.ty().dims();
            let strides = given.get(i).cloned().unwrap_or_else(|| row_major(&sizes, &self.scope));
            if out_form && is_dense(&sizes, &strides, &self.scope) {
                let place = self.destination(value);
                outs.push(self.show(&place, value.ty().element()));
                self.places.insert(value, place);
            } else {
                made.push((value, strided(&sizes, &strides)));
            }
        }
        let types: Vec<Type> = made.iter().map(|(value, window)| memref(value.ty().element(), window)).collect();
        // The types of memory do not contain expressions.
        let open = made.iter().any(|(_, window)| is_open(window));
        let lists = |list: fn(&Window) -> &[Dim]| {
            open.then(|| made.iter().map(|(_, window)| <Vec<Dim>>::write(self.ctx, list(window))).collect::<Vec<_>>())
        };
        let (sizes, strides) = (lists(|window| &window.sizes), lists(|window| &window.strides));
        let said = (sizes.as_deref(), strides.as_deref());
        let planned = ExternOp::build(&self.b, Route::CShim, &schema, &operands, &outs, &call.args(), said.0, said.1, &types);
        for ((value, window), memref) in made.into_iter().zip(planned.outputs()) {
            let buffer = self.add(memref, window.clone(), Owner::Extern, Dim::from(0));
            self.places.insert(value, BufferWindow { buffer, window });
        }
        Ok(())
    }

    /// The operand with the strides it has in eager, copied if its strides differ.
    pub(super) fn as_wanted(&mut self, place: BufferWindow, wanted: Option<&Vec<Dim>>, element: Type) -> Result<BufferWindow, PassError> {
        let sizes = place.window.sizes.clone();
        let Some(wanted) = wanted.filter(|strides| strides.len() == sizes.len()) else {
            return if place.window.strides.iter().any(|stride| may_be_negative(stride, &self.scope)) {
                self.row_major_copy(&place, element)
            } else {
                Ok(place)
            };
        };
        if same_strides(&sizes, &place.window.strides, wanted, &self.scope) {
            // Strides of unit dimensions address nothing, but operators infer memory formats from them.
            let window = if is_empty(&sizes) { place.window } else { Window { strides: wanted.clone(), ..place.window } };
            return Ok(BufferWindow { window, ..place });
        }
        if !is_dense(&sizes, wanted, &self.scope) {
            return self.row_major_copy(&place, element);
        }
        let to = self.slot(&sizes, wanted, element);
        self.copy(&place, &to, element)?;
        Ok(to)
    }
}

fn may_be_negative(stride: &Dim, scope: &Scope) -> bool {
    stride.compare(Relation::Lt, &Dim::from(0), scope).unwrap_or(true)
}
