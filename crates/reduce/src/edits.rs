//! The edits, each at a place of a module. Places are numbered in the order of the text.

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Builder, Op, Output, Type, Value},
    ops,
    upstream::func,
};

/// A kind of edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Erases a function, or another symbol of the module.
    Function,
    /// Erases an operation inside of a function. Its results become other values of their types.
    Operation,
    /// Erases a result of a function, with its description.
    Result,
    /// Erases a discardable attribute.
    Attribute,
}

impl Edit {
    /// All of them, those that remove the most first.
    pub const ALL: [Self; 4] = [Self::Function, Self::Result, Self::Operation, Self::Attribute];

    /// The number of places of a module.
    pub fn places(self, module: Op) -> usize {
        match self {
            Self::Function => symbols(module).len(),
            Self::Operation => operations(module).len(),
            Self::Result => results(module).len(),
            Self::Attribute => attributes(module).len(),
        }
    }

    /// Edits the places from `start` to `end`, excluding it, and returns true if there was something to edit. The module may be invalid
    /// then.
    pub fn apply(self, module: Op, start: usize, end: usize) -> bool {
        // From the last to the first: an edit does not move the places before it.
        match self {
            Self::Function => each(&symbols(module), start, end, |op| {
                op.erase();
                true
            }),
            Self::Operation => each(&operations(module), start, end, bypass),
            Self::Result => each(&results(module), start, end, |(function, index)| drop_result(function, index)),
            Self::Attribute => each(&attributes(module), start, end, |(op, name)| op.remove_attr(&name)),
        }
    }
}

fn each<T: Clone>(places: &[T], start: usize, end: usize, mut edit: impl FnMut(T) -> bool) -> bool {
    let chosen = places.get(start..end.min(places.len())).unwrap_or_default();
    chosen.iter().rev().filter(|place| edit(T::clone(place))).count() > 0
}

fn symbols(module: Op) -> Vec<Op> {
    module.body().map(Block::ops).unwrap_or_default().into_iter().filter(|op| op.symbol().is_some()).collect()
}

/// The operations inside of symbols, without terminators.
fn operations(module: Op) -> Vec<Op> {
    let mut found = Vec::new();
    for symbol in symbols(module) {
        symbol.walk(&mut |op| {
            if op != symbol && op.block().and_then(Block::terminator) != Some(op) {
                found.push(op);
            }
        });
    }
    found
}

/// The results of functions that have one block.
fn results(module: Op) -> Vec<(Op, usize)> {
    let of = |function: Op| {
        let count = returned(function).map_or(0, Op::num_operands);
        (0..count).map(move |index| (function, index))
    };
    symbols(module).into_iter().flat_map(of).collect()
}

/// The `return` of a function with one block.
fn returned(function: Op) -> Option<Op> {
    if !function.is(func::FUNC) || function.region(0).blocks().len() != 1 {
        return None;
    }
    function.body()?.terminator().filter(|op| op.is(func::RETURN))
}

/// The discardable attributes. Verifiers may crash without an inherent one.
fn attributes(module: Op) -> Vec<(Op, String)> {
    let mut found = Vec::new();
    module.walk(&mut |op| found.extend(op.attrs().into_iter().filter(|(name, _)| name.contains('.')).map(|(name, _)| (op, name))));
    found
}

/// Replaces the results of an operation by other values and erases it, if there is such a value for each that is used.
fn bypass(op: Op) -> bool {
    let used: Vec<Value> = op.results().into_iter().filter(|result| result.has_uses()).collect();
    let Some(others) = used.iter().map(|result| substitute(op, result.ty())).collect::<Option<Vec<_>>>() else { return false };
    for (result, other) in used.into_iter().zip(others) {
        result.replace_all_uses_with(other);
    }
    op.erase();
    true
}

/// Returns a value of a type that is there before an operation: its operand if possible, which keeps the rest of the program connected;
/// else the earliest one of its block.
fn substitute(op: Op, ty: Type) -> Option<Value> {
    let block = op.block()?;
    let earlier = block.ops().into_iter().take_while(|other| *other != op).flat_map(Op::results);
    op.operands().into_iter().chain(block.args()).chain(earlier).find(|value| value.ty() == ty)
}

/// Erases a result of a function, its type, and what attributes say of it.
fn drop_result(function: Op, index: usize) -> bool {
    let Some(end) = returned(function) else { return false };
    let count = end.num_operands();
    let ty = func::function_type(function);
    let (values, results) = (without(&end.operands(), index), without(&ty.function_results(), index));
    function.set_attr(func::FUNCTION_TYPE, Type::function(function.ctx(), &ty.function_inputs(), &results).as_attr());
    Builder::before(end).with_loc(end.loc()).func_return(&values);
    end.erase();
    if let Some(versions) = ops::VERSIONS.of(function).filter(|versions| versions.len() == count) {
        ops::VERSIONS.set(function, &without(&versions, index));
    }
    if let Some(attrs) = function.optional::<Vec<Attr>>(func::RES_ATTRS).filter(|attrs| attrs.len() == count) {
        function.set_attr(func::RES_ATTRS, Attr::array(function.ctx(), &without(&attrs, index)));
    }
    drop_outputs_of(function, index);
    true
}

/// Puts `None` in the place of the program's outputs that need a dropped result, so that the other outputs keep their numbers.
fn drop_outputs_of(function: Op, dropped: usize) {
    let Some(outputs) = ops::OUTPUTS.of(function) else { return };
    let (mut written, mut gone) = (Vec::new(), Vec::new());
    for (number, attr) in outputs.into_iter().enumerate() {
        let output = match Output::read(attr) {
            Some(Output::Result(index) | Output::ResultView(index, _)) if index == dropped => {
                gone.push(number as i64);
                Output::None
            }
            Some(Output::Result(index)) if index > dropped => Output::Result(index - 1),
            Some(Output::ResultView(index, window)) if index > dropped => Output::ResultView(index - 1, window),
            Some(output) => output,
            None => return,
        };
        written.push(Output::write(function.ctx(), &output));
    }
    ops::OUTPUTS.set(function, &written);
    for attr in [ops::DIFFERENTIABLE, ops::WITHOUT_GRAD, ops::ONE_OF_SEVERAL] {
        if let Some(numbers) = attr.of(function) {
            attr.set(function, &numbers.into_iter().filter(|number| !gone.contains(number)).collect::<Vec<_>>());
        }
    }
}

fn without<T: Clone>(all: &[T], index: usize) -> Vec<T> {
    all.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, one)| one.clone()).collect()
}
