//! Specializes kernels for given layouts: memref signatures, reordered and merged loops, and deduplication.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Ctx, Loc, Op, Type, Value, sizes},
    ops::{self, AttentionOp, BitcastOp, BroadcastOp, ConvertOp, DynamoOp, FullOp, GatherOp, IotaOp, MatmulOp, ReduceOp, ScanOp},
    pass::PassError,
    program::{KernelForm, rename},
    upstream::{func, llvm},
};

use dynamlir_shapes::{Dim, Scope, ShapeError};

use super::{
    Window,
    domain::{Loops, Operand},
    symbols::Renaming,
    views::{any_open, at, memref},
};
use crate::anchors;

/// A kernel that does not have a layout yet.
pub struct Template {
    /// Base of the specialized kernels' names.
    pub name: String,
    /// Sizes of the iteration domain, without unit dimensions.
    pub domain: Vec<Dim>,
    /// Reduced dimensions of the domain.
    pub reduced: Vec<usize>,
    /// The function on tensors.
    pub func: Op,
}

/// The key of a specialization: the template's function, its operands' windows, and the operands that share a result's memory.
type Question = (Op, Vec<Window>, Vec<(usize, usize)>);

/// The planned kernels of a module.
pub struct Kernels {
    pub(super) ctx: Ctx,
    /// Body of `module @kernels`.
    pub(super) body: Block,
    /// The specialization of a template for these windows: equal layers reuse it.
    specialised: HashMap<Question, Specialised>,
    /// The name of the kernel with a given computation.
    by_form: HashMap<KernelForm, String>,
    /// Bits of the vectors that generated code may use.
    pub(super) vector_bits: i64,
    /// The number of times each name was requested.
    names: HashMap<String, usize>,
}

/// A specialized kernel and the windows of its operands.
#[derive(Clone)]
pub struct Specialised {
    /// Elements of scratch memory that it needs during a call, passed as its last argument.
    pub scratch: i64,
    /// Symbol in `@kernels`.
    pub name: String,
    /// One window per operand, in the kernel's loops.
    pub windows: Vec<Window>,
    /// Values of its symbols, passed after its memory.
    pub sizes: Vec<Dim>,
}

/// A kernel to be built: its loops, its operands' windows, the operands that share a result's memory, and the elements of scratch memory.
pub(super) struct Plan<'a> {
    pub loops: &'a Loops,
    pub windows: &'a [Window],
    pub old: &'a [(usize, usize)],
    pub scratch: i64,
}

impl Kernels {
    /// Kernels are appended to this block.
    pub fn new(ctx: Ctx, body: Block, vector_bits: i64) -> Self {
        Self { ctx, body, specialised: HashMap::new(), by_form: HashMap::new(), names: HashMap::new(), vector_bits }
    }

    /// Starts another entry, whose symbols may differ despite equal names.
    pub fn begin(&mut self, scope: &Scope) {
        if scope.symbols().next().is_some() {
            self.specialised.clear();
        }
    }

    /// The kernel of `template` for operands with these windows (arguments, then results). `old` lists arguments, each with a result, that
    /// share that result's memory: the kernel does not have a separate argument for them.
    pub fn specialise(
        &mut self,
        template: &Template,
        windows: &[Window],
        old: &[(usize, usize)],
        scope: &Scope,
        loc: Loc,
    ) -> Result<Specialised, PassError> {
        let key = (template.func, windows.to_vec(), old.to_vec());
        if let Some(known) = self.specialised.get(&key) {
            return Ok(known.clone());
        }
        let made = self.made(template, windows, old, scope, loc)?;
        self.specialised.insert(key, made.clone());
        Ok(made)
    }

