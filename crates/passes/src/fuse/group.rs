//! Decides which operations share a kernel.
//!
//! Fusion is greedy over the straight line: an operation starts alone and joins the groups that produce its operands, the one whose union
//! saves most memory traffic first. Then groups that read the same value over the same domain join, if they are not separated by an extern
//! call and the saving is worth it.
//!
//! A union is refused if it would have to run before itself, if its parts have no common domain and reduced dims, or if it becomes too
//! large. A product absorbs pointwise operations on its result, and the operands of these.

use dynamlir_decisions::{Decision, Site};
use dynamlir_dialect::ops::ConvertOp;
use dynamlir_shapes::Dim;

use super::{
    Kind, PASS, expected,
    graph::{Graph, Group},
    is_table, row_of,
};

/// With fewer rows than this and …
const FEW_ROWS: i64 = 8;
/// … at least this many elements, a kernel of several phases would run on one thread: phases are parallel over rows.
const LARGE: i64 = 1 << 20;
/// The maximum number of pointwise operations that a scan absorbs.
const SCAN_PRODUCERS: usize = 4;
/// The number of earlier readers of a value that a group is compared with.
const NEIGHBOURS: usize = 8;

pub(super) fn run(graph: &mut Graph) {
    for number in 0..graph.ops.len() {
        let kind = graph.kinds[number];
        // Constants have been split by now: one with a user other than a kernel has no kernel as a user.
        let is_stored = kind.is_constant()
            && graph.ops[number]
                .result(0)
                .uses()
                .iter()
                .any(|used| is_table(used.op, used.index) || graph.number(used.op).is_some_and(|user| !graph.kinds[user].is_compute()));
        if kind.is_compute() || is_stored {
            let own = graph.start(number);
            join_producers(graph, number, own);
        }
    }
    join_siblings(graph);
}

fn join_producers(graph: &mut Graph, number: usize, own: usize) {
    let mut candidates: Vec<usize> = Vec::new();
    for &def in &graph.after[number] {
        let source = if graph.kinds[def] == Kind::Broadcast { graph.def(graph.ops[def].operand(0)) } else { Some(def) };
        candidates.extend(source.and_then(|source| graph.group_of[source]));
    }
    candidates.sort_unstable();
    candidates.dedup();
    loop {
        // Refusals can depend on what joined meanwhile, so each round tries all candidates again.
        let tried: Vec<_> = candidates.iter().map(|&other| (other, unite(graph, other, own))).collect();
        let best = tried
            .iter()
            .filter_map(|(other, union)| Some((*other, union.as_ref().ok()?)))
            .max_by_key(|&(other, union)| (union.saved, other));
        let Some((other, union)) = best else {
            for (other, union) in tried {
                if let Err(reason) = union {
                    report_refusal(graph, other, number, reason);
                }
            }
            return;
        };
        let union = union.clone();
        report_union(graph, other, number, &union);
        graph.merge(other, own, union.group, &union.before);
        candidates.retain(|&group| group != other);
    }
}

/// Joins groups that read the same value.
pub(super) fn join_siblings(graph: &mut Graph) {
    let mut readers: std::collections::HashMap<_, Vec<usize>> = std::collections::HashMap::new();
    for own in 0..graph.groups.len() {
        if graph.groups[own].members.is_empty() {
            continue;
        }
        let inputs = graph.interface(&graph.groups[own]).inputs;
        let mut near: Vec<usize> =
            inputs.iter().filter_map(|input| readers.get(input)).flat_map(|groups| groups.iter().rev().take(NEIGHBOURS).copied()).collect();
        near.sort_unstable();
        near.dedup();
        let mut survivor = own;
        for other in near.into_iter().rev() {
            if graph.groups[other].members.is_empty() || !same_stretch(graph, other, survivor) {
                continue;
            }
            let number = graph.groups[survivor].members[0];
            let worth = |union: &Union| union.saved * 8 >= union.smaller;
            match unite_siblings(graph, other, survivor) {
                Ok(union) if worth(&union) => {
                    report_union(graph, other, number, &union);
                    graph.merge(survivor, other, union.group, &union.before);
                    survivor = other;
                }
                Ok(union) => report_refusal(graph, other, number, format!("saves only {} bytes", union.saved)),
                Err(reason) => report_refusal(graph, other, number, reason),
            }
        }
        for input in inputs {
            let groups = readers.entry(input).or_default();
            if !groups.contains(&survivor) {
                groups.push(survivor);
            }
        }
    }
}

/// Returns true if the groups are not separated by an extern call: joining across one would extend lifetimes, by an amount that depends on
/// the model's length.
pub(super) fn same_stretch(graph: &Graph, a: usize, b: usize) -> bool {
    let ends = |group: usize| {
        let members = &graph.groups[group].members;
        let number = |at: Option<&usize>| at.map_or(0, |&member| graph.ordered_before[member]);
        (number(members.first()), number(members.last()))
    };
    let ((first_a, last_a), (first_b, last_b)) = (ends(a), ends(b));
    first_b <= last_a && first_a <= last_b
}

/// A candidate union and its savings.
#[derive(Clone)]
struct Union {
    group: Group,
    saved: i64,
    /// Memory traffic of the smaller part.
    smaller: i64,
    /// The places of the units between its parts that have to run before the union.
    before: Vec<usize>,
}

fn unite_siblings(graph: &Graph, a: usize, b: usize) -> Result<Union, String> {
    let (first, second) = (&graph.groups[a], &graph.groups[b]);
    if first.domain == second.domain && first.reduced.is_empty() != second.reduced.is_empty() {
        return Err("siblings, and only one of them reduces".into());
    }
    unite(graph, a, b)
}

