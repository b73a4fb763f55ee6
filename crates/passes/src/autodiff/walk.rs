//! The walk from the last operation to the first, with the gradients found so far.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    rc::Rc,
};

use dynamlir_dialect::{
    ir::{Block, Builder, Loc, Op, Value},
    ops::{self, AtenOp, DynamoOp},
    pass::{PassError, PassResult},
    upstream::func,
};
use dynamlir_reasons::AUTOGRAD;
use dynamlir_shapes::{Dim, Scope};

use super::{
    at::At,
    aten::Aten,
    nodes::{Class, Led, NodeGradient, Nodes, Of, Reached, Sum, Tangent},
    primitives,
    rules::{self, Keeps},
    vjp,
};
use crate::{
    decompose::{Call, World},
    layouts::shown,
};

/// Classes that return no gradient for a value, and the condition under which they run.
type Missing = BTreeMap<Class, Reached>;

/// The state of the walk: the gradients found so far, by the values to which they belong.
pub struct Walk<'s> {
    function: Op,
    /// The known facts about symbols in sizes.
    scope: &'s Rc<Scope>,
    exit: Op,
    /// The values that have a history. Gradients of other values are not needed.
    histories: HashSet<Value>,
    /// The functions to which `vjp` may refer.
    pub functions: HashMap<String, Op>,
    as_one_node: bool,
    /// The results with a gradient that nodes see, by their values; empty if the function is one node.
    visible: HashMap<Value, Vec<usize>>,
    /// The sums of gradients so far, for each class that contributes.
    sums: HashMap<Value, BTreeMap<Class, Sum>>,
    /// The gradients of results of operations that have been reached; each belongs to the class of its operation.
    known: HashMap<Value, Sum>,
    /// The class of the current operation, and the tangents that have reached it.
    class: Class,
    reached: Reached,
    /// The classes with an operation that has returned no gradient for a value, and when it runs: autograd still visits the value's
    /// producer.
    missing: HashMap<Value, Missing>,
    /// The edges along which nodes return no gradient.
    led: Vec<Led>,
    /// The classes.
    pub nodes: Nodes,
    /// The tangents, first those of results that users see.
    pub tangents: Vec<Tangent>,
    /// Gradients of values that nodes take from other nodes.
    given: Vec<NodeGradient>,
    /// The classes for whose gradients eager saves something that the gradients here do not use.
    pub once: BTreeSet<Class>,
    /// Values that only nodes see. They are returned after all original results.
    pub hidden: Vec<Value>,
    /// The users of each visible result before its own operation was differentiated.
    readers: HashMap<Value, Vec<Op>>,
    /// A message about a rule whose gradient does not fit its operand.
    wrong: Option<String>,
}

impl<'s> Walk<'s> {
    /// Starts without gradients in a function; rules emit their ops before its `exit`.
    pub fn new(function: Op, scope: &'s Rc<Scope>, exit: Op, histories: HashSet<Value>, functions: HashMap<String, Op>) -> Self {
        Self {
            function,
            scope,
            exit,
            histories,
            functions,
            as_one_node: false,
            visible: HashMap::new(),
            sums: HashMap::new(),
            known: HashMap::new(),
            class: 0,
            reached: Reached::default(),
            missing: HashMap::new(),
            led: Vec::new(),
            nodes: Nodes::default(),
            tangents: Vec::new(),
            given: Vec::new(),
            once: BTreeSet::new(),
            hidden: Vec::new(),
            readers: HashMap::new(),
            wrong: None,
        }
    }

    /// Starts at results with these tangents, for a single node or one node for each class.
    pub fn begin(&mut self, seeds: &[(usize, Value)], as_one_node: bool) {
        self.as_one_node = as_one_node;
        for &(result, tangent) in seeds {
            let value = self.exit.operand(result);
            // A returned argument is not a cut: its uses as an argument and as a result cannot be distinguished.
            if !as_one_node && value.def().is_some() {
                self.visible.entry(value).or_default().push(result);
                self.tangents.push(Tangent { result, class: 0, value: tangent });
                continue;
            }
            let class = self.nodes.of(if as_one_node { BTreeSet::new() } else { BTreeSet::from([result]) });
            self.tangents.push(Tangent { result, class, value: tangent });
            (self.class, self.reached) = (class, Reached::by([result]));
            self.add(value, tangent);
        }
    }

