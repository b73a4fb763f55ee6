//! Prints the cut for humans: as a table, and as a graph in Graphviz's language.

use dynamlir_dialect::{ir::Op, ops};

use super::{
    cut::{Cut, Price, minimum},
    joint::{Joint, Side},
};

/// Prints the saved values, the largest first, with the reason; then the totals.
pub fn table(joint: &Joint, cut: &Cut) {
    let name = joint.function.symbol().unwrap_or_default();
    println!("partition of @{name}:");
    let mut saved = cut.saved.clone();
    saved.sort_by_key(|&value| std::cmp::Reverse(joint.bytes(value)));
    for value in saved {
        println!("  {:>12} bytes  {}  {}", joint.bytes(value), what(joint, value), why(joint, value));
    }
    let everything = minimum(joint, Price::NOTHING).saved_bytes(joint);
    println!(
        "  {} bytes saved, {everything} if memory were free; {} operations computed again",
        cut.saved_bytes(joint),
        cut.recomputed(joint).len()
    );
    for at in cut.recomputed(joint) {
        println!("    again: {}", named(joint.ops[at]));
    }
}

/// Prints the operations with their sides; saved values have a frame.
pub fn graphviz(joint: &Joint, cut: &Cut) {
    println!("digraph partition {{\n  node [shape=plaintext]");
    for value in 0..joint.values.len() {
        let side = match joint.def[value] {
            None if joint.tangents.contains(&value) => "orange",
            None => "black",
            Some(at) => match joint.sides[at] {
                Side::Forward => "blue",
                Side::Either => "purple",
                Side::Backward => "orange",
            },
        };
        let shape = if cut.saved.contains(&value) { ", shape=box" } else { "" };
        println!("  v{value} [label=\"{}\", fontcolor={side}{shape}]", what(joint, value).replace('"', "'"));
        for operand in joint.def[value].into_iter().flat_map(|at| &joint.uses[at]) {
            println!("  v{operand} -> v{value}");
        }
    }
    println!("}}");
}

fn what(joint: &Joint, value: usize) -> String {
    match joint.def[value] {
        None => format!("argument {value} : {}", joint.values[value].ty()),
        Some(at) => format!("{} : {}", named(joint.ops[at]), joint.values[value].ty()),
    }
}

fn why(joint: &Joint, value: usize) -> &'static str {
    match joint.def[value] {
        None => "an argument, kept by reference",
        Some(_) if joint.returned(value).is_some() => "a result, kept by reference",
        Some(at) if ops::RECOMPUTE.is_on(joint.ops[at]) => "a result of a checkpoint, or random numbers of one",
        Some(at) if joint.sides[at] == Side::Either => "a part of the derivative that is smaller than what it is made of",
        Some(at) if !joint.ops[at].is_elementwise() => "expensive to compute again",
        Some(_) => "cheaper to keep than to compute again",
    }
}

fn named(op: Op) -> String {
    let line = op.loc().line().map_or_else(String::new, |(file, line)| format!(" ({file}:{line})"));
    format!("{}{line}", op.name().trim_start_matches("dynamo."))
}