fn unite(graph: &Graph, a: usize, b: usize) -> Result<Union, String> {
    let (first, second) = (&graph.groups[a], &graph.groups[b]);
    let (domain, reduced) = common_domain(first, second)?;
    // A scan's loop is not vectorized. Computations on its elements do better in their own loop, except conversions for storing them.
    if first.scan && !second.members.iter().all(|&member| graph.ops[member].is(ConvertOp::NAME)) {
        return Err("a scan ends its kernel".into());
    }
    let mut members = [first.members.as_slice(), second.members.as_slice()].concat();
    members.sort_unstable();
    let (scan, product) = (first.scan || second.scan, first.product || second.product);
    let mut group = Group { members, domain, reduced, scan, product, traffic: 0 };
    if group.members.len() > graph.options.max_ops {
        return Err(format!("more than {} operations", graph.options.max_ops));
    }
    let interface = graph.interface(&group);
    if interface.args() > graph.options.max_args {
        return Err(format!("more than {} arguments", graph.options.max_args));
    }
    if group.scan && (group.members.len() > SCAN_PRODUCERS + 1 || interface.outputs.len() > 1) {
        return Err("a scan takes in only a few operations that nothing else uses".into());
    }
    if graph.gathers_own(&group) {
        return Err("what is gathered from, or multiplied, must be in memory".into());
    }
    if group.product && graph.knows_its_place(&group) {
        return Err("an epilogue is made block by block and must not ask for its place".into());
    }
    if runs_on_one_thread(graph, &group) {
        return Err("too few rows to share among threads".into());
    }
    let before = graph.before(&group, a, b).ok_or("what is between them would have to run inside the kernel")?;
    group.traffic = interface.traffic(&graph.scope);
    let saved = first.traffic + second.traffic - group.traffic;
    Ok(Union { group, saved, smaller: first.traffic.min(second.traffic), before })
}

/// The common D and R of two groups.
fn common_domain(a: &Group, b: &Group) -> Result<(Vec<Dim>, Vec<i64>), String> {
    let fits =
        |pointwise: &Group, rows: &Group| pointwise.domain == rows.domain || pointwise.domain == row_of(&rows.domain, &rows.reduced).1;
    match (a.reduced.is_empty(), b.reduced.is_empty()) {
        (true, true) if a.scan && !b.scan && !b.product && a.domain == b.domain => Ok((a.domain.clone(), a.reduced.clone())),
        _ if a.scan => Err("a scan ends its kernel".into()),
        _ if a.product && b.product => Err("two products".into()),
        _ if (a.product || b.product) && (b.scan || !a.reduced.is_empty() || !b.reduced.is_empty()) => {
            Err("an epilogue neither reduces nor scans".into())
        }
        (false, false) if a.domain == b.domain && a.reduced != b.reduced => {
            Err(format!("different reduced dims {:?} and {:?} of {:?}", a.reduced, b.reduced, a.domain))
        }
        (false, false) | (true, true) if a.domain == b.domain => Ok((a.domain.clone(), a.reduced.clone())),
        (true, false) if !b.scan && fits(a, b) => Ok((b.domain.clone(), b.reduced.clone())),
        (false, true) if !b.scan && fits(b, a) => Ok((a.domain.clone(), a.reduced.clone())),
        _ => Err(format!("different domains {:?} and {:?}", a.domain, b.domain)),
    }
}

/// Returns true for a kernel of several phases on a few long rows. Phases after the first need finished rows, so each row would be the work
/// of one thread.
fn runs_on_one_thread(graph: &Graph, group: &Group) -> bool {
    let rows = expected(&row_of(&group.domain, &group.reduced).1, &graph.scope);
    let elements = expected(&group.domain, &graph.scope);
    if group.reduced.is_empty() || rows >= FEW_ROWS || elements < LARGE {
        return false;
    }
    let reductions = group.members.iter().filter(|&&member| matches!(graph.kinds[member], Kind::Reduce | Kind::ArgReduce)).count();
    let spreads = group.members.iter().flat_map(|&member| &graph.after[member]).any(|&def| graph.spread_row(group, def).is_some());
    reductions > 1 || spreads
}

/// The name of a group in messages: its last operation.
fn label(graph: &Graph, group: usize) -> String {
    graph.groups[group].members.last().map(|&member| graph.name(member)).unwrap_or_default()
}

/// The alternatives for two groups.
const CHOICES: [&str; 2] = ["one kernel", "two kernels"];

fn report_union(graph: &mut Graph, other: usize, number: usize, union: &Union) {
    let decision = decision(graph, other, number, CHOICES[0]).because("values between them stay out of memory");
    record(graph, decision.with("saved_bytes", union.saved));
}

fn report_refusal(graph: &mut Graph, other: usize, number: usize, reason: String) {
    let decision = decision(graph, other, number, CHOICES[1]).because(reason);
    record(graph, decision);
}

fn decision(graph: &Graph, other: usize, number: usize, choice: &'static str) -> Decision {
    let what = format!("{} + {}", label(graph, other), graph.name(number));
    let location = graph.ops[number].loc().place();
    Decision::new(PASS.name, Site { what, location }, choice, &CHOICES)
}

fn record(graph: &mut Graph, decision: Decision) {
    if graph.options.print_fusion {
        eprintln!("{}", text(&decision));
    }
    graph.decisions.push(decision);
}

fn text(decision: &Decision) -> String {
    let what = &decision.site.what;
    match decision.number("saved_bytes") {
        Some(bytes) => format!("fuse: {what} saves {bytes} bytes"),
        None => format!("fuse: rejected {what}: {}", decision.reason),
    }
}