    /// Returns true if a gradient of this value is needed.
    pub fn needs(&self, value: Value) -> bool {
        self.histories.contains(&value)
    }

    /// Returns the gradient of a result of the current operation, if one has reached it.
    pub fn gradient(&self, value: Value) -> Option<Value> {
        self.known.get(&value).map(|sum| sum.value)
    }

    /// Returns true for an operation of several results if a backward pass may reach some of them and not others.
    pub fn may_be_partial(&self, op: Op) -> bool {
        let reached: Vec<&BTreeSet<usize>> =
            op.results().iter().filter_map(|result| self.known.get(result)).map(|sum| &sum.reached.results).collect();
        !self.as_one_node && reached.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// Adds a gradient of a value to the sum of its class, unless the value does not need one.
    pub fn add(&mut self, value: Value, gradient: Value) {
        if !self.needs(value) {
            return;
        }
        let emit = self.emit(location(value, self.exit));
        let is_open = gradient.ty().is_open() || value.ty().is_open();
        let fitted = if is_open { emit.fitted(gradient, &value.ty().dims()).unwrap_or(gradient) } else { gradient };
        if fitted.ty() != value.ty() {
            self.wrong.get_or_insert_with(|| format!("a gradient of {} for {}", gradient.ty(), value.ty()));
            return;
        }
        let (class, reached) = (self.class, self.reached.clone());
        let of_classes = self.sums.entry(value).or_default();
        match of_classes.get_mut(&class) {
            Some(sum) => {
                sum.value = emit.add(sum.value, fitted);
                sum.reached.extend(&reached);
            }
            None => _ = of_classes.insert(class, Sum { value: fitted, reached }),
        }
    }

    /// Returns the tangents in the order of their arguments, which is the order of their creation.
    pub fn tangents_in_order(&self) -> Vec<&Tangent> {
        let mut tangents: Vec<&Tangent> = self.tangents.iter().collect();
        tangents.sort_by_key(|tangent| tangent.value.arg_index());
        tangents
    }

    /// Returns the layout of a dense tensor like this value.
    pub fn layout_like(&self, value: Value) -> Vec<Dim> {
        self.emit(self.exit.loc()).layout_like(value)
    }

    /// Visits all operations from the last to the first. Returns the number of operations that a gradient passed through.
    pub fn run(&mut self) -> Result<usize, PassError> {
        let emitted_before: Vec<Op> = self.function.body().map(Block::ops).unwrap_or_default();
        let mut count = 0;
        for op in emitted_before.into_iter().rev() {
            if self.settle(op) {
                count += 1;
                self.step(op)?;
            }
        }
        Ok(count)
    }

    /// Returns the gradients that the nodes return, of these arguments and of values from other nodes, and the edges along which they
    /// return none.
    pub fn finish(&mut self, arguments: &[(usize, Value)]) -> (Vec<NodeGradient>, Vec<Led>) {
        let mut found = Vec::new();
        for (at, value) in arguments {
            let of = Of::Argument(*at);
            let sums = self.sums.remove(value).unwrap_or_default();
            let missing = self.missing.remove(value).unwrap_or_default();
            self.led.extend(without_gradient(&missing, &sums).map(|class| Led { class, to: of }));
            found.extend(sums.into_iter().map(|(class, sum)| NodeGradient { class, of, sum }));
        }
        found.append(&mut self.given);
        (found, std::mem::take(&mut self.led))
    }

    /// Finds the class of an operation, all of whose users have been visited, and the gradients of its results: gradients from other
    /// classes arrive through a result that nodes see. Returns false if its derivative does not run, since no gradient has reached it.
    fn settle(&mut self, op: Op) -> bool {
        let mut set = BTreeSet::new();
        let mut is_reached = false;
        let mut leading: BTreeSet<Class> = BTreeSet::new();
        if ops::NOT_LINEAR.is_on(op) {
            self.cut(op);
        }
        for result in op.results() {
            if self.shown(op, result).is_some() {
                continue;
            }
            if let Some(seen) = self.visible.get(&result) {
                is_reached = true;
                set.insert(seen[0]);
                continue;
            }
            let sums = self.sums.get(&result);
            let missing = self.missing.get(&result);
            is_reached |= sums.is_some() || missing.is_some() && ops::MATERIALIZED.is_on(op);
            leading.extend(missing.into_iter().flat_map(BTreeMap::keys));
            for class in sums.into_iter().flat_map(BTreeMap::keys) {
                set.extend(self.nodes.set(*class));
            }
        }
        for class in &leading {
            set.extend(self.nodes.set(*class));
        }
        // An operation to which several nodes lead is a node of its own, even if no gradient reaches it: the first backward pass through
        // one of them frees its saved tensors for the others.
        if !is_reached && leading.len() < 2 {
            self.pass_on(op);
            return false;
        }
        self.class = self.nodes.of(set);
        self.reached = Reached::default();
        let mut without = Reached::default();
        for result in op.results() {
            let sums = self.sums.remove(&result).unwrap_or_default();
            let missing = self.missing.remove(&result).unwrap_or_default();
            if let Some(output) = self.shown(op, result) {
                self.give(Of::Output(output), sums, &missing);
                continue;
            }
            missing.get(&self.class).into_iter().for_each(|reached| without.extend(reached));
            let sum = match self.visible.get(&result).cloned() {
                Some(seen) => Some(self.seen(&seen, sums, &missing)),
                None => self.sum_of(result, sums, missing),
            };
            if let Some(sum) = sum {
                self.reached.extend(&sum.reached);
                self.known.insert(result, sum);
            }
        }
        if ops::MATERIALIZED.is_on(op)
            && op.results().iter().all(|result| !self.known.contains_key(result))
            && let Some(result) = op.results().into_iter().find(|result| self.needs(*result))
        {
            let value = self.emit(op.loc()).zeros(result);
            self.reached.extend(&without);
            self.known.insert(result, Sum { value, reached: without });
        }
        true
    }

    /// Handles an operation that autograd visits without a gradient, if at all: it then visits the producers of its operands the same way.
    fn pass_on(&mut self, op: Op) {
        let mut missing = Missing::new();
        for result in op.results() {
            let own = self.missing.remove(&result).unwrap_or_default();
            if let Some(output) = self.shown(op, result) {
                let sums = self.sums.remove(&result).unwrap_or_default();
                self.give(Of::Output(output), sums, &own);
            } else {
                extend(&mut missing, &own);
            }
        }
        if !missing.is_empty() {
            if self.keeps(op) {
                self.once.extend(missing.keys());
            }
            let operands: Vec<Value> = op.operands().into_iter().filter(|operand| self.needs(*operand)).collect();
            for operand in operands {
                extend(self.missing.entry(operand).or_default(), &missing);
            }
        }
    }

    /// Records that the current operation returns no gradient for a value although the value has a history.
    pub fn miss(&mut self, value: Value) {
        if self.needs(value) {
            self.missing.entry(value).or_default().entry(self.class).or_default().extend(&self.reached);
        }
    }

    /// Records the gradients that classes return for a value of another class, and the classes that lead to it without one.
    fn give(&mut self, of: Of, sums: BTreeMap<Class, Sum>, missing: &Missing) {
        self.led.extend(without_gradient(missing, &sums).map(|class| Led { class, to: of }));
        self.given.extend(sums.into_iter().map(|(class, sum)| NodeGradient { class, of, sum }));
    }

    /// Records that gradients added from here on are present whenever the operation's node runs.
    pub fn give_always(&mut self) {
        self.reached.always |= !self.as_one_node;
    }

    /// Makes the results of an operation that gradients have reached visible to nodes, as if users saw them. So autograd sums all gradients
    /// that reach them, including those from double backward.
    fn cut(&mut self, op: Op) {
        let is_hidden = |result: &Value| !self.visible.contains_key(result) && self.sums.contains_key(result);
        let results: Vec<Value> = op.results().into_iter().filter(is_hidden).collect();
        for result in results.into_iter().filter(|_| !self.as_one_node) {
            let number = self.exit.num_operands() + self.hidden.len();
            let Some(argument) = self.function.body().map(|body| body.add_arg(result.ty(), self.exit.loc())) else { continue };
            self.hidden.push(result);
            self.tangents.push(Tangent { result: number, class: 0, value: argument });
            self.visible.insert(result, vec![number]);
        }
    }

    /// Returns the output that a value is, if the output is a view: gradients of values computed from it arrive through that output. A view
    /// of a whole result is the result's value itself, which has a tangent.
    fn shown(&self, op: Op, result: Value) -> Option<usize> {
        if self.as_one_node || self.visible.contains_key(&result) { None } else { shown(op, result.result_index()?) }
    }

    /// Returns the gradient of a value that users see as these results: the sum of their tangents. Gradients from other classes belong to
    /// the result itself.
    fn seen(&mut self, results: &[usize], sums: BTreeMap<Class, Sum>, missing: &Missing) -> Sum {
        let class = self.class;
        sums.keys().chain(missing.keys()).for_each(|other| self.nodes.comes_after(*other, class));
        self.give(Of::Result(results[0]), sums, missing);
        let emit = self.emit(self.exit.loc());
        let mut all: Option<Value> = None;
        for tangent in self.tangents.iter_mut().filter(|tangent| results.contains(&tangent.result)) {
            tangent.class = class;
            all = Some(all.map_or(tangent.value, |all| emit.add(all, tangent.value)));
        }
        let reached = Reached::by(results.iter().copied());
        // Each result has had a tangent from the beginning.
        Sum { value: all.unwrap_or(self.tangents[0].value), reached }
    }

    /// Returns the gradient of a value that users do not see; if other classes lead to it, the value becomes a hidden result with a
    /// tangent.
    fn sum_of(&mut self, value: Value, mut sums: BTreeMap<Class, Sum>, mut missing: Missing) -> Option<Sum> {
        let class = self.class;
        let own = sums.remove(&class);
        missing.remove(&class);
        if sums.is_empty() && missing.is_empty() {
            return own;
        }
        let result = self.exit.num_operands() + self.hidden.len();
        self.hidden.push(value);
        sums.keys().chain(missing.keys()).for_each(|other| self.nodes.comes_after(*other, class));
        self.give(Of::Result(result), sums, &missing);
        let argument = self.function.body()?.add_arg(value.ty(), self.exit.loc());
        self.tangents.push(Tangent { result, class, value: argument });
        let mut reached = Reached::by([result]);
        let sum = match own {
            Some(own) => {
                reached.extend(&own.reached);
                self.emit(location(value, self.exit)).add(own.value, argument)
            }
            None => argument,
        };
        Some(Sum { value: sum, reached })
    }

    /// Erases the unused ops among those that rules have emitted, which come after `last`.
    pub fn sweep(&self, last: Option<Op>, exit: Op) {
        let first = last.map_or_else(|| self.function.body().and_then(|block| block.ops().first().copied()), Op::next);
        let emitted: Vec<Op> = std::iter::successors(first, |op| op.next()).take_while(|op| *op != exit).collect();
        for op in emitted.into_iter().rev() {
            if op.is_unused() {
                op.erase();
            }
        }
    }

    fn step(&mut self, op: Op) -> PassResult {
        if !op.operands().into_iter().any(|operand| self.needs(operand)) {
            return Ok(());
        }
        if !self.once.contains(&self.class) && self.keeps(op) {
            self.once.insert(self.class);
        }
        for result in op.results().into_iter().filter(|result| self.visible.contains_key(result)) {
            self.readers.insert(result, result.uses().into_iter().map(|using| using.op).collect());
        }
        let emit = self.emit(op.loc());
        let done = match DynamoOp::of(op) {
            Some(DynamoOp::Aten(call)) if call.vjp().is_some() => return vjp::apply(self, call, emit),
            Some(DynamoOp::Aten(call)) => self.by_rule(call, emit),
            Some(primitive) => primitives::differentiate(primitive, &mut At::new(self, op, emit)),
            None => None,
        };
        if let Some(wrong) = self.wrong.take() {
            let message = format!("the derivative of {} gives {wrong}", name(op));
            // Equality of sizes may depend on symbols.
            let is_open = op.operands().iter().any(|value| value.ty().is_open());
            return Err(if is_open { PassError::refusal(op, AUTOGRAD, message) } else { PassError::at(op, message) });
        }
        done.ok_or_else(|| PassError::refusal(op, AUTOGRAD, format!("no derivative of {} is known", name(op))))
    }

    /// Returns true for an operation whose node in eager saves something, regardless of what its gradients use here: a second backward pass
    /// raises, since it has been freed.
    fn keeps(&self, op: Op) -> bool {
        if ops::ONCE.is_on(op) {
            return true;
        }
        let Some(call) = AtenOp::cast(op) else { return false };
        if let Some(derivative) = call.vjp() {
            return self.functions.get(&derivative.name).is_some_and(|function| ops::ONCE.is_on(*function));
        }
        match rules::find(&call.schema()).map(|row| row.keeps) {
            Some(Keeps::Something) => true,
            Some(Keeps::For(arguments)) => {
                let call = Call::new(op, World::default(), Rc::clone(self.scope));
                let tensor = |&argument: &usize| call.as_ref()?.tensor(argument);
                arguments.iter().filter_map(tensor).any(|value| self.needs(value))
            }
            Some(Keeps::Nothing) | None => false,
        }
    }

    /// Returns true for a result that users see if the gradient formula of its own operation reads it, as eager's node does if it saves the
    /// result. Valid only after unused ops have been erased.
    pub fn keeps_result(&self, result: usize, value: Value) -> bool {
        let is_first = self.visible.get(&value).is_some_and(|seen| seen[0] == result);
        let Some(before) = self.readers.get(&value).filter(|_| is_first) else { return false };
        value.uses().iter().any(|using| !using.op.is(func::RETURN) && !before.contains(&using.op))
    }

    fn emit(&self, loc: Loc) -> Aten<'s> {
        Aten::new(self.function, self.scope, Builder::before(self.exit).with_loc(loc))
    }

    fn by_rule(&mut self, call: AtenOp, emit: Aten<'s>) -> Option<()> {
        let mut at = At::new(self, call.op(), emit);
        let rule = if at.has_complex() { rules::of_complex(&call.schema())? } else { rules::find(&call.schema())?.rule };
        let done = rule(&mut at);
        done.filter(|()| !at.c().is_some_and(Call::is_misread))
    }
}

/// Adds more classes to those that return no gradient.
fn extend(all: &mut Missing, more: &Missing) {
    for (class, reached) in more {
        all.entry(*class).or_default().extend(reached);
    }
}

/// Returns the classes that lead to a value and return no gradient of it.
fn without_gradient(missing: &Missing, sums: &BTreeMap<Class, Sum>) -> impl Iterator<Item = Class> {
    missing.keys().copied().filter(|class| !sums.contains_key(class))
}

/// Returns the name of an operation for messages.
pub fn name(op: Op) -> String {
    AtenOp::cast(op).map_or_else(|| op.name(), AtenOp::schema)
}

fn location(value: Value, exit: Op) -> Loc {
    value.def().unwrap_or(exit).loc()
}
