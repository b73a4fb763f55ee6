//! The cut for humans: as decisions, which may be printed as a table, and as a graph in Graphviz's language.

use dynamlir_decisions::{Decision, Site};
use dynamlir_dialect::{ir::Op, ops, pass::Run};

use super::{
    cut::{Cut, Price, minimum},
    joint::{Joint, Side},
};

/// The alternatives for a value that backward uses.
const CHOICES: [&str; 2] = ["save", "recompute"];

/// The decisions: about the saved values, the largest first, then about the recomputed operations.
pub fn decisions(joint: &Joint, cut: &Cut, pass: &Run) -> Vec<Decision> {
    let [save, recompute] = CHOICES;
    let mut saved = cut.saved.clone();
    saved.sort_by_key(|&value| std::cmp::Reverse(joint.bytes(value)));
    let saved = saved.into_iter().map(|value| {
        let op = joint.def[value].map_or(joint.function, |at| joint.ops[at]);
        let decision = pass.decision(op, what(joint, value), save, &CHOICES).because(why(joint, value));
        let decision = decision.with("bytes", joint.bytes(value).cast_signed());
        if joint.def[value].is_some() { decision } else { Decision { site: Site { location: String::new(), ..decision.site }, ..decision } }
    });
    let recomputed = cut.recomputed(joint).into_iter().map(|at| {
        let op = joint.ops[at];
        pass.decision(op, short_name(op), recompute, &CHOICES).because("computing it again is expected to be faster than saving it")
    });
    saved.chain(recomputed).collect()
}

/// Prints the decisions about a function, then the totals.
pub fn table(joint: &Joint, cut: &Cut, decisions: &[Decision]) {
    let name = joint.function.symbol().unwrap_or_default();
    println!("partition of @{name}:");
    let (saved, recomputed): (Vec<_>, Vec<_>) = decisions.iter().partition(|decision| decision.choice == CHOICES[0]);
    for decision in saved {
        println!("  {:>12} bytes  {}  {}", decision.number("bytes").unwrap_or_default(), placed(&decision.site), decision.reason);
    }
    let everything = minimum(joint, Price::NOTHING).saved_bytes(joint);
    println!("  {} bytes saved, {everything} if memory were free; {} operations computed again", cut.saved_bytes(joint), recomputed.len());
    for decision in recomputed {
        println!("    again: {}", placed(&decision.site));
    }
}

/// The object of a decision, with the line after its name and before its type.
fn placed(site: &Site) -> String {
    let (name, ty) = site.what.split_at(site.what.find(" : ").unwrap_or(site.what.len()));
    let line = if site.location.is_empty() { String::new() } else { format!(" ({})", site.location) };
    format!("{name}{line}{ty}")
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
        println!("  v{value} [label=\"{}\", fontcolor={side}{shape}]", named(joint, value).replace('"', "'"));
        for operand in joint.def[value].into_iter().flat_map(|at| &joint.uses[at]) {
            println!("  v{operand} -> v{value}");
        }
    }
    println!("}}");
}

fn what(joint: &Joint, value: usize) -> String {
    match joint.def[value] {
        None => format!("argument {value} : {}", joint.values[value].ty()),
        Some(at) => format!("{} : {}", short_name(joint.ops[at]), joint.values[value].ty()),
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

fn named(joint: &Joint, value: usize) -> String {
    let location = joint.def[value].map_or_else(String::new, |at| joint.ops[at].loc().place());
    placed(&Site { what: what(joint, value), location })
}

fn short_name(op: Op) -> String {
    op.name().trim_start_matches("dynamo.").to_owned()
}
