//! The graph function as seen by fusion: numbered operations, the groups so far, and the values that a union of groups would read, write
//! and depend on.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
};

use super::{
    FuseOptions, Kind, bytes, elements, kind,
    line::{Line, Unit},
    reduced_dims, row_of, tables,
};
use dynamlir_decisions::Decision;
use dynamlir_dialect::{
    ir::{Block, Op, Value, sizes},
    ops::{BroadcastOp, CheckRangeOp, DynamoOp, GatherOp},
    pass::{PassError, PassResult},
};
use dynamlir_shapes::{Dim, Scope};

/// Operations that will share a kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Numbers of its operations, increasing. A group that was merged into another one is empty.
    pub(super) members: Vec<usize>,
    /// D.
    pub(super) domain: Vec<Dim>,
    /// R, as dims of D, increasing.
    pub(super) reduced: Vec<i64>,
    /// True for a scan: a loop with state. Only conversions of its elements may follow it in its kernel.
    pub(super) scan: bool,
    /// True if it contains a product.
    pub(super) product: bool,
    /// Bytes that it reads and writes.
    pub(super) traffic: i64,
}

/// The values that cross a kernel's boundary.
#[derive(Default)]
pub(super) struct Interface {
    /// Arguments in the order of first use.
    pub(super) inputs: Vec<Value>,
    /// The tables of gathers: the arguments after the inputs. A value may be both.
    pub(super) tables: Vec<Value>,
    pub(super) outputs: Vec<Value>,
    /// Bytes that gathers read: one element for each index.
    gathered: i64,
}

impl Interface {
    pub(super) fn traffic(&self, scope: &Scope) -> i64 {
        self.inputs.iter().chain(&self.outputs).map(|&value| bytes(value, scope)).sum::<i64>() + self.gathered
    }
    /// Number of the kernel's arguments, including results.
    pub(super) fn args(&self) -> usize {
        self.inputs.len() + self.tables.len() + self.outputs.len()
    }
}

pub(super) struct Graph {
    pub(super) ops: Vec<Op>,
    pub(super) kinds: Vec<Kind>,
    /// Numbers of the operations that each one must follow: definitions of its operands and, for extern calls, the extern call before it,
    /// since random ones must not be reordered.
    pub(super) after: Vec<Vec<usize>>,
    /// The number of ordered operations before each one.
    pub(super) ordered_before: Vec<usize>,
    pub(super) group_of: Vec<Option<usize>>,
    pub(super) groups: Vec<Group>,
    pub(super) options: FuseOptions,
    /// The known facts about the symbols in sizes.
    pub(super) scope: Scope,
    /// The declarations of the symbols, without assumed facts.
    pub(super) symbols: Vec<sizes::SizeSymbol>,
    index: HashMap<Op, usize>,
    /// All units in an order in which they can run.
    line: Line,
    /// The number that the printer gives the first result of each operation of the function.
    results: Vec<usize>,
    /// The decisions so far.
    pub(super) decisions: Vec<Decision>,
}

impl Graph {
    pub(super) fn of(function: Op, options: FuseOptions) -> Self {
        let mut graph = Self {
            ops: Vec::new(),
            kinds: Vec::new(),
            after: Vec::new(),
            ordered_before: Vec::new(),
            group_of: Vec::new(),
            groups: Vec::new(),
            options,
            scope: sizes::scope(function),
            symbols: sizes::declared(function),
            index: HashMap::new(),
            line: Line::default(),
            results: Vec::new(),
            decisions: Vec::new(),
        };
        let mut last_ordered = None;
        let (mut ordered, mut results) = (0, 0);
        for op in function.body().map(Block::ops).unwrap_or_default() {
            let number = graph.push(op, ordered);
            graph.results.push(results);
            results += usize::from(op.num_results() > 0);
            if graph.kinds[number] == Kind::Ordered {
                graph.after[number].extend(last_ordered);
                last_ordered = Some(number);
                // A check is not counted as a call: values that live across it do not live longer because of it.
                ordered += usize::from(!op.is(CheckRangeOp::NAME));
            }
        }
        graph.line = Line::of((0..graph.ops.len()).map(Unit::Op).collect());
        graph
    }

    /// Adds an operation that is already in the block.
    pub(super) fn push(&mut self, op: Op, ordered_before: usize) -> usize {
        let number = self.ops.len();
        self.after.push(op.operands().into_iter().filter_map(|value| self.def(value)).collect());
        self.ops.push(op);
        self.kinds.push(kind(op));
        self.ordered_before.push(ordered_before);
        self.group_of.push(None);
        self.index.insert(op, number);
        number
    }

