//! `dynamo-partition`: splits the joint function into a forward and a backward entry (stage 02).
//!
//! Before:
//! ```mlir
//! func.func @main(%x: tensor<4xf32> {dynamo.requires_grad}, %dy: tensor<4xf32> {dynamo.tangent = 0 : i64})
//!     -> (tensor<4xf32>, tensor<4xf32> {dynamo.gradient = 0 : i64}) attributes {dynamo.entry, …} {
//!   %y = dynamo.exp %x : tensor<4xf32>
//!   %dx = dynamo.mul %dy, %y : tensor<4xf32>
//!   return %y, %dx : tensor<4xf32>, tensor<4xf32>
//! }
//! ```
//! After:
//! ```mlir
//! func.func @main(%x: tensor<4xf32> {dynamo.requires_grad}) -> tensor<4xf32>
//!     attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<same 0>],
//!                 dynamo.saved = 1 : i64, dynamo.vjp = @main_vjp, …} { … }
//! func.func @main_vjp(%y: tensor<4xf32>, %dy: tensor<4xf32> {dynamo.tangent = 0 : i64})
//!     -> (tensor<4xf32> {dynamo.gradient = 0 : i64}) attributes {dynamo.entry, …} { … }
//! ```
//!
//! Operations that depend on a tangent belong to backward. Of everything else that backward uses, some values are saved and the rest is
//! recomputed from those: a minimum cut ([`cut`]) weighs the cost of saving, in memory and time, against that of computing. The saved
//! values are listed at the end of the forward's `dynamo.outputs`; they are the first arguments of the vjp, followed by the tangents.
//!
//! Of a checkpoint (`dynamo.recompute`) only its inputs, its results, and keys of random numbers are saved.
//!
//! If the joint function consists of several nodes of autograd's graph (`dynamo.node`), each has its own vjp, `@main_vjp_0` and so on,
//! listed in `dynamo.vjps` of `@main`. There is one cut for all of them: each node receives the saved values that it needs (`dynamo.kept`).
//! Values that are only passed from node to node are not computed: only their types are recorded, in `dynamo.crossing`, whose members are
//! numbered after the results of `@main`.
//!
//! If sizes are expressions, the cut uses their expected values (hints), and each symbol is a size of an argument of the vjp ([`symbols`]).
//!
//! A function without tangents is left unchanged.

pub mod copies;
mod cut;
pub mod entries;
pub mod joint;
mod print;
pub mod symbols;

use dynamlir_dialect::{
    ir::{AttrValue, Block, Op, Symbol},
    ops,
    pass::{Options, Pass, PassResult, Run, Statistic, Takes},
    pass_options,
    program::entries as entries_of,
};

use self::{cut::Price, joint::Joint};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-partition",
    description: "Cut a joint function into a forward and a backward entry",
    takes: Takes::Symbols,
    options: PartitionOptions::DECLARED,
    statistics: &[SAVED, RECOMPUTED],
    run,
};

const SAVED: Statistic = Statistic { name: "saved-bytes", description: "bytes of results saved for backward" };
const RECOMPUTED: Statistic = Statistic { name: "recomputed", description: "operations recomputed in backward" };

pass_options! {
    /// Options of `dynamo-partition`.
    pub struct PartitionOptions {
        /// percent of recomputable memory to save: 0 least memory, 100 least time (dynamo.memory_budget, else the cost model)
        memory_budget: Option<usize> = None,
        /// print the saved values and the reasons (false)
        print_partition: bool = false,
        /// print the cut as a Graphviz graph (false)
        print_graph: bool = false,
    }
}

fn run(module: Op, pass: &Run) -> PassResult {
    let options: PartitionOptions = pass.options()?;
    for function in entries_of(module) {
        let arguments = function.body().map(Block::args).unwrap_or_default().len();
        if !(0..arguments).any(|index| ops::TANGENT.of_arg(function, index).is_some()) || is_vjp(module, function) {
            function.walk(&mut forget);
            continue;
        }
        let joint = Joint::of(function)?;
        let budget = options.memory_budget.or_else(|| ops::MEMORY_BUDGET.of(module).and_then(|percent| usize::try_from(percent).ok()));
        let cut = match budget {
            None => cut::minimum(&joint, Price::DEFAULT),
            Some(percent) => cut::within(&joint, percent),
        };
        pass.count(&SAVED, usize::try_from(cut.saved_bytes(&joint)).unwrap_or(usize::MAX));
        pass.count(&RECOMPUTED, cut.recomputed(&joint).len());
        let decisions = print::decisions(&joint, &cut, pass);
        if options.print_partition {
            print::table(&joint, &cut, &decisions);
        }
        for decision in decisions {
            pass.decide(decision);
        }
        if options.print_graph {
            print::graphviz(&joint, &cut);
        }
        entries::write(&joint, &cut)?;
    }
    Ok(())
}

/// Removes the attributes of an operation that serve only autodiff and the cut.
fn forget(op: Op) {
    _ = ops::RECOMPUTE.remove(op)
        | ops::SHOWN.remove(op)
        | ops::ONCE.remove(op)
        | ops::MATERIALIZED.remove(op)
        | ops::NOT_LINEAR.remove(op)
        | ops::ONCE_DIFFERENTIABLE.remove(op)
        | ops::UNSEEN.remove(op);
}

/// Returns true if an entry is already the backward of another one: such a module has been cut.
fn is_vjp(module: Op, function: Op) -> bool {
    let name = function.symbol();
    let of_nodes = |other: Op| ops::VJPS.of(other).unwrap_or_default().into_iter().filter_map(Symbol::read);
    entries_of(module)
        .into_iter()
        .any(|other| ops::VJP.of(other).into_iter().chain(of_nodes(other)).any(|symbol| Some(symbol.name) == name))
}