    fn made(
        &mut self,
        template: &Template,
        windows: &[Window],
        old: &[(usize, usize)],
        scope: &Scope,
        loc: Loc,
    ) -> Result<Specialised, PassError> {
        let block = template.func.body().ok_or_else(|| PassError::at(template.func, "a kernel without a body"))?;
        if let Some(op) = anchors::find(block) {
            let plan = match () {
                () if anchors::has_windows(op) => Self::convolution,
                () if op.is(AttentionOp::NAME) => Self::attention,
                () => Self::product,
            };
            return plan(self, template, op, (windows, scope), loc);
        }
        let inputs = block.args().len();
        let all: Vec<usize> = (0..template.domain.len()).collect();
        let kept: Vec<usize> = all.iter().copied().filter(|d| !template.reduced.contains(d)).collect();
        let tables: Vec<bool> = block.args().into_iter().map(is_table).collect();
        let is_table = |i: usize| tables.get(i).copied().unwrap_or(false);
        let operand = |(i, window)| {
            let window: &Window = window;
            let dims = if window.sizes.len() == template.domain.len() { all.clone() } else { kept.clone() };
            Operand { window, dims, written: i >= inputs }
        };
        let operands: Vec<Operand<'_>> = windows.iter().enumerate().filter(|&(i, _)| !is_table(i)).map(operand).collect();
        let mut fixed = Vec::new();
        // A scan runs along its dimension in order, like a reduction that keeps its partial results.
        let (mut serial, mut scans) = (template.reduced.clone(), false);
        for op in block.ops() {
            let Some(dim) = named_dim(op, &template.domain, &kept) else { continue };
            fixed.push(dim);
            if op.is(ScanOp::NAME) {
                serial.push(dim);
                scans = true;
            }
        }
        let mut loops = Loops::choose(&template.domain, (&serial, scans), &operands, &fixed, scope);
        loops.reduced.retain(|&g| template.reduced.contains(&loops.groups[g][0]));
        let seen = |(i, window)| if is_table(i) { Window::clone(window) } else { loops.window(&operand((i, window))) };
        let new_windows: Vec<Window> = windows.iter().enumerate().map(seen).collect();
        let (func, sizes) = self.build(template, &Plan { loops: &loops, windows: &new_windows, old, scratch: 0 }, scope, loc)?;
        Ok(Specialised { name: self.intern(func, &template.name), windows: new_windows, scratch: 0, sizes })
    }

    /// Keeps `func` under a fresh name, or erases it if an equal kernel exists; returns the name.
    pub(super) fn intern(&mut self, func: Op, name: &str) -> String {
        let form = KernelForm::of(func);
        if let Some(existing) = self.by_form.get(&form) {
            func.erase();
            return existing.clone();
        }
        let count = self.names.entry(name.to_owned()).or_insert(0);
        let unique = if *count == 0 { name.to_owned() } else { format!("{name}_{count}") };
        *count += 1;
        rename(func, &unique);
        self.by_form.insert(form, unique.clone());
        unique
    }

    /// Builds the function of a plan; returns it with the sizes that its launches pass.
    pub(super) fn build(&self, template: &Template, plan: &Plan<'_>, scope: &Scope, loc: Loc) -> Result<(Op, Vec<Dim>), PassError> {
        let &Plan { loops, windows, old, scratch } = plan;
        let source = template.func.body().ok_or_else(|| PassError::at(template.func, "a kernel without a body"))?;
        let terminator = source.terminator().ok_or_else(|| PassError::at(template.func, "a kernel without a return"))?;
        let elements: Vec<Type> = source.args().into_iter().chain(terminator.operands()).map(|v| v.ty().element()).collect();
        let inputs = source.args().len();
        let own: Vec<usize> = (0..inputs).filter(|i| old.iter().all(|(merged, _)| merged != i)).collect();
        let fault = |error: ShapeError| PassError::at(template.func, error.to_string());
        let renaming = Renaming::of(loops, windows, source);
        let windows = windows.iter().map(|window| seen_by_kernel(window, &renaming)).collect::<Result<Vec<_>, _>>().map_err(fault)?;
        let loops = &Loops { sizes: renaming.all(&loops.sizes).map_err(fault)?, ..loops.clone() };
        let given: Vec<(&Window, Type)> = windows
            .iter()
            .zip(&elements)
            .enumerate()
            .filter(|(i, _)| *i >= inputs || own.contains(i))
            .map(|(_, (window, &element))| (window, memref(memory_type(element), window)))
            .collect();
        let scratch_type = (scratch > 0).then(|| Type::memref(&[scratch], Type::f32(self.ctx), &[1], 0));
        let mut types: Vec<Type> = given.iter().map(|(_, ty)| *ty).chain(scratch_type).collect();
        let declared = renaming.declarations(types.len(), scope);

        let outer = Builder::at_end(self.body, loc);
        let reduced: Vec<i64> = loops.reduced.iter().map(|&g| g as i64).collect();
        let strides: Vec<_> = given.iter().map(|(window, _)| any_open(&window.strides).then_some(&window.strides[..])).collect();
        let attrs = self.kernel_attrs(&loops.sizes, &reduced, (types.len(), declared.len()), &strides, scratch > 0);
        types.extend(declared.iter().map(|_| Type::index(self.ctx)));
        let (func, body) = outer.func(&template.name, &types, &[], &attrs);
        sizes::declare(func, &declared);

        let rewrite = Rewrite { template, loops, renaming: &renaming, b: Builder::at_end(body, loc) };
        let args = body.args();
        let mut map: HashMap<Value, Value> = HashMap::new();
        for (i, value) in source.args().into_iter().enumerate() {
            let merged = old.iter().find(|(argument, _)| *argument == i).map(|(_, result)| own.len() + result);
            let place = merged.or_else(|| own.iter().position(|argument| *argument == i)).unwrap_or(i);
            let loaded = rewrite.load(args[place], &windows[i].sizes);
            map.insert(value, if is_table(value) { loaded } else { rewrite.cast(loaded, value.ty().element()) });
        }
        for op in source.ops().into_iter().filter(|&op| op != terminator) {
            rewrite.clone_op(op, &mut map)?;
        }
        for (value, &out) in terminator.operands().iter().zip(&args[own.len()..]) {
            let new = map.get(value).ok_or_else(|| PassError::at(terminator, "a kernel returns a value it does not have"))?;
            rewrite.store(*new, out);
        }
        rewrite.b.func_return(&[]);
        Ok((func, renaming.sizes()))
    }

