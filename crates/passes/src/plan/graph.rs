//! Rebuilds the graph function on memory, in program order.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Ctx, Op, Symbol, Type, Value},
    ops::{
        self, AsStridedScatterOp, AtenOp, BufferOp, CheckRangeOp, CommitOp, ConcatenateOp, DynamoOp, ExternOp, LaunchOp, OutputBufferOp,
        PadOp, Route, ScatterOp, WorkspaceOp,
    },
    pass::PassError,
    program::KERNELS,
    upstream::func,
};
use dynamlir_shapes::{is_dense, row_major, same_strides};

use super::{
    Shared, Window,
    convolution::{takes_operand, takes_result},
    externs::{copy_by_torch, extern_operands, has_out_form, may_write, strides},
    in_place::{self, InPlace},
    kernels::{Template, copy_template},
    layouts::{Wish, is_written_over, wishes},
    memory::{Need, place},
    views::{at, block, bytes, memref, view, workspace_type},
};
use crate::anchors;

/// What owns the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Argument of the graph.
    Arg(usize),
    /// The workspace.
    Workspace,
    /// A fresh tensor to be returned.
    Output,
    /// A tensor that an extern op made.
    Extern,
}

/// Memory that windows look at.
struct Buffer {
    memref: Value,
    own: Window,
    owner: Owner,
    bytes: i64,
    first: usize,
    last: usize,
    /// Set once the memory is a result of the graph, which nothing else may be.
    returned: bool,
}

/// A value: a window on a buffer.
#[derive(Clone)]
struct Place {
    buffer: usize,
    window: Window,
}

struct Planner<'a> {
    ctx: Ctx,
    b: Builder,
    buffers: Vec<Buffer>,
    places: HashMap<Value, Place>,
    shared: &'a mut Shared,
    wishes: HashMap<Value, Wish>,
    result_types: Vec<Type>,
    result_strides: Vec<Option<Vec<i64>>>,
    /// Memory of the results that were made in place.
    result_buffers: HashMap<usize, usize>,
    workspace: WorkspaceOp,
    step: usize,
    mutated: Vec<usize>,
    /// Launches that run after the commit.
    in_place: HashMap<Op, InPlace>,
}

/// Plans `main`; returns the new function, at the end of `main`'s block.
pub(super) fn plan(main: Op, shared: &mut Shared) -> Result<Op, PassError> {
    let block = main.body().ok_or_else(|| PassError::at(main, "the graph function has no body"))?;
    let ret = block.terminator().ok_or_else(|| PassError::at(main, "the graph function does not return"))?;
    let makers = block.ops().into_iter().map(|op| (op, op.results()));
    for (op, values) in std::iter::once((main, block.args())).chain(makers) {
        if let Some(value) = values.into_iter().find(|value| value.ty().is_open()) {
            return Err(PassError::at(op, format!("dynamo-plan takes sizes that are numbers; this has {}", value.ty())));
        }
    }
    let ctx = main.ctx();

    let arg_windows: Vec<Window> = (0..block.args().len())
        .map(|i| {
            let sizes = block.args()[i].ty().shape();
            let offset = ops::OFFSET.of_arg(main, i).unwrap_or(0);
            Window { offset, ..ops::STRIDES.of_arg(main, i).map_or_else(|| Window::row_major(&sizes), |s| Window::strided(&sizes, &s)) }
        })
        .collect();
    let inputs: Vec<Type> = block.args().iter().zip(&arg_windows).map(|(arg, window)| memref(arg.ty().element(), window)).collect();
    let mutates: Vec<Option<usize>> = (0..ret.num_operands()).map(|i| ops::MUTATES.of_result(main, i).map(|i| i as usize)).collect();
    let result_strides: Vec<Option<Vec<i64>>> = (0..ret.num_operands()).map(|i| ops::STRIDES.of_result(main, i)).collect();

    let parent = main.block().ok_or_else(|| PassError::at(main, "the graph function stands in no module"))?;
    let (new_main, body) = Builder::at_end(parent, main.loc()).func("main", &inputs, &[], &[]);
    let b = Builder::at_end(body, main.loc());
    let workspace = WorkspaceOp::build(&b, workspace_type(ctx, 0));

    let strides_of = |i: usize| result_strides[i].clone().unwrap_or_else(|| row_major(&ret.operand(i).ty().shape()));
    let results: Vec<(Value, Vec<i64>)> =
        (0..ret.num_operands()).filter(|&i| mutates[i].is_none()).map(|i| (ret.operand(i), strides_of(i))).collect();
    let templates = &shared.templates;
    let in_place = in_place::choose(main, block, &arg_windows, &mutates, |name| templates.get(name).map(AsRef::as_ref));
    let planner = Planner {
        ctx,
        b,
        buffers: Vec::new(),
        places: HashMap::new(),
        shared,
        wishes: wishes(&results, &extern_operands(block)),
        result_types: results.iter().map(|(value, _)| value.ty()).collect(),
        result_strides: results.iter().map(|(_, strides)| Some(strides.clone())).collect(),
        result_buffers: HashMap::new(),
        workspace,
        step: 0,
        mutated: mutates.iter().flatten().copied().collect(),
        in_place,
    };
    planner.run(main, new_main, block, body, arg_windows, &mutates)
}

