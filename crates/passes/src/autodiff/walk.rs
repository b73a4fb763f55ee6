//! The walk from the last operation to the first, with the gradients that have been found so far.

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
    nodes::{Class, Given, Led, Nodes, Of, Reached, Sum, Tangent},
    primitives,
    rules::{self, Keeps},
    vjp,
};
use crate::decompose::{Call, World};

/// Classes that give a value no gradient, and when they run.
type Missing = BTreeMap<Class, Reached>;

/// Gradients by the value that they are of.
pub struct Walk<'s> {
    function: Op,
    /// What is known of the symbols in sizes.
    scope: &'s Rc<Scope>,
    exit: Op,
    /// The values that have a history. Gradients of others are not asked for.
    histories: HashSet<Value>,
    /// The functions that `vjp` may name.
    pub functions: HashMap<String, Op>,
    as_one_node: bool,
    /// The results that users see with a gradient, by their values; empty where the function is to be one node.
    visible: HashMap<Value, Vec<usize>>,
    /// What has been added up so far, for each class that it comes from.
    sums: HashMap<Value, BTreeMap<Class, Sum>>,
    /// The gradients of results of operations that have been reached: each is of the class of its operation.
    known: HashMap<Value, Sum>,
    /// The class of the operation that is looked at, and the tangents that have reached it.
    class: Class,
    reached: Reached,
    /// The classes that run an operation which has given a value no gradient, and when: autograd goes on to what has made it all the same.
    missing: HashMap<Value, Missing>,
    /// Where nodes lead to though they give no gradient of it.
    led: Vec<Led>,
    /// The classes.
    pub nodes: Nodes,
    /// The tangents, first those of results that users see.
    pub tangents: Vec<Tangent>,
    /// Gradients of what nodes take from other nodes.
    given: Vec<Given>,
    /// The classes for whose gradients eager keeps something that these are not made of.
    pub once: BTreeSet<Class>,
    /// Values that nodes alone see. They come after all results that there are.
    pub hidden: Vec<Value>,
    /// The readers of each result that users see, as they were before its own operation was differentiated.
    readers: HashMap<Value, Vec<Op>>,
    /// Where a rule has given something that is no gradient of its operand.
    wrong: Option<String>,
}

impl<'s> Walk<'s> {
    /// Of a function, with no gradients yet; what rules emit goes before its `exit`.
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

