//! Moves each group into a kernel function and replaces it by a launch.
//!
//! The graph function is reordered: extern calls keep their order, everything else is placed as early as its original position and its
//! operands allow.

use std::collections::{BTreeSet, HashMap};

use super::{
    Kind,
    dedupe::Kernels,
    elements,
    graph::{Graph, Group, Interface, short_name},
    is_table,
    line::Unit,
    normalize,
};
use dynamlir_dialect::{
    ir::{
        Attr, AttrValue, Block, Builder, Loc, Op, Symbol, Type, Value,
        sizes::{self, SizeSymbol},
    },
    ops::{self, FullOp, LaunchOp},
    pass::PassResult,
    program::KERNELS,
    upstream::func,
};
use dynamlir_shapes::Dim;

/// The maximum length of a kernel name before its number.
const NAME: usize = 48;
/// The maximum number of source lines in a launch's location.
const LINES: usize = 16;

pub(super) fn run(function: Op, graph: &Graph, kernels: &mut Kernels) -> PassResult {
    let Some((body, terminator)) = function.body().and_then(|body| Some((body, body.terminator()?))) else { return Ok(()) };
    // Erased together at the end: until then the graph identifies operations by address.
    let mut gone = BTreeSet::new();
    for unit in graph.in_order(function)? {
        match unit {
            Unit::Op(number) if gone.contains(&number) || graph.ops[number] == terminator => {}
            Unit::Op(number) => graph.ops[number].move_before(terminator),
            Unit::Group(group) => launch(graph, &graph.groups[group], terminator, kernels, &mut gone),
        }
    }
    for &number in gone.iter().rev() {
        graph.ops[number].erase();
    }
    normalize::sweep(body);
    Ok(())
}

fn launch(graph: &Graph, group: &Group, terminator: Op, kernels: &mut Kernels, gone: &mut BTreeSet<usize>) {
    let interface = graph.interface(group);
    let function = kernel(graph, group, &interface, terminator.loc());
    let name = kernels.intern(function, &name_of(graph, group));
    let types: Vec<_> = interface.outputs.iter().map(|value| value.ty()).collect();
    let (kernel, operands) = (Symbol::nested(KERNELS, &name), [interface.inputs.as_slice(), &interface.tables].concat());
    let build = Builder::before(terminator).with_loc(lines_of(graph, group, terminator.loc()));
    let launch = LaunchOp::build(&build, &kernel, &operands, &types);
    // Broadcasts of rows inside the kernel are erased as well, unless they are also used outside.
    gone.extend(&group.members);
    for operand in group.members.iter().flat_map(|&member| elements(graph.ops[member])) {
        gone.extend(graph.def(operand).filter(|&def| graph.spread_row(group, def).is_some() && graph.is_internal(group, def)));
    }
    for (value, result) in interface.outputs.iter().zip(launch.outputs()) {
        value.replace_all_uses_with(result);
    }
}

/// Builds the kernel function, not yet inserted into a block and without its final name.
fn kernel(graph: &Graph, group: &Group, interface: &Interface, fallback: Loc) -> Op {
    let ctx = fallback.ctx();
    let loc = group.members.first().map_or(fallback, |&member| graph.ops[member].loc());
    let given = || interface.inputs.iter().chain(&interface.tables);
    let inputs: Vec<_> = given().map(|value| value.ty()).collect();
    let outputs: Vec<_> = interface.outputs.iter().map(|value| value.ty()).collect();
    let args: Vec<_> = given().map(|value| (value.ty(), value.def().map_or(loc, Op::loc))).collect();
    let block = Block::new(&args);
    let build = Builder::at_end(block, loc);
    let function = build.detached(
        func::FUNC,
        &[],
        &[],
        &[
            ("sym_name", Attr::str(ctx, Kernels::PLACEHOLDER)),
            ("function_type", Type::function(ctx, &inputs, &outputs).as_attr()),
            ops::KERNEL.with(ctx, ()),
            ops::DOMAIN.dims().with(ctx, &group.domain),
            ops::REDUCED_DIMS.with(ctx, &group.reduced),
        ],
        1,
    );
    function.region(0).append(block);
    let mut inside: HashMap<Value, Value> = interface.inputs.iter().copied().zip(block.args()).collect();
    let tables: HashMap<Value, Value> =
        interface.tables.iter().copied().zip(block.args().into_iter().skip(interface.inputs.len())).collect();
    for &member in &group.members {
        copy(graph, graph.ops[member], block, &mut inside, &tables);
    }
    let results: Vec<_> = interface.outputs.iter().filter_map(|value| inside.get(value).copied()).collect();
    build.func_return(&results);
    declare_symbols(function, block, graph);
    function
}

/// Declares the symbols that occur in a kernel, as in the graph; the plan specifies where their values come from.
fn declare_symbols(function: Op, block: Block, graph: &Graph) {
    if graph.scope.symbols().next().is_none() {
        return;
    }
    let mut found = BTreeSet::new();
    let values = block.args().into_iter().chain(block.ops().into_iter().flat_map(Op::results));
    let constants = block.ops().into_iter().filter_map(FullOp::cast).filter_map(|full| Dim::read(full.value()));
    for dim in values.flat_map(|value| value.ty().dims()).chain(constants) {
        found.extend(dim.to_expr().symbols());
    }
    // Assumed facts are left out: a kernel relies on everything that is declared.
    let known = graph.symbols.iter().filter(|declared| found.contains(&declared.symbol));
    let declared = known.map(|declared| SizeSymbol { place: None, ..*declared });
    sizes::declare(function, &declared.collect::<Vec<_>>());
}

/// Copies an operation into the kernel, preceded by the constants and broadcast rows that it uses.
fn copy(graph: &Graph, op: Op, block: Block, inside: &mut HashMap<Value, Value>, tables: &HashMap<Value, Value>) {
    for operand in elements(op) {
        let local = graph.def(operand).filter(|_| !inside.contains_key(&operand));
        if let Some(def) = local.filter(|&def| graph.kinds[def].is_constant() || graph.kinds[def] == Kind::Broadcast) {
            copy(graph, graph.ops[def], block, inside, tables);
        }
    }
    let made = op.clone_detached();
    for (index, operand) in op.operands().iter().enumerate() {
        let known = if is_table(op, index) { tables.get(operand) } else { inside.get(operand) };
        if let Some(&value) = known {
            made.set_operand(index, value);
        }
    }
    block.append(made);
    inside.insert(op.result(0), made.result(0));
}

/// A name that describes the kernel's computation: `reduce_max_sub_exp_sum_div`.
fn name_of(graph: &Graph, group: &Group) -> String {
    let mut name = String::from(if group.product {
        "product"
    } else if group.scan {
        "scan"
    } else if group.reduced.is_empty() {
        "pointwise"
    } else {
        "reduce"
    });
    let mut last = String::new();
    for &member in &group.members {
        let word = short_name(graph.ops[member]);
        if word == last {
            continue;
        }
        if name.len() + 1 + word.len() > NAME {
            break;
        }
        name.push('_');
        name.push_str(&word);
        last = word;
    }
    name
}

/// The source lines of a group, as one location.
fn lines_of(graph: &Graph, group: &Group, fallback: Loc) -> Loc {
    let mut lines: Vec<Loc> = Vec::new();
    for loc in group.members.iter().map(|&member| graph.ops[member].loc()) {
        if !loc.is_unknown() && !lines.contains(&loc) && lines.len() < LINES {
            lines.push(loc);
        }
    }
    Loc::fused(fallback.ctx(), &lines)
}
