//! Launches of kernels, and copies, which are launches as well.

use dynamlir_dialect::{
    ir::{Attr, Op, Symbol, Type},
    ops::LaunchOp,
    pass::PassError,
    program::KERNELS,
};

use super::{
    Window,
    buffers::BufferWindow,
    careful::{is_empty, row_major, squeeze},
    convolution::{takes_operand, takes_result},
    externs::copy_by_torch,
    graph::Planner,
    in_place::InPlace,
    kernels::{Template, copy_template},
};
use crate::anchors;

impl Planner<'_> {
    pub(super) fn row_major_copy(&mut self, from: &BufferWindow, element: Type) -> Result<BufferWindow, PassError> {
        let sizes = from.window.sizes.clone();
        let to = self.slot(&sizes, &row_major(&sizes, &self.scope), element);
        self.copy(from, &to, element)?;
        Ok(to)
    }

    /// Copies between windows of equal shape.
    pub(super) fn copy(&mut self, from: &BufferWindow, to: &BufferWindow, element: Type) -> Result<(), PassError> {
        if element.is_complex() {
            let (from, to) = (self.show(from, element), self.show(to, element));
            copy_by_torch(&self.b, from, to);
            return Ok(());
        }
        let source = BufferWindow { window: squeeze(&from.window), ..from.clone() };
        let target = BufferWindow { window: squeeze(&to.window), ..to.clone() };
        let template = copy_template(self.shared.scratch, &source.window.sizes, element, None, self.b.loc);
        self.launch_on(&template, &[(source, element), (target, element)], &[])
    }

    pub(super) fn fill(&mut self, to: &BufferWindow, element: Type, value: Attr) -> Result<(), PassError> {
        let target = BufferWindow { window: squeeze(&to.window), ..to.clone() };
        let template = copy_template(self.shared.scratch, &target.window.sizes, element, Some(value), self.b.loc);
        self.launch_on(&template, &[(target, element)], &[])
    }

    /// Emits a launch of the kernel for these operands. `old` lists the operands that share the memory of a result: operand, result. A
    /// kernel over an empty domain is not launched.
    pub(super) fn launch_on(
        &mut self,
        template: &Template,
        operands: &[(BufferWindow, Type)],
        old: &[(usize, usize)],
    ) -> Result<(), PassError> {
        if is_empty(&template.domain) {
            return Ok(());
        }
        let windows: Vec<Window> = operands.iter().map(|(place, _)| place.window.clone()).collect();
        let kernel = self.shared.kernels.specialise(template, &windows, old, &self.scope, self.b.loc)?;
        let mut values = Vec::with_capacity(operands.len());
        for (i, ((place, element), window)) in operands.iter().zip(kernel.windows).enumerate() {
            if old.iter().any(|(operand, _)| *operand == i) {
                continue;
            }
            values.push(self.show(&BufferWindow { buffer: place.buffer, window }, *element));
        }
        if kernel.scratch > 0 {
            values.push(self.slot_of(kernel.scratch));
        }
        let launch = LaunchOp::build(&self.b, &Symbol::nested(KERNELS, &kernel.name), &values, &[]);
        if !kernel.sizes.is_empty() {
            launch.set_sizes(&kernel.sizes);
        }
        Ok(())
    }

    pub(super) fn launch(&mut self, launch: LaunchOp) -> Result<(), PassError> {
        let (op, name) = (launch.op(), launch.kernel().name);
        let mut operands = Vec::new();
        for value in op.operands() {
            operands.push((self.place_of(value, op)?, value.ty().element()));
        }
        let product = self.shared.templates.get(&name).and_then(|template| anchors::find(template.func.body()?));
        if let Some(product) = product {
            self.suit_product(product, &mut operands)?;
        }
        for value in op.results() {
            let place = match product {
                Some(product) if !takes_result(product, &self.wished(value)) => self.row_major_slot(value),
                _ => self.destination(value),
            };
            operands.push((place.clone(), value.ty().element()));
            self.places.insert(value, place);
        }
        let template = self.shared.templates.get(&name).cloned();
        let template = template.ok_or_else(|| PassError::at(op, format!("there is no kernel @{name}")))?;
        self.launch_on(&template, &operands, &[])
    }

    /// Plans a launch that writes arguments of the graph and may read them.
    pub(super) fn launch_in_place(&mut self, op: Op) -> Result<(), PassError> {
        let missing = || PassError::at(op, "expected a launch of a kernel, in place");
        let launch = LaunchOp::cast(op).ok_or_else(missing)?;
        let template = self.shared.templates.get(&launch.kernel().name).cloned().ok_or_else(missing)?;
        let InPlace { targets, old, .. } = self.in_place.remove(&op).ok_or_else(missing)?;
        let mut operands = Vec::new();
        for value in op.operands() {
            operands.push((self.place_of(value, op)?, value.ty().element()));
        }
        for (value, (buffer, window)) in op.results().into_iter().zip(targets) {
            operands.push((BufferWindow { buffer, window }, value.ty().element()));
        }
        self.launch_on(&template, &operands, &old)
    }

    /// Copies the operands that a product's kernel cannot read in place.
    pub(super) fn suit_product(&mut self, product: Op, operands: &mut [(BufferWindow, Type)]) -> Result<(), PassError> {
        for (i, (place, element)) in operands.iter_mut().enumerate() {
            if !takes_operand(product, i, &place.window) {
                *place = self.row_major_copy(place, *element)?;
            }
        }
        Ok(())
    }
}