    /// Adopts finished groups of a function, given as operations.
    pub(super) fn assign(&mut self, function: Op, groups: Vec<(Vec<Op>, Group)>) -> PassResult {
        for (ops, mut group) in groups {
            group.members = ops.into_iter().filter_map(|op| self.index.get(&op).copied()).collect();
            group.members.sort_unstable();
            group.traffic = self.interface(&group).traffic(&self.scope);
            for &member in &group.members {
                self.group_of[member] = Some(self.groups.len());
            }
            self.groups.push(group);
        }
        self.line = Line::of(self.in_order(function)?);
        Ok(())
    }

    /// The number of the operation that defines a value; `None` for arguments.
    pub(super) fn def(&self, value: Value) -> Option<usize> {
        self.index.get(&value.def()?).copied()
    }
    pub(super) fn number(&self, op: Op) -> Option<usize> {
        self.index.get(&op).copied()
    }
    /// The operation's name in messages.
    pub(super) fn name(&self, number: usize) -> String {
        let name = short_name(self.ops[number]);
        self.results.get(number).map_or_else(|| name.clone(), |result| format!("%{result} {name}"))
    }

    /// Starts a group of one operation.
    pub(super) fn start(&mut self, number: usize) -> usize {
        let op = self.ops[number];
        let reduced = reduced_dims(op);
        let shaped_like = if reduced.is_empty() { op.result(0) } else { op.operand(0) };
        let scan = self.kinds[number] == Kind::Scan;
        let product = self.kinds[number] == Kind::Product;
        let mut group = Group { members: vec![number], domain: shaped_like.ty().dims(), reduced, scan, product, traffic: 0 };
        group.traffic = self.interface(&group).traffic(&self.scope);
        self.groups.push(group);
        self.group_of[number] = Some(self.groups.len() - 1);
        self.line.start(number, self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// If `number` is a broadcast of a row of the group over its domain, returns the row's definition. Such a broadcast is computed inside
    /// the kernel.
    pub(super) fn spread_row(&self, group: &Group, number: usize) -> Option<usize> {
        if self.kinds[number] != Kind::Broadcast || group.reduced.is_empty() {
            return None;
        }
        let spread = BroadcastOp::cast(self.ops[number])?;
        if spread.result().ty().dims() != group.domain {
            return None;
        }
        let (kept, _) = row_of(&group.domain, &group.reduced);
        let row = self.def(spread.operand())?;
        (spread.dims() == kept && group.members.binary_search(&row).is_ok()).then_some(row)
    }

    pub(super) fn interface(&self, group: &Group) -> Interface {
        let mut interface = Interface::default();
        let inside = |number: usize| group.members.binary_search(&number).is_ok();
        for &member in &group.members {
            for table in tables(self.ops[member]) {
                // A product's operands cost the same bytes in every group.
                interface.gathered += if self.kinds[member] == Kind::Product { 0 } else { bytes(self.ops[member].result(0), &self.scope) };
                if !interface.tables.contains(&table) {
                    interface.tables.push(table);
                }
            }
            for operand in elements(self.ops[member]) {
                let def = self.def(operand);
                let is_local = def.is_some_and(|def| inside(def) || self.kinds[def].is_constant() || self.spread_row(group, def).is_some());
                if !is_local && !interface.inputs.contains(&operand) {
                    interface.inputs.push(operand);
                }
            }
            let result = self.ops[member].result(0);
            let escapes = result.uses().iter().any(|used| match self.number(used.op) {
                Some(user) if inside(user) => false,
                Some(user) if self.spread_row(group, user).is_some() => !self.is_internal(group, user),
                _ => true,
            });
            if escapes {
                interface.outputs.push(result);
            }
        }
        interface
    }

    /// Returns true if a member gathers from, or multiplies, a value that the kernel would compute itself.
    pub(super) fn gathers_own(&self, group: &Group) -> bool {
        let tables = group.members.iter().flat_map(|&member| tables(self.ops[member]));
        tables
            .filter_map(|table| self.def(table))
            .any(|def| group.members.binary_search(&def).is_ok() || self.spread_row(group, def).is_some())
    }

    /// Returns true if a member depends on its position in the domain, or computes one: epilogues are computed block by block.
    pub(super) fn knows_its_place(&self, group: &Group) -> bool {
        group.members.iter().any(|&member| {
            let op = self.ops[member];
            op.is(GatherOp::NAME) || self.kinds[member] == Kind::Iota || self.asks_for_place(op)
        })
    }

    /// Returns true if an operand of the operation is a counter (`iota`).
    pub(super) fn asks_for_place(&self, op: Op) -> bool {
        elements(op).filter_map(|value| self.def(value)).any(|def| self.kinds[def] == Kind::Iota)
    }

    /// Returns true if only the group uses an operation's result.
    pub(super) fn is_internal(&self, group: &Group, number: usize) -> bool {
        let uses = self.ops[number].result(0).uses();
        uses.iter().all(|used| self.number(used.op).is_some_and(|user| group.members.binary_search(&user).is_ok()))
    }

    /// The operations that those of a group must follow, excluding members and rows broadcast inside the group.
    pub(super) fn dependencies(&self, group: &Group) -> Vec<usize> {
        let all = group.members.iter().flat_map(|&member| self.after[member].iter().copied());
        all.filter(|&def| group.members.binary_search(&def).is_err() && self.spread_row(group, def).is_none()).collect()
    }

    /// The places of the units between two groups that would have to run before `united`, which replaces both. `None` if `united` would
    /// have to run before itself.
    pub(super) fn before(&self, united: &Group, a: usize, b: usize) -> Option<Vec<usize>> {
        let units = |numbers: Vec<usize>| numbers.into_iter().map(|number| self.unit(number));
        self.line.before((a, b), units(self.dependencies(united)), |unit, open| match unit {
            Unit::Group(group) => open.extend(units(self.dependencies(&self.groups[group]))),
            Unit::Op(number) => open.extend(self.after[number].iter().map(|&number| self.unit(number))),
        })
    }

    /// A topological order that stays close to the current one.
    pub(super) fn in_order(&self, function: Op) -> Result<Vec<Unit>, PassError> {
        let units: BTreeSet<_> = (0..self.ops.len()).map(|number| self.unit(number)).collect();
        let mut waits: HashMap<Unit, usize> = HashMap::new();
        let mut users: HashMap<Unit, Vec<Unit>> = HashMap::new();
        let mut place: HashMap<Unit, usize> = HashMap::new();
        for &unit in &units {
            let (numbers, first) = match unit {
                Unit::Op(number) => (self.after[number].clone(), number),
                Unit::Group(group) => (self.dependencies(&self.groups[group]), self.groups[group].members[0]),
            };
            place.insert(unit, numbers.iter().copied().max().unwrap_or(0).max(first));
            let needed: BTreeSet<_> = numbers.into_iter().map(|number| self.unit(number)).collect();
            waits.insert(unit, needed.len());
            for other in needed {
                users.entry(other).or_default().push(unit);
            }
        }
        let mut ready: BinaryHeap<_> = units.iter().filter(|unit| waits[unit] == 0).map(|&unit| Reverse((place[&unit], unit))).collect();
        let mut ordered = Vec::with_capacity(units.len());
        while let Some(Reverse((_, unit))) = ready.pop() {
            ordered.push(unit);
            for user in users.remove(&unit).unwrap_or_default() {
                let count = waits.entry(user).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    ready.push(Reverse((place[&user], user)));
                }
            }
        }
        if ordered.len() == units.len() {
            Ok(ordered)
        } else {
            Err(PassError::at(function, "internal error: fused groups depend on each other in a circle"))
        }
    }

    /// The unit that an operation belongs to: its group, or the operation itself.
    pub(super) fn unit(&self, number: usize) -> Unit {
        self.group_of[number].map_or(Unit::Op(number), Unit::Group)
    }

    /// Merges group `from` into group `into`.
    pub(super) fn merge(&mut self, from: usize, into: usize, group: Group, before: &[usize]) {
        self.line.join(from, into, before);
        for &member in &group.members {
            self.group_of[member] = Some(into);
        }
        self.groups[from] = Group::default();
        self.groups[into] = group;
    }
}

/// The operation's name without its dialect; for a reduction, the name of its kind.
pub(super) fn short_name(op: Op) -> String {
    match DynamoOp::of(op) {
        Some(DynamoOp::Reduce(reduce)) => reduce.kind().word().to_owned(),
        Some(DynamoOp::ArgReduce(reduce)) => format!("arg{}", reduce.kind().word()),
        Some(DynamoOp::Scan(scan)) => format!("cum{}", scan.kind().word()),
        Some(DynamoOp::Aten(call)) => format!("aten {}", call.schema()),
        Some(DynamoOp::Launch(launch)) => format!("launch {}", launch.kernel().name),
        _ => op.name().strip_prefix("dynamo.").map_or_else(|| op.name(), str::to_owned),
    }
}