    /// The attributes of a kernel's function: its loops, and `noalias` for each argument in memory, since inputs are only read and the plan
    /// gives each result its own memory. Dynamic strides are recorded as well. The last memory argument may be scratch memory; sizes follow
    /// it.
    pub(super) fn kernel_attrs(
        &self,
        domain: &[Dim],
        reduced: &[i64],
        (args, sizes): (usize, usize),
        strides: &[Option<&[Dim]>],
        has_scratch: bool,
    ) -> [(&'static str, Attr); 4] {
        let ctx = self.ctx;
        let each = |at: usize| {
            let scratch = (has_scratch && at + 1 == args).then(|| ops::SCRATCH.with(ctx, ()));
            let strides = strides.get(at).copied().flatten().map(|strides| ops::STRIDES.dims().with(ctx, strides));
            let attrs: Vec<_> = scratch.into_iter().chain(strides).chain([(llvm::NOALIAS, Attr::unit(ctx))]).collect();
            Attr::dict(ctx, &attrs)
        };
        let each: Vec<Attr> = (0..args).map(each).chain((0..sizes).map(|_| Attr::dict(ctx, &[]))).collect();
        [
            ops::KERNEL.with(ctx, ()),
            ops::DOMAIN.dims().with(ctx, domain),
            ops::REDUCED_DIMS.with(ctx, reduced),
            (func::ARG_ATTRS, Attr::array(ctx, &each)),
        ]
    }
}

/// The dimension of the domain that an op's `dim` refers to. If its result is a row, `dim` counts the row's dimensions.
fn named_dim(op: Op, domain: &[Dim], kept: &[usize]) -> Option<usize> {
    let dim = match DynamoOp::of(op)? {
        DynamoOp::Iota(iota) => iota.dim(),
        DynamoOp::ArgReduce(reduce) => reduce.dim(),
        DynamoOp::Scan(scan) => scan.dim(),
        _ => return None,
    };
    let dim = usize::try_from(dim).ok()?;
    if counts_rows(op, domain) { kept.get(dim).copied() } else { Some(dim) }
}

fn counts_rows(op: Op, domain: &[Dim]) -> bool {
    op.is(IotaOp::NAME) && op.result(0).ty().rank() != domain.len()
}

/// Returns true if an argument is read at computed indices, or by a product: its window does not have the shape of the kernel's loops.
pub(super) fn is_table(arg: Value) -> bool {
    let uses = arg.uses();
    let reads = |op: Op, index: usize| (index == 0 && op.is(GatherOp::NAME)) || anchors::is_anchor(op);
    !uses.is_empty() && uses.iter().all(|used| reads(used.op, used.index))
}

/// The type of a torch element type in a kernel's memory: bool is a byte, unsigned is signless.
pub(super) fn memory_type(element: Type) -> Type {
    if element.is_bool() || element.is_unsigned() { Type::int(element.ctx(), element.width().max(8)) } else { element }
}

/// Rebuilds a kernel's body for its chosen loops.
struct Rewrite<'a> {
    template: &'a Template,
    /// The loops, in the kernel's symbols.
    loops: &'a Loops,
    renaming: &'a Renaming,
    b: Builder,
}

