//! Sizes of a kernel as values: its `index` arguments, and what is computed of them.
//!
//! What is computed stands at the beginning of the kernel, once for each size.
//!
//! A kernel is called with pointers alone, and with its sizes. So an argument whose type does not say them all becomes one element of
//! memory, which is seen as the whole window:
//! ```mlir
//! func.func @k(%in: memref<f32>, …, %s0: index) {
//!   %window = memref.reinterpret_cast %in to offset: [0], sizes: [%s0, 128], strides: [128, 1] : memref<f32> to memref<?x128xf32>
//!   %whole = bufferization.to_tensor %window restrict : memref<?x128xf32> to tensor<?x128xf32>
//!   %x = tensor.extract_slice %whole[0, 0] [%s0, 128] [1, 1] : tensor<?x128xf32> to tensor<?x128xf32>
//! ```
//! By the slice all that is made of `%x` knows its sizes by these values. LLVM 22 folds no question for the sizes of a
//! `memref.reinterpret_cast`, so that producers would be computed once more instead of being fused.

use std::{cell::RefCell, collections::HashMap};

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, DYNAMIC, Op, Type, Value, sizes},
    ops,
    pass::{PassError, PassResult},
    upstream::{bufferization, func},
};
use dynamlir_shapes::{Algebra, Dim, Scope, Symbol, row_major_in};

/// The sizes of one kernel.
pub(super) struct Sizes {
    /// What is known of its symbols.
    scope: Scope,
    /// The arguments that the symbols are.
    arguments: HashMap<Symbol, Value>,
    known: RefCell<HashMap<Dim, Value>>,
    start: Builder,
}

impl Sizes {
    /// Those that a kernel declares. Each is an argument.
    pub(super) fn of(function: Op, start: Builder) -> Result<Self, PassError> {
        let args = function.body().map(Block::args).unwrap_or_default();
        let mut arguments = HashMap::new();
        for declared in sizes::declared(function) {
            let argument = match declared.place {
                Some(sizes::Place::Index { argument }) => {
                    args.get(argument).copied().filter(|value| value.ty() == Type::index(function.ctx()))
                }
                _ => None,
            };
            let Some(argument) = argument else {
                return Err(PassError::at(function, format!("expected {} to be an argument of the kernel of type index", declared.symbol)));
            };
            arguments.insert(declared.symbol, argument);
        }
        Ok(Self { scope: sizes::scope(function), arguments, known: RefCell::default(), start })
    }

    /// The values of those sizes that are not numbers, in order: what stands for each `?` of a type.
    pub(super) fn open(&self, sizes: &[Dim]) -> Vec<Value> {
        sizes.iter().filter(|size| size.known().is_none()).map(|size| self.value(size)).collect()
    }

    /// A size as a value.
    pub(super) fn value(&self, size: &Dim) -> Value {
        if let Some(&value) = self.known.borrow().get(size) {
            return value;
        }
        let value = size.fold(&mut Computed { b: self.start, arguments: &self.arguments });
        self.known.borrow_mut().insert(size.clone(), value);
        value
    }

    /// What memory is seen as: a tensor whose sizes are these numbers and values.
    pub(super) fn loaded(&self, b: Builder, memory: Value, sizes: &[Dim]) -> Value {
        let (whole, open) = (b.bufferization_to_tensor(memory), self.open(sizes));
        if open.is_empty() { whole } else { b.tensor_extract_slice(whole, &open, whole.ty()) }
    }
}

/// Makes arguments of memory whose type has a `?` pointers, with the windows that they were.
pub(super) fn open_windows(function: Op, sizes: &Sizes) -> PassResult {
    let ctx = function.ctx();
    let args = function.body().map(Block::args).unwrap_or_default();
    for (at, &arg) in args.iter().enumerate() {
        let ty = arg.ty();
        let Some((strides, _)) = ty.strided() else { continue };
        if !ty.shape().contains(&DYNAMIC) && !strides.contains(&DYNAMIC) {
            continue;
        }
        let missing = |what: &str| PassError::at(function, format!("nothing says the {what} of argument {at}, which is {ty}"));
        let said = arg.uses().into_iter().find_map(|used| match used.op {
            op if op.is(bufferization::TO_TENSOR) => op.result(0).ty().sizes(),
            op if op.is(bufferization::MATERIALIZE_IN_DESTINATION) => op.operand(0).ty().sizes(),
            _ => None,
        });
        let dims = said.ok_or_else(|| missing("sizes"))?;
        let known = |(own, said): (i64, Dim)| if own == DYNAMIC { said } else { Dim::from(own) };
        let steps = ops::STRIDES.dims().of_arg(function, at).map_or_else(|| row_major_in(&dims, &sizes.scope), Ok);
        let steps = steps.map_err(|_| missing("strides"))?;
        let steps: Vec<_> = strides.into_iter().zip(steps).map(known).collect();
        let (rows, steps) = (sizes.open(&dims), steps.iter().zip(ty.strides()).filter(|(_, own)| *own == DYNAMIC));
        let steps: Vec<_> = steps.map(|(step, _)| sizes.value(step)).collect();
        let uses = arg.uses();
        arg.set_type(Type::memref(&[], ty.element(), &[], 0));
        let window = sizes.start.memref_reinterpret_cast_to(arg, &rows, &steps, ty);
        for used in uses {
            used.op.set_operand(used.index, window);
        }
    }
    let inputs: Vec<_> = args.iter().map(|arg| arg.ty()).collect();
    function.set_attr(func::FUNCTION_TYPE, Type::function(ctx, &inputs, &[]).as_attr());
    forget_strides(function);
    Ok(())
}

/// The windows have them now.
fn forget_strides(function: Op) {
    let attrs: Vec<Attr> = function.optional(func::ARG_ATTRS).unwrap_or_default();
    let without = |attr: &Attr| {
        let entries = attr.entries();
        let kept = entries.iter().filter(|(name, _)| name != ops::STRIDES.name()).map(|(name, value)| (name.as_str(), *value));
        Attr::dict(function.ctx(), &kept.collect::<Vec<_>>())
    };
    if attrs.iter().any(|attr| attr.get(ops::STRIDES.name()).is_some()) {
        function.set_attr(func::ARG_ATTRS, Attr::array(function.ctx(), &attrs.iter().map(without).collect::<Vec<_>>()));
    }
}

/// Expressions as operations on indices. All symbols are declared, as the verifier of functions demands.
struct Computed<'a> {
    b: Builder,
    arguments: &'a HashMap<Symbol, Value>,
}

impl Algebra for Computed<'_> {
    type Value = Value;

    fn number(&mut self, value: i64) -> Value {
        self.b.index(value)
    }
    fn symbol(&mut self, symbol: Symbol) -> Value {
        self.arguments[&symbol]
    }
    fn add(&mut self, a: Value, b: Value) -> Value {
        self.b.addi(a, b)
    }
    fn mul(&mut self, a: Value, b: Value) -> Value {
        self.b.muli(a, b)
    }
    fn floordiv(&mut self, a: Value, b: Value) -> Value {
        self.b.floordivsi(a, b)
    }
    /// a − b · ⌊a / b⌋: what the dialect has truncates.
    fn modulo(&mut self, a: Value, b: Value) -> Value {
        let whole = self.floordiv(a, b);
        let whole = self.mul(whole, b);
        self.b.subi(a, whole)
    }
    fn min(&mut self, a: Value, b: Value) -> Value {
        self.b.minsi(a, b)
    }
    fn max(&mut self, a: Value, b: Value) -> Value {
        self.b.maxsi(a, b)
    }
}