    /// Begins at results, of which these are the tangents: as one node, or as many as there are classes.
    pub fn begin(&mut self, seeds: &[(usize, Value)], as_one_node: bool) {
        self.as_one_node = as_one_node;
        for &(result, tangent) in seeds {
            let value = self.exit.operand(result);
            // An argument that is returned is no cut: nobody can tell who uses the one and who the other.
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

    /// Whether a gradient of this value is asked for.
    pub fn needs(&self, value: Value) -> bool {
        self.histories.contains(&value)
    }

    /// The gradient of a result of the operation that is looked at, if any has reached it.
    pub fn gradient(&self, value: Value) -> Option<Value> {
        self.known.get(&value).map(|sum| sum.value)
    }

    /// Returns true for an operation of several results of which some may have a gradient in a walk in which others have none.
    pub fn may_be_partial(&self, op: Op) -> bool {
        let reached: Vec<&BTreeSet<usize>> =
            op.results().iter().filter_map(|result| self.known.get(result)).map(|sum| &sum.reached.results).collect();
        !self.as_one_node && reached.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// One more gradient of a value: what it is good for is added up.
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

    /// The tangents as they follow upon the arguments: in the order in which they were made.
    pub fn tangents_in_order(&self) -> Vec<&Tangent> {
        let mut tangents: Vec<&Tangent> = self.tangents.iter().collect();
        tangents.sort_by_key(|tangent| tangent.value.arg_index());
        tangents
    }

    /// The layout of a tensor like this value, in one piece.
    pub fn layout_like(&self, value: Value) -> Vec<Dim> {
        self.emit(self.exit.loc()).layout_like(value)
    }

    /// Takes all operations from the last to the first. Gives how many of them a gradient went through.
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

    /// Returns the gradients that the nodes give, of these arguments and of what they take from other nodes, and the edges along which
    /// they give none.
    pub fn finish(&mut self, arguments: &[(usize, Value)]) -> (Vec<Given>, Vec<Led>) {
        let mut found = Vec::new();
        for (at, value) in arguments {
            let of = Of::Argument(*at);
            let sums = self.sums.remove(value).unwrap_or_default();
            let missing = self.missing.remove(value).unwrap_or_default();
            self.led.extend(without_gradient(&missing, &sums).map(|class| Led { class, to: of }));
            found.extend(sums.into_iter().map(|(class, sum)| Given { class, of, sum }));
        }
        found.append(&mut self.given);
        (found, std::mem::take(&mut self.led))
    }

    /// Finds the class of an operation, all of whose users have been looked at, and the gradients of its results: from other classes
    /// they come by way of a result that nodes see. Returns false where its derivative does not run, since no gradient has reached it.
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
        // An operation that several nodes lead to is a node of its own even if no gradient reaches it: the first of them that is walked back
        // uses it up for the others.
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

    /// Takes an operation that autograd visits, if at all, without a gradient: so it visits what has made its operands.
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

    /// Notes that the operation that is looked at gives a value no gradient, though it has a history.
    pub fn miss(&mut self, value: Value) {
        if self.needs(value) {
            self.missing.entry(value).or_default().entry(self.class).or_default().extend(&self.reached);
        }
    }

    /// Notes what classes give of what another has made, and which of them lead to it without.
    fn give(&mut self, of: Of, sums: BTreeMap<Class, Sum>, missing: &Missing) {
        self.led.extend(without_gradient(missing, &sums).map(|class| Led { class, to: of }));
        self.given.extend(sums.into_iter().map(|(class, sum)| Given { class, of, sum }));
    }

    /// Notes that what is given from here on is there whenever the node of the operation runs.
    pub fn give_always(&mut self) {
        self.reached.always |= !self.as_one_node;
    }

    /// Makes the results of an operation that gradients have reached results which nodes see, as if users did: so autograd adds up all that
    /// reaches them, also by way of gradients that are differentiated in turn.
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

    /// The output that a value is, where that is a view: the gradients of what is made of it go by way of the output. A view of a whole
    /// result is the result's value, which has a tangent.
    fn shown(&self, op: Op, result: Value) -> Option<usize> {
        if self.as_one_node || self.visible.contains_key(&result) { None } else { shown(op, result.result_index()?) }
    }

    /// The gradient of what users see as these results: their tangents. What others have given goes to the result itself.
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
        // Each has a tangent, from the beginning.
        Sum { value: all.unwrap_or(self.tangents[0].value), reached }
    }

    /// The gradient of what users do not see; where other classes lead to it, a tangent.
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

    /// Erases what rules have emitted, which is what comes after `last`, and nothing uses.
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
            // Whether sizes are equal may depend on symbols.
            let is_open = op.operands().iter().any(|value| value.ty().is_open());
            return Err(if is_open { PassError::refusal(op, AUTOGRAD, message) } else { PassError::at(op, message) });
        }
        done.ok_or_else(|| PassError::refusal(op, AUTOGRAD, format!("no derivative of {} is known", name(op))))
    }

    /// Returns true for an operation whose node in eager keeps something, whatever its gradients are made of here: whoever walks back a
    /// second time is told that it is gone.
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

    /// Returns true for a result that users see if the formula of its own operation reads it, as eager's node does that keeps it. Known once
    /// what nothing uses has been erased.
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

/// Adds more classes to those that give no gradient.
fn extend(all: &mut Missing, more: &Missing) {
    for (class, reached) in more {
        all.entry(*class).or_default().extend(reached);
    }
}

/// The classes that lead to a value and give no gradient of it.
fn without_gradient(missing: &Missing, sums: &BTreeMap<Class, Sum>) -> impl Iterator<Item = Class> {
    missing.keys().copied().filter(|class| !sums.contains_key(class))
}

/// The output that a result of an operation is, where that is a view.
pub fn shown(op: Op, result: usize) -> Option<usize> {
    usize::try_from(*ops::SHOWN.of(op)?.get(result)?).ok()
}

/// How an operation is called in messages.
pub fn name(op: Op) -> String {
    AtenOp::cast(op).map_or_else(|| op.name(), AtenOp::schema)
}

fn location(value: Value, exit: Op) -> Loc {
    value.def().unwrap_or(exit).loc()
}
