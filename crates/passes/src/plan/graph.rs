//! Rebuilds the graph function on memory, in program order.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Ctx, Op, Type, Value, sizes},
    ops::{self, DynamoOp, WorkspaceOp},
    pass::PassError,
    upstream::func,
};
use dynamlir_shapes::{Dim, Scope};

use super::{
    Shared, Window,
    buffers::{Buffer, BufferWindow, Owner},
    careful::{row_major, same_strides, strided},
    externs::extern_operands,
    in_place::{self, InPlace},
    layouts::{Wish, wishes},
    results,
    views::{any_open, memref, view, workspace_type},
};

/// The state of planning a function.
pub struct Planner<'a> {
    pub(super) ctx: Ctx,
    pub(super) b: Builder,
    pub(super) buffers: Vec<Buffer>,
    pub(super) places: HashMap<Value, BufferWindow>,
    pub(super) shared: &'a mut Shared,
    pub(super) wishes: HashMap<Value, Wish>,
    pub(super) result_types: Vec<Type>,
    pub(super) result_strides: Vec<Vec<Dim>>,
    /// Memory of the results that were computed in place.
    pub(super) result_buffers: HashMap<usize, usize>,
    pub(super) workspace: WorkspaceOp,
    pub(super) step: usize,
    pub(super) mutated: Vec<usize>,
    /// Launches that run after the commit.
    pub(super) in_place: HashMap<Op, InPlace>,
    /// The known facts about the symbols.
    pub(super) scope: Scope,
}

/// Plans `main`; returns the new function, at the end of `main`'s block.
pub(super) fn plan(main: Op, shared: &mut Shared) -> Result<Op, PassError> {
    let block = main.body().ok_or_else(|| PassError::at(main, "the graph function has no body"))?;
    let ret = block.terminator().ok_or_else(|| PassError::at(main, "the graph function does not return"))?;
    let makers = block.ops().into_iter().map(|op| (op, op.results()));
    for (op, values) in std::iter::once((main, block.args())).chain(makers) {
        if let Some(value) = values.into_iter().find(|value| value.ty().sizes().is_none()) {
            return Err(PassError::at(op, format!("expected sizes that are said, found {}", value.ty())));
        }
    }
    let ctx = main.ctx();
    let scope = sizes::scope(main);
    let arg_window = |(i, arg): (usize, &Value)| {
        let sizes = arg.ty().dims();
        let strides = ops::STRIDES.dims().of_arg(main, i).unwrap_or_else(|| row_major(&sizes, &scope));
        Window { offset: ops::OFFSET.dim().of_arg(main, i).unwrap_or_else(|| Dim::from(0)), ..strided(&sizes, &strides) }
    };
    let arg_windows: Vec<Window> = block.args().iter().enumerate().map(arg_window).collect();
    let inputs: Vec<Type> = block.args().iter().zip(&arg_windows).map(|(arg, window)| memref(arg.ty().element(), window)).collect();
    let mutates: Vec<Option<usize>> = (0..ret.num_operands()).map(|i| ops::MUTATES.of_result(main, i).map(|i| i as usize)).collect();

    let parent = main.block().ok_or_else(|| PassError::at(main, "the graph function stands in no module"))?;
    let (new_main, body) = Builder::at_end(parent, main.loc()).func("main", &inputs, &[], &[]);
    let b = Builder::at_end(body, main.loc());
    let workspace = WorkspaceOp::build(&b, workspace_type(ctx, &Dim::from(0)));

    let strides_of = |i: usize| {
        let said = ops::STRIDES.dims().of_result(main, i);
        said.unwrap_or_else(|| row_major(&ret.operand(i).ty().dims(), &scope))
    };
    let results: Vec<(Value, Vec<Dim>)> =
        (0..ret.num_operands()).filter(|&i| mutates[i].is_none()).map(|i| (ret.operand(i), strides_of(i))).collect();
    shared.kernels.begin(&scope);
    let templates = &shared.templates;
    let in_place = in_place::choose(main, block, (&arg_windows, &scope), &mutates, |name| templates.get(name).map(AsRef::as_ref));
    let planner = Planner {
        ctx,
        b,
        buffers: Vec::new(),
        places: HashMap::new(),
        shared,
        wishes: wishes(&results, &extern_operands(block), &scope),
        result_types: results.iter().map(|(value, _)| value.ty()).collect(),
        result_strides: results.iter().map(|(_, strides)| strides.clone()).collect(),
        result_buffers: HashMap::new(),
        workspace,
        step: 0,
        mutated: mutates.iter().flatten().copied().collect(),
        in_place,
        scope,
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
            let buffer = self.add(new, window.clone(), Owner::Arg(i), Dim::from(0));
            self.places.insert(old, BufferWindow { buffer, window });
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
        let open = |(i, arg): (usize, &Value)| Some((i, arg.ty().dims())).filter(|(_, sizes)| any_open(sizes));
        results::say_sizes(new_main, old.args().len(), &old.args().iter().enumerate().filter_map(open).collect::<Vec<_>>());
        let kept: Vec<usize> = (0..ret.num_operands()).filter(|&i| mutates[i].is_none()).collect();
        results::describe(main, new_main, &kept);
        if let Some(name) = main.symbol() {
            new_main.set_attr("sym_name", Attr::str(self.ctx, &name));
        }
        let inputs: Vec<Type> = body.args().iter().map(|v| v.ty()).collect();
        let outputs: Vec<Type> = returned.iter().map(|v| v.ty()).collect();
        new_main.set_attr(func::FUNCTION_TYPE, Type::function(self.ctx, &inputs, &outputs).as_attr());
        self.place_buffers()?;
        Ok(new_main)
    }

    pub(super) fn place_of(&self, value: Value, user: Op) -> Result<BufferWindow, PassError> {
        self.places.get(&value).cloned().ok_or_else(|| PassError::at(user, "a value is used before it is made"))
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

    /// Plans a change of view: arithmetic on the window, or a copy if strides cannot express it.
    fn view(&mut self, op: Op) -> Result<(), PassError> {
        if op.num_operands() != 1 || op.num_results() != 1 {
            return Err(PassError::at(op, format!("{} cannot stand in the graph function at this stage", op.name())));
        }
        let place = self.place_of(op.operand(0), op)?;
        // If the view cannot be expressed for all sizes, it is taken of a dense copy.
        let place = if let Ok(Some(window)) = view(op, &place.window, &self.scope) {
            BufferWindow { window, ..place }
        } else {
            let dense = self.row_major_for(op.operand(0));
            self.copy(&place, &dense, op.operand(0).ty().element())?;
            let window = view(op, &dense.window, &self.scope)?.ok_or_else(|| PassError::at(op, "a dense window has no such view"))?;
            BufferWindow { window, ..dense }
        };
        self.places.insert(op.result(0), place);
        Ok(())
    }

    /// Fresh memory in row-major order for a value that is viewed differently: the memory of the graph's result, if that is the value's
    /// only use.
    fn row_major_for(&mut self, value: Value) -> BufferWindow {
        let sizes = value.ty().dims();
        let is_row_major = |wish: &Wish| same_strides(&sizes, &wish.strides, &row_major(&sizes, &self.scope), &self.scope);
        if value.uses().len() == 1 && self.wishes.get(&value).is_some_and(is_row_major) {
            self.destination(value)
        } else {
            self.row_major_slot(value)
        }
    }
}