impl Planner<'_> {
    fn run(
        mut self,
        main: Op,
        new_main: Op,
        old: Block,
        body: Block,
        args: Vec<Window>,
        mutates: &[Option<usize>],
    ) -> Result<Op, PassError> {
        for (i, (window, (old, new))) in args.into_iter().zip(old.args().into_iter().zip(body.args())).enumerate() {
            let buffer = self.add(new, window.clone(), Owner::Arg(i), 0);
            self.places.insert(old, Place { buffer, window });
        }
        let ret = old.terminator().ok_or_else(|| PassError::at(main, "the graph function does not return"))?;
        let (later, now): (Vec<Op>, Vec<Op>) =
            old.ops().into_iter().filter(|&op| op != ret).partition(|&op| in_place::is_later(op, &self.in_place));
        for op in now {
            self.b.loc = op.loc();
            self.step += 1;
            self.op(op)?;
        }
        self.b.loc = ret.loc();
        self.step += 1;
        let returned = self.finish(ret, mutates, &later)?;
        self.b.func_return(&returned);

        for (name, attr) in main.attrs() {
            if name != func::FUNCTION_TYPE && name != "sym_name" && name != func::RES_ATTRS {
                new_main.set_attr(&name, attr);
            }
        }
        let kept: Vec<usize> = (0..ret.num_operands()).filter(|&i| mutates[i].is_none()).collect();
        super::results::describe(main, new_main, &kept);
        if let Some(name) = main.symbol() {
            new_main.set_attr("sym_name", Attr::str(self.ctx, &name));
        }
        let inputs: Vec<Type> = body.args().iter().map(|v| v.ty()).collect();
        let outputs: Vec<Type> = returned.iter().map(|v| v.ty()).collect();
        new_main.set_attr(func::FUNCTION_TYPE, Type::function(self.ctx, &inputs, &outputs).as_attr());
        self.place_buffers();
        Ok(new_main)
    }

    fn add(&mut self, memref: Value, own: Window, owner: Owner, bytes: i64) -> usize {
        self.buffers.push(Buffer { memref, own, owner, bytes, first: self.step, last: self.step, returned: false });
        self.buffers.len() - 1
    }

    fn touch(&mut self, buffer: usize) {
        self.buffers[buffer].last = self.step;
    }

    fn place_of(&self, value: Value, user: Op) -> Result<Place, PassError> {
        self.places.get(&value).cloned().ok_or_else(|| PassError::at(user, "a value is used before it is made"))
    }

    /// The memref that shows a place.
    fn show(&mut self, place: &Place, element: Type) -> Value {
        self.touch(place.buffer);
        let buffer = &self.buffers[place.buffer];
        if buffer.own == place.window && buffer.memref.ty().element() == element {
            return buffer.memref;
        }
        self.b.memref_reinterpret_cast(buffer.memref, memref(element, &place.window))
    }

    /// Fresh memory in the workspace, dense with these strides.
    fn slot(&mut self, sizes: &[i64], strides: &[i64], element: Type) -> Place {
        let window = Window::strided(sizes, strides);
        let memref = BufferOp::build(&self.b, self.workspace.result(), 0, memref(element, &window)).result();
        let buffer = self.add(memref, window.clone(), Owner::Workspace, window.numel() * bytes(element));
        Place { buffer, window }
    }

    /// Fresh memory for the kernel that is launched next, and for it alone.
    fn slot_of(&mut self, elements: i64) -> Value {
        let element = Type::f32(self.ctx);
        let place = self.slot(&[elements], &[1], element);
        self.show(&place, element)
    }

    /// Memory of result `i` of the graph.
    fn output(&mut self, i: usize) -> usize {
        let ty = self.result_types[i];
        let strides = self.result_strides[i].clone().unwrap_or_default();
        let window = Window::strided(&ty.shape(), &strides);
        let memref = OutputBufferOp::build(&self.b, memref(ty.element(), &window)).result();
        let buffer = self.add(memref, window, Owner::Output, 0);
        self.result_buffers.insert(i, buffer);
        buffer
    }

    /// Fresh memory for a value, in row-major order.
    fn row_major_slot(&mut self, value: Value) -> Place {
        let sizes = value.ty().shape();
        self.slot(&sizes, &row_major(&sizes), value.ty().element())
    }

    /// The layout that is wished of a value.
    fn wished(&self, value: Value) -> Window {
        let sizes = value.ty().shape();
        self.wishes.get(&value).map_or_else(|| Window::row_major(&sizes), |wish| Window::strided(&sizes, &wish.strides))
    }

    /// Memory for a value that is about to be made, where it is wished for.
    fn destination(&mut self, value: Value) -> Place {
        let sizes = value.ty().shape();
        let Some(wish) = self.wishes.get(&value).cloned() else {
            return self.row_major_slot(value);
        };
        match wish.result {
            Some(i) if !self.result_buffers.contains_key(&i) => {
                let buffer = self.output(i);
                Place { buffer, window: Window::strided(&sizes, &wish.strides) }
            }
            _ => self.slot(&sizes, &wish.strides, value.ty().element()),
        }
    }

    fn op(&mut self, op: Op) -> Result<(), PassError> {
        match DynamoOp::of(op) {
            Some(DynamoOp::Launch(launch)) => self.launch(launch),
            Some(DynamoOp::Aten(call)) => self.extern_op(call),
            Some(DynamoOp::Concatenate(concatenate)) => self.concatenate(concatenate),
            Some(DynamoOp::Pad(pad)) => self.pad(pad),
            Some(DynamoOp::AsStridedScatter(scatter)) => self.strided_scatter(scatter),
            Some(DynamoOp::Scatter(scatter)) => self.scatter(scatter),
            Some(DynamoOp::CheckRange(check)) => self.check_range(check),
            _ => self.view(op),
        }
    }

    /// A change of view: arithmetic on the window, or a copy where strides cannot say it.
    fn view(&mut self, op: Op) -> Result<(), PassError> {
        if op.num_operands() != 1 || op.num_results() != 1 {
            return Err(PassError::at(op, format!("{} cannot stand in the graph function at this stage", op.name())));
        }
        let place = self.place_of(op.operand(0), op)?;
        let place = if let Some(window) = view(op, &place.window)? {
            Place { window, ..place }
        } else {
            let dense = self.row_major_copy(&place, op.operand(0).ty().element())?;
            let window = view(op, &dense.window)?.ok_or_else(|| PassError::at(op, "a dense window has no such view"))?;
            Place { window, ..dense }
        };
        self.places.insert(op.result(0), place);
        Ok(())
    }

    fn row_major_copy(&mut self, from: &Place, element: Type) -> Result<Place, PassError> {
        let sizes = from.window.sizes.clone();
        let to = self.slot(&sizes, &row_major(&sizes), element);
        self.copy(from, &to, element)?;
        Ok(to)
    }

    /// Copies between windows of equal shape.
    fn copy(&mut self, from: &Place, to: &Place, element: Type) -> Result<(), PassError> {
        if element.is_complex() {
            let (from, to) = (self.show(from, element), self.show(to, element));
            copy_by_torch(&self.b, from, to);
            return Ok(());
        }
        let source = Place { window: from.window.squeeze(), ..from.clone() };
        let target = Place { window: to.window.squeeze(), ..to.clone() };
        let template = copy_template(self.shared.scratch, &source.window.sizes, element, None, self.b.loc);
        self.launch_on(&template, &[(source, element), (target, element)], &[])
    }

    fn fill(&mut self, to: &Place, element: Type, value: Attr) -> Result<(), PassError> {
        let target = Place { window: to.window.squeeze(), ..to.clone() };
        let template = copy_template(self.shared.scratch, &target.window.sizes, element, Some(value), self.b.loc);
        self.launch_on(&template, &[(target, element)], &[])
    }

    /// Emits a launch of the kernel that fits these operands, of which `old` are the same memory as a result: operand, result. A
    /// kernel over nothing is not launched.
    fn launch_on(&mut self, template: &Template, operands: &[(Place, Type)], old: &[(usize, usize)]) -> Result<(), PassError> {
        if template.domain.contains(&0) {
            return Ok(());
        }
        let windows: Vec<Window> = operands.iter().map(|(place, _)| place.window.clone()).collect();
        let kernel = self.shared.kernels.specialise(template, &windows, old, self.b.loc)?;
        let mut values = Vec::with_capacity(operands.len());
        for (i, ((place, element), window)) in operands.iter().zip(kernel.windows).enumerate() {
            if old.iter().any(|(operand, _)| *operand == i) {
                continue;
            }
            values.push(self.show(&Place { buffer: place.buffer, window }, *element));
        }
        if kernel.scratch > 0 {
            values.push(self.slot_of(kernel.scratch));
        }
        LaunchOp::build(&self.b, &Symbol::nested(KERNELS, &kernel.name), &values, &[]);
        Ok(())
    }

    fn launch(&mut self, launch: LaunchOp) -> Result<(), PassError> {
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

    /// A launch that writes arguments of the graph, some of which it reads.
    fn launch_in_place(&mut self, op: Op) -> Result<(), PassError> {
        let missing = || PassError::at(op, "expected a launch of a kernel, in place");
        let launch = LaunchOp::cast(op).ok_or_else(missing)?;
        let template = self.shared.templates.get(&launch.kernel().name).cloned().ok_or_else(missing)?;
        let InPlace { targets, old, .. } = self.in_place.remove(&op).ok_or_else(missing)?;
        let mut operands = Vec::new();
        for value in op.operands() {
            operands.push((self.place_of(value, op)?, value.ty().element()));
        }
        for (value, (buffer, window)) in op.results().into_iter().zip(targets) {
            operands.push((Place { buffer, window }, value.ty().element()));
        }
        self.launch_on(&template, &operands, &old)
    }

    /// Copies what a product cannot read where it is.
    fn suit_product(&mut self, product: Op, operands: &mut [(Place, Type)]) -> Result<(), PassError> {
        for (i, (place, element)) in operands.iter_mut().enumerate() {
            if !takes_operand(product, i, &place.window) {
                *place = self.row_major_copy(place, *element)?;
            }
        }
        Ok(())
    }

    fn concatenate(&mut self, concatenate: ConcatenateOp) -> Result<(), PassError> {
        let (op, result) = (concatenate.op(), concatenate.result());
        let element = result.ty().element();
        let place = self.destination(result);
        let dim = concatenate.dim() as usize;
        let mut starts = vec![0; result.ty().rank()];
        for value in concatenate.inputs() {
            let from = self.place_of(value, op)?;
            let window = block(op, &place.window, &starts, &value.ty().shape())?;
            self.copy(&from, &Place { window, buffer: place.buffer }, element)?;
            starts[dim] += value.ty().shape()[dim];
        }
        self.places.insert(result, place);
        Ok(())
    }

    fn pad(&mut self, pad: PadOp) -> Result<(), PassError> {
        let (op, result) = (pad.op(), pad.result());
        let element = result.ty().element();
        let from = self.place_of(pad.operand(), op)?;
        let place = self.destination(result);
        self.fill(&place, element, pad.value())?;
        let window = block(op, &place.window, &pad.low(), &pad.operand().ty().shape())?;
        self.copy(&from, &Place { window, buffer: place.buffer }, element)?;
        self.places.insert(result, place);
        Ok(())
    }

    fn strided_scatter(&mut self, scatter: AsStridedScatterOp) -> Result<(), PassError> {
        let op = scatter.op();
        let element = scatter.result().ty().element();
        let base = self.place_of(scatter.base(), op)?;
        let source = self.place_of(scatter.source(), op)?;
        let place = self.row_major_copy(&base, element)?;
        let window = at(op, place.window.as_strided_in(&source.window.sizes, &scatter.strides(), &scatter.offset(), &()))?;
        let window = window.ok_or_else(|| PassError::at(op, "a dense window has no such view"))?;
        self.copy(&source, &Place { window, buffer: place.buffer }, element)?;
        self.places.insert(op.result(0), place);
        Ok(())
    }

    /// A kernel writes by index into the base, where nobody else needs that, or else into a copy of it.
    fn scatter(&mut self, scatter: ScatterOp) -> Result<(), PassError> {
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
        if operands.iter().any(|(place, _)| place.window.is_empty()) {
            return Ok(());
        }
        let windows: Vec<Window> = operands.iter().map(|(place, _)| place.window.clone()).collect();
        let name = self.shared.kernels.scatter(scatter, &windows);
        let values: Vec<Value> = operands.iter().map(|(place, element)| self.show(place, *element)).collect();
        LaunchOp::build(&self.b, &Symbol::nested(KERNELS, &name), &values, &[]);
        Ok(())
    }

    /// Checks the operand where it lies; the result is the same place.
    fn check_range(&mut self, check: CheckRangeOp) -> Result<(), PassError> {
        let value = check.operand();
        let place = self.place_of(value, check.op())?;
        let memref = self.show(&place, value.ty().element());
        CheckRangeOp::build(&self.b, memref, check.low(), check.high(), &check.message(), &[]);
        self.places.insert(check.op().result(0), place);
        Ok(())
    }

    fn extern_op(&mut self, call: AtenOp) -> Result<(), PassError> {
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
        let mut types = Vec::new();
        let mut made = Vec::new();
        let out_form = op.results().len() == 1 && has_out_form(&schema, op.result(0).ty());
        for (i, value) in op.results().into_iter().enumerate() {
            let sizes = value.ty().shape();
            let strides = given.get(i).cloned().unwrap_or_else(|| row_major(&sizes));
            if out_form && is_dense(&sizes, &strides) {
                let place = self.destination(value);
                outs.push(self.show(&place, value.ty().element()));
                self.places.insert(value, place);
            } else {
                let window = Window::strided(&sizes, &strides);
                types.push(memref(value.ty().element(), &window));
                made.push((value, window));
            }
        }
        let planned = ExternOp::build(&self.b, Route::CShim, &schema, &operands, &outs, &call.args(), &types);
        for ((value, window), memref) in made.into_iter().zip(planned.outputs()) {
            let buffer = self.add(memref, window.clone(), Owner::Extern, 0);
            self.places.insert(value, Place { buffer, window });
        }
        Ok(())
    }

    /// The operand as eager passed it, copied if it lies otherwise.
    fn as_wanted(&mut self, place: Place, wanted: Option<&Vec<i64>>, element: Type) -> Result<Place, PassError> {
        let sizes = place.window.sizes.clone();
        let Some(wanted) = wanted.filter(|strides| strides.len() == sizes.len()) else {
            return if place.window.strides.iter().any(|s| *s < 0) { self.row_major_copy(&place, element) } else { Ok(place) };
        };
        if same_strides(&sizes, &place.window.strides, wanted) {
            // Strides of unit dimensions move nothing, but operators tell layouts by them.
            let window = if sizes.contains(&0) { place.window } else { Window { strides: wanted.clone(), ..place.window } };
            return Ok(Place { window, ..place });
        }
        if !is_dense(&sizes, wanted) {
            return self.row_major_copy(&place, element);
        }
        let to = self.slot(&sizes, wanted, element);
        self.copy(&place, &to, element)?;
        Ok(to)
    }

    /// Results into memory of their own, then the mutations, those by `later` launches first. Returns the memrefs to return.
    fn finish(&mut self, ret: Op, mutates: &[Option<usize>], later: &[Op]) -> Result<Vec<Value>, PassError> {
        let mut returned = Vec::new();
        let users: Vec<Value> = (0..ret.num_operands()).filter(|&i| mutates[i].is_none()).map(|i| ret.operand(i)).collect();
        for (i, value) in users.into_iter().enumerate() {
            let place = self.place_of(value, ret)?;
            returned.push(self.result(ret, i, &place, value.ty().element())?);
        }
        let mut writes = Vec::new();
        for (i, target) in mutates.iter().enumerate() {
            let Some(arg) = *target else { continue };
            if self.in_place.values().any(|launch| launch.targets.iter().any(|(argument, _)| *argument == arg)) {
                continue;
            }
            let value = ret.operand(i);
            may_write(ret, value)?;
            let mut place = self.place_of(value, ret)?;
            // What is read from an argument that is written below must be read before.
            if let Owner::Arg(source) = self.buffers[place.buffer].owner
                && (source != arg || self.buffers[place.buffer].own != place.window)
                && self.mutated.contains(&source)
            {
                place = self.row_major_copy(&place, value.ty().element())?;
            }
            writes.push((place, arg, value.ty().element()));
        }
        if !writes.is_empty() || !later.is_empty() {
            CommitOp::build(&self.b);
        }
        for &launch in later.iter().filter(|op| op.is(LaunchOp::NAME)) {
            self.b.loc = launch.loc();
            self.launch_in_place(launch)?;
        }
        self.b.loc = ret.loc();
        for (place, arg, element) in writes {
            let target = Place { buffer: arg, window: self.buffers[arg].own.clone() };
            if place.buffer == arg && place.window == target.window {
                continue;
            }
            // Where the argument repeats an element, the value does too (functionalization made it so): one write is enough.
            let once = target.window.repeated_dims();
            let first = |place: &Place| Ok::<_, PassError>(Place { buffer: place.buffer, window: at(ret, place.window.first_of(&once))? });
            self.copy(&first(&place)?, &first(&target)?, element)?;
        }
        Ok(returned)
    }

    /// Result `i` from where its value is: the memory itself where it was made for the result, else a copy.
    fn result(&mut self, ret: Op, i: usize, place: &Place, element: Type) -> Result<Value, PassError> {
        let sizes = self.result_types[i].shape();
        let strides = self.result_strides[i].clone().unwrap_or_default();
        let fits = place.window.offset == 0 && same_strides(&sizes, &place.window.strides, &strides);
        let buffer = &self.buffers[place.buffer];
        let whole = buffer.own.numel() == place.window.numel();
        let mine = match buffer.owner {
            Owner::Output => self.result_buffers.get(&i) == Some(&place.buffer),
            Owner::Extern => true,
            Owner::Arg(_) | Owner::Workspace => false,
        };
        let window = Window::strided(&sizes, &strides);
        if fits && whole && mine && !buffer.returned {
            self.buffers[place.buffer].returned = true;
            return Ok(self.show(&Place { buffer: place.buffer, window }, element));
        }
        if window.may_repeat() {
            return Err(PassError::at(ret, format!("result {i} shows an element of its own memory twice")));
        }
        let target = self.output(i);
        self.copy(place, &Place { buffer: target, window: window.clone() }, element)?;
        self.buffers[target].returned = true;
        Ok(self.show(&Place { buffer: target, window }, element))
    }

    /// Gives every workspace buffer its place, and the workspace its size.
    fn place_buffers(&mut self) {
        let slots: Vec<&Buffer> = self.buffers.iter().filter(|b| b.owner == Owner::Workspace).collect();
        let needs: Vec<Need> = slots.iter().map(|b| Need { bytes: b.bytes, first: b.first, last: b.last }).collect();
        let (offsets, total) = place(&needs);
        for (slot, offset) in slots.iter().zip(offsets) {
            if let Some(buffer) = BufferOp::defining(slot.memref) {
                buffer.set_byte_offset(offset);
            }
        }
        self.workspace.result().set_type(workspace_type(self.ctx, total));
    }
}