impl Rewrite<'_> {
    /// The type of a value in the new body: as in the old one, it has the domain's shape or the row shape.
    fn ty(&self, old: Type) -> Type {
        let full = old.rank() == self.template.domain.len();
        Type::tensor_of(&if full { self.loops.sizes.clone() } else { self.loops.row() }, old.element())
    }

    fn load(&self, memory: Value, sizes: &[Dim]) -> Value {
        self.b.bufferization_to_tensor_of(memory, Type::tensor_of(sizes, memory.ty().element()))
    }

    fn store(&self, value: Value, memory: Value) {
        let value = self.cast(value, memory.ty().element());
        self.b.bufferization_materialize(value, memory);
    }

    /// Converts between an element type and its form in memory.
    fn cast(&self, value: Value, element: Type) -> Value {
        let from = value.ty().element();
        if from == element {
            return value;
        }
        let ty = value.ty().with_element(element);
        if from.is_bool() || element.is_bool() {
            ConvertOp::build(&self.b, value, ty).result()
        } else {
            BitcastOp::build(&self.b, value, ty).result()
        }
    }

    /// The loop of the dimension that an op's `dim` refers to; for a row, its index among the row's loops. That loop comprises only this
    /// dimension.
    fn lone_loop(&self, op: Op) -> Result<i64, PassError> {
        let Template { domain, reduced, .. } = self.template;
        let kept: Vec<usize> = (0..domain.len()).filter(|d| !reduced.contains(d)).collect();
        let found = named_dim(op, domain, &kept).and_then(|dim| self.loops.loop_of(dim));
        let found = if counts_rows(op, domain) { found.and_then(|g| self.loops.kept().iter().position(|&kept| kept == g)) } else { found };
        found.map(|g| g as i64).ok_or_else(|| PassError::at(op, "its dimension is not in the kernel's domain"))
    }

    fn clone_op(&self, op: Op, map: &mut HashMap<Value, Value>) -> Result<(), PassError> {
        let b = self.b.with_loc(op.loc());
        let operands: Option<Vec<Value>> = op.operands().iter().map(|v| map.get(v).copied()).collect();
        let operands = operands.ok_or_else(|| PassError::at(op, "a kernel uses a value from outside"))?;
        let i64s = |values: Vec<usize>| Attr::i64s(b.ctx(), &values.into_iter().map(|v| v as i64).collect::<Vec<_>>());
        let mut attrs = op.attrs();
        for (name, attr) in &mut attrs {
            match (name.as_str(), op.name().as_str()) {
                ("dims", ReduceOp::NAME) => *attr = i64s(self.loops.reduced.clone()),
                ("dims", BroadcastOp::NAME) => *attr = i64s(self.loops.kept()),
                ("dim", _) => *attr = Attr::i64(b.ctx(), self.lone_loop(op)?),
                ("value", FullOp::NAME) => *attr = at(op, self.renaming.constant(*attr))?,
                _ => {}
            }
        }
        let attrs: Vec<(&str, Attr)> = attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).collect();
        let results: Vec<Type> = op.results().iter().map(|r| self.ty(r.ty())).collect();
        if op.is(GatherOp::NAME) {
            // The table keeps its type in memory: only the gathered elements are converted.
            let stored = results[0].with_element(operands[0].ty().element());
            let gathered = self.cast(GatherOp::build(&b, operands[0], &operands[1..], stored).result(), results[0].element());
            map.insert(op.result(0), gathered);
            return Ok(());
        }
        if let Some(product) = MatmulOp::cast(op) {
            // Merged batch dimensions count as one.
            let batch = product.batch() as usize;
            let merged = self.loops.groups.iter().filter(|group| group[0] < batch).count();
            map.insert(product.result(), MatmulOp::build(&b, operands[0], operands[1], merged as i64, results[0]).result());
            return Ok(());
        }
        // The same applies to a convolution's result; its images and windows keep their shapes.
        let new = b.op(&op.name(), &operands, &results, &attrs);
        map.extend(op.results().into_iter().zip(new.results()));
        Ok(())
    }
}

/// A window in the kernel's symbols. Its offset is applied by the launch: a kernel receives the address of element 0.
fn seen_by_kernel(window: &Window, renaming: &Renaming) -> Result<Window, ShapeError> {
    Ok(Window { sizes: renaming.all(&window.sizes)?, strides: renaming.all(&window.strides)?, offset: 0.into() })
}

/// A kernel that copies a tensor of this shape, or fills it with a constant. It is placed in `scratch`, a module that is dropped after
/// planning.
pub fn copy_template(scratch: Block, sizes: &[Dim], element: Type, fill: Option<Attr>, loc: Loc) -> Template {
    let ty = Type::tensor_of(sizes, element);
    let name = if fill.is_some() { "fill" } else { "copy" };
    let inputs: &[Type] = if fill.is_some() { &[] } else { &[ty] };
    let (func, body) = Builder::at_end(scratch, loc).func(name, inputs, &[ty], &[]);
    let b = Builder::at_end(body, loc);
    let value = match fill {
        Some(value) => FullOp::build(&b, value, ty).result(),
        None => body.args()[0],
    };
    b.func_return(&[value]);
    Template { name: name.into(), domain: sizes.to_vec(), reduced: Vec::new(), func }
}
