//! Runs steps on a stack of expressions; steps with side effects become statements.
//!
//! A statement may only be created when no expression is half computed: an expression left on the stack below would move past it. Operands
//! must have been pushed in the order in which the expression evaluates them. Code that violates either rule is refused, except for a few
//! patterns that compilers produce. So the result never has a wrong order of evaluation.

use dynamlir_bytecode::Const;

use crate::{
    Problem,
    ast::{Arg, Clause, Expr, Marker, Stmt, Unary},
    cases, displays, functions, generics, imports,
    op::{Keeps, NullAt, Op, Scope},
    stores,
};

/// An entry of the stack.
#[derive(Clone, Debug)]
pub(crate) struct Slot<'a> {
    pub expr: Expr<'a>,
    /// The time of the push, as a counter.
    pub order: u32,
}

/// A value being unpacked.
#[derive(Clone, Debug)]
pub(crate) struct Unpacking<'a> {
    pub value: Slot<'a>,
    pub targets: Vec<Option<Expr<'a>>>,
    pub star: Option<usize>,
}

/// The state between two steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct State<'a> {
    pub stack: Vec<Slot<'a>>,
    pub pushed: u32,
    pub unpackings: Vec<Unpacking<'a>>,
    /// The stores of `a, b = b, a` so far: time of the value's push, target, value.
    pub parallel: Vec<(u32, Expr<'a>, Expr<'a>)>,
    /// Entered context managers that have not become a statement yet; true if async.
    pub entered: Vec<(Expr<'a>, bool)>,
    keywords: &'a [Const],
}

/// Names that a function must declare.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared<'a> {
    pub globals: Vec<&'a str>,
    pub nonlocals: Vec<&'a str>,
    /// Names stored by inner comprehensions.
    pub through: Vec<&'a str>,
    /// Cells and free variables that are used.
    pub used: Vec<&'a str>,
    /// Variables of comprehensions that are inlined into the function.
    pub hidden: Vec<&'a str>,
    /// Locals whose loads check that they are set, and that are not globals elsewhere.
    pub checked: Vec<&'a str>,
    /// Locals that are stored.
    pub locals: Vec<&'a str>,
}

impl<'a> Declared<'a> {
    pub fn note(&mut self, scope: Scope, name: &'a str) {
        let names = match scope {
            Scope::Global => &mut self.globals,
            Scope::Free => &mut self.nonlocals,
            Scope::Local => &mut self.locals,
            Scope::Name => return,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
}

impl<'a> Declared<'a> {
    /// Records the cells that an inner comprehension stores: they are this function's own, or cells of an enclosing one.
    pub fn passed(&mut self, names: Vec<&'a str>) {
        self.through.extend(names);
    }
}

/// Returns true for an expression that may only be on the stack: a placeholder in a statement, not a value.
fn is_place(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Marker(_) | Expr::Module(_, _, Some(_), _))
}

impl<'a> State<'a> {
    pub fn push(&mut self, expr: Expr<'a>) {
        self.pushed += 1;
        self.stack.push(Slot { expr, order: self.pushed });
    }

    pub fn slot(&mut self) -> Result<Slot<'a>, Problem> {
        self.stack.pop().ok_or(Problem::Stack("more is popped than there is"))
    }

    /// Pops an operand.
    pub fn value(&mut self) -> Result<Slot<'a>, Problem> {
        let slot = self.slot()?;
        let expr = match slot.expr {
            Expr::Stored(targets, value) => stores::walrus(targets, functions::settle(*value)?)?,
            Expr::Function(_) => functions::settle(slot.expr)?,
            Expr::Marker(_) | Expr::Null | Expr::Element(..) | Expr::Module(..) | Expr::Imported(..) => {
                return Err(Problem::Stack("a place in a statement is used as a value"));
            }
            expr => expr,
        };
        Ok(Slot { expr, order: slot.order })
    }

    /// Pops operands that were pushed in order.
    pub fn values(&mut self, count: usize) -> Result<Vec<Slot<'a>>, Problem> {
        let mut slots = Vec::with_capacity(count.min(self.stack.len()));
        for _ in 0..count {
            slots.push(self.value()?);
        }
        slots.reverse();
        in_order(&slots)?;
        Ok(slots)
    }

    pub fn pair(&mut self) -> Result<(Expr<'a>, Expr<'a>), Problem> {
        let mut slots = self.values(2)?;
        let second = slots.pop().ok_or(Problem::Malformed)?.expr;
        let first = slots.pop().ok_or(Problem::Malformed)?.expr;
        Ok((first, second))
    }

    /// Returns the entry `n` below the top, counted from 1.
    pub fn peek(&mut self, n: usize) -> Result<&mut Slot<'a>, Problem> {
        let at = self.stack.len().checked_sub(n).ok_or(Problem::Stack("more is looked at than there is"))?;
        self.stack.get_mut(at).ok_or(Problem::Stack("nothing is copied"))
    }

    /// Returns true if a value is half computed.
    pub fn is_pending(&self) -> bool {
        !self.parallel.is_empty() || self.stack.iter().any(|slot| !is_place(&slot.expr))
    }

    /// Appends a statement.
    pub fn emit(&self, statement: Stmt<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
        if self.is_pending() {
            return Err(Problem::Stack("a statement while an expression is being computed"));
        }
        out.push(statement);
        Ok(())
    }
}

pub(crate) fn in_order(slots: &[Slot<'_>]) -> Result<(), Problem> {
    let ordered = slots.windows(2).all(|pair| pair[0].order < pair[1].order);
    ordered.then_some(()).ok_or(Problem::Stack("operands out of order"))
}

pub(crate) fn boxed(slot: Slot<'_>) -> Box<Expr<'_>> {
    Box::new(slot.expr)
}

/// Runs steps.
pub(crate) fn run<'a>(ops: &[Op<'a>], state: &mut State<'a>, declared: &mut Declared<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    for op in ops {
        one(op, state, declared, out)?;
    }
    Ok(())
}

/// Runs the steps of an expression.
pub(crate) fn evaluate<'a>(ops: &[Op<'a>], start: Option<Expr<'a>>, declared: &mut Declared<'a>) -> Result<Expr<'a>, Problem> {
    let mut state = State::default();
    let mut out = Vec::new();
    if let Some(expr) = start {
        state.push(expr);
    }
    run(ops, &mut state, declared, &mut out)?;
    let value = state.value()?.expr;
    if state.stack.is_empty() && out.is_empty() { Ok(value) } else { Err(Problem::Stack("an expression with statements")) }
}

fn one<'a>(op: &Op<'a>, state: &mut State<'a>, declared: &mut Declared<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    match op {
        Op::Push(expr) => state.push(expr.clone()),
        Op::Copy(n) => {
            let slot = state.peek(*n)?;
            let copy = Expr::Copy(slot.order, Box::new(slot.expr.clone()));
            state.push(copy);
        }
        Op::Swap(n) => {
            let top = state.stack.len();
            let other = top.checked_sub(*n).ok_or(Problem::Stack("more is swapped than there is"))?;
            if top == 0 || other >= top {
                return Err(Problem::Malformed);
            }
            state.stack.swap(other, top - 1);
        }
        Op::Pop => pop(state, out)?,
        Op::Unary(operator) => {
            let operand = state.value()?;
            let expr = if *operator == Unary::Not { negate(operand.expr) } else { Expr::Unary(*operator, boxed(operand)) };
            state.push(expr);
        }
        Op::Binary(symbol) => {
            let (left, right) = state.pair()?;
            state.push(Expr::Binary(symbol, Box::new(left), Box::new(right)));
        }
        Op::InPlace(symbol) => {
            let (left, right) = state.pair()?;
            state.push(Expr::InPlace(symbol, Box::new(left), Box::new(right)));
        }
        Op::Compare(symbol) => {
            let (left, right) = compared(state)?;
            state.push(Expr::Compare(Box::new(left), vec![(symbol, right)]));
        }
        Op::IsNone => {
            // At the end of a chain, the operand is the placeholder for the value compared before.
            let chained = matches!(state.peek(1)?.expr, Expr::Marker(Marker::Item));
            let value = if chained { state.slot()? } else { state.value()? };
            state.push(Expr::Compare(boxed(value), vec![("is", Expr::Const(&crate::lift::NONE))]));
        }
        Op::Attribute(name) => {
            let value = state.value()?;
            state.push(Expr::Attribute(boxed(value), name));
        }
        Op::Method(name, null) => {
            let value = state.value()?;
            called(state, Expr::Attribute(boxed(value), name), *null);
        }
        Op::Super(name, explicit, null) => {
            let mut slots = state.values(3)?.into_iter().map(|slot| slot.expr);
            let function = slots.next().ok_or(Problem::Malformed)?;
            let arguments = if *explicit { slots.map(Arg::Positional).collect() } else { Vec::new() };
            let attribute = Expr::Attribute(Box::new(Expr::Call(Box::new(function), arguments)), name);
            match null {
                Some(null) => called(state, attribute, *null),
                None => state.push(attribute),
            }
        }
        Op::Subscript => {
            let (value, key) = state.pair()?;
            state.push(Expr::Subscript(Box::new(value), Box::new(key)));
        }
        Op::KeywordNames(names) => state.keywords = names,
        Op::Call(count) => {
            let keywords = std::mem::take(&mut state.keywords);
            functions::call(state, declared, *count, keywords)?;
        }
        Op::CallKeywords(count) => match state.value()?.expr {
            Expr::Const(Const::Tuple(names)) => functions::call(state, declared, *count, names)?,
            _ => return Err(Problem::Malformed),
        },
        Op::CallEx(keywords) => functions::call_ex(state, *keywords)?,
        Op::Function(flags) => functions::make(state, *flags)?,
        Op::FunctionAttribute(flag) => functions::set_attribute(state, *flag)?,
        // A generator expression that unpacks yields the item without storing it.
        Op::Yield if state.peek(1)?.expr == Expr::Marker(Marker::Item) => {
            state.slot()?;
            state.push(Expr::Marker(Marker::Sent));
            state.emit(Stmt::Append(Expr::Marker(Marker::Item), None), out)?;
        }
        Op::Yield => wrap(state, Expr::Yield)?,
        Op::YieldFrom => wrap(state, Expr::YieldFrom)?,
        Op::Await => {
            match &mut state.peek(1)?.expr {
                // Entering an `async with` also awaits.
                Expr::Marker(Marker::Entered) => {}
                Expr::Comprehension(made) if made.awaited => made.awaited = false,
                _ => wrap(state, Expr::Await)?,
            }
        }
        Op::Iter => wrap(state, Expr::Iterated)?,
        Op::Group => wrap(state, Expr::Group)?,
        Op::And(rest) => {
            let left = state.value()?;
            let right = evaluate(rest, None, declared)?;
            state.push(Expr::Bool(true, boxed(left), Box::new(right)));
        }
        // Cases with the same body are one case.
        Op::Or(rest) if let [Op::Case(found, Keeps::Subject)] = &rest[..] => cases::or(found, state, declared)?,
        Op::Or(rest) => {
            let left = state.value()?;
            let right = evaluate(rest, None, declared)?;
            state.push(Expr::Bool(false, boxed(left), Box::new(right)));
        }
        Op::IfElse(then, other) => {
            let test = state.value()?;
            let (then, other) = (evaluate(then, None, declared)?, evaluate(other, None, declared)?);
            state.push(Expr::IfElse(boxed(test), Box::new(then), Box::new(other)));
        }
        Op::Chain(symbol, rest) => {
            let (left, middle) = compared(state)?;
            let Expr::Compare(start, mut more) = evaluate(rest, Some(Expr::Marker(Marker::Item)), declared)? else {
                return Err(Problem::Stack("a chain of something else than comparisons"));
            };
            if *start != Expr::Marker(Marker::Item) {
                return Err(Problem::Stack("a chain of something else than comparisons"));
            }
            more.insert(0, (symbol, middle));
            state.push(Expr::Compare(Box::new(left), more));
        }
        Op::Comprehend(made) => {
            let mut made = made.clone();
            let Expr::Iterated(iterated) = state.value()?.expr else { return Err(Problem::Stack("a comprehension over nothing")) };
            match made.clauses.first_mut() {
                Some(Clause::For { iter, .. }) => *iter = *iterated,
                _ => return Err(Problem::Malformed),
            }
            state.push(Expr::Comprehension(made));
        }
        Op::PushException => {
            let slot = state.slot()?;
            if slot.expr != Expr::Marker(Marker::Exception) {
                return Err(Problem::Malformed);
            }
            state.push(Expr::Marker(Marker::Previous));
            state.push(Expr::Marker(Marker::Exception));
        }
        Op::PopException => expect(state, &Marker::Previous)?,
        Op::EndWith => expect(state, &Marker::Exit)?,
        Op::EndFinally | Op::Nothing => {}
        Op::CheckMatch => {
            let kind = state.value()?;
            state.push(Expr::Marker(Marker::Matches(boxed(kind))));
        }
        Op::EnterWith(is_async) => {
            let context = state.value()?.expr;
            printable(&context)?;
            state.entered.push((context, *is_async));
            state.push(Expr::Marker(Marker::Exit));
            state.push(Expr::Marker(Marker::Entered));
        }
        // The result of a comprehension's function.
        Op::Return if state.stack.last().is_some_and(|slot| slot.expr == Expr::Marker(Marker::Accumulator)) => {
            state.slot()?;
        }
        Op::Return => {
            let value = state.value()?.expr;
            printable(&value)?;
            state.emit(Stmt::Return(value), out)?;
        }
        Op::Raise(count) => {
            let mut values = state.values(*count)?.into_iter().map(|slot| slot.expr);
            let (value, cause) = (values.next(), values.next());
            value.iter().chain(&cause).try_for_each(printable)?;
            state.emit(Stmt::Raise(value, cause), out)?;
        }
        Op::Import(..) | Op::ImportFrom(_) | Op::ImportStar => imports::run(op, state, out)?,
        Op::Case(found, keeps) => cases::test(found, *keeps, state, declared, out)?,
        Op::Generic(step) => generics::run(*step, state)?,
        Op::Unsupported(name) => return Err(Problem::Opcode(name)),
        Op::Reraise | Op::WithExceptStart | Op::LoadAndClear(_) | Op::Branch => return Err(Problem::Stack("a step out of its place")),
        Op::GetLength | Op::MatchSequence | Op::MatchMapping | Op::MatchKeys | Op::MatchClass(_) => {
            return Err(Problem::Opcode("match"));
        }
        _ => {
            if !displays::run(op, state)? {
                stores::run(op, state, declared, out)?;
            }
        }
    }
    Ok(())
}

/// Returns the two sides of a comparison. In the second part of a chain, the left side is a placeholder: it has been evaluated before.
fn compared<'a>(state: &mut State<'a>) -> Result<(Expr<'a>, Expr<'a>), Problem> {
    if matches!(state.peek(2)?.expr, Expr::Marker(Marker::Item)) {
        let right = state.value()?.expr;
        return Ok((state.slot()?.expr, right));
    }
    state.pair()
}

/// Pushes a callable with its NULL.
fn called<'a>(state: &mut State<'a>, callable: Expr<'a>, null: NullAt) {
    match null {
        NullAt::Below => {
            state.push(Expr::Null);
            state.push(callable);
        }
        NullAt::Above => {
            state.push(callable);
            state.push(Expr::Null);
        }
    }
}

fn wrap<'a>(state: &mut State<'a>, make: fn(Box<Expr<'a>>) -> Expr<'a>) -> Result<(), Problem> {
    let value = state.value()?;
    state.push(make(boxed(value)));
    Ok(())
}

fn expect<'a>(state: &mut State<'a>, marker: &Marker<'a>) -> Result<(), Problem> {
    match state.slot()?.expr {
        Expr::Marker(found) if found == *marker => Ok(()),
        _ => Err(Problem::Stack("a way out of a statement that was not entered")),
    }
}

/// Converts a pop: an expression statement, or the end of a statement's placeholder.
fn pop<'a>(state: &mut State<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    if let Expr::Module(..) | Expr::Imported(..) = state.peek(1)?.expr {
        return imports::drop(state, out);
    }
    if let Expr::Element(..) = state.peek(1)?.expr {
        return stores::drop_element(state, out);
    }
    if is_place(&state.peek(1)?.expr) {
        state.slot()?;
        return Ok(());
    }
    let value = state.value()?.expr;
    printable(&value)?;
    state.emit(Stmt::Expr(value), out)
}

/// Returns `not value`, simplified as by Python's own compiler.
pub(crate) fn negate(value: Expr<'_>) -> Expr<'_> {
    match value {
        Expr::Compare(left, mut rest) if rest.len() == 1 && matches!(rest[0].0, "is" | "is not" | "in" | "not in") => {
            rest[0].0 = match rest[0].0 {
                "is" => "is not",
                "is not" => "is",
                "in" => "not in",
                _ => "in",
            };
            Expr::Compare(left, rest)
        }
        value => Expr::Unary(Unary::Not, Box::new(value)),
    }
}

/// Refuses expressions that cannot be printed: placeholders and parts of statements.
pub(crate) fn printable(expr: &Expr<'_>) -> Result<(), Problem> {
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        match expr {
            Expr::Null
            | Expr::Marker(_)
            | Expr::Copy(..)
            | Expr::Stored(..)
            | Expr::InPlace(..)
            | Expr::Element(..)
            | Expr::Module(..)
            | Expr::Imported(..)
            | Expr::Iterated(_)
            | Expr::Converted(..)
            | Expr::Interpolation(_)
            | Expr::Case(_)
            | Expr::TypeParameter(_)
            | Expr::Alias(_)
            | Expr::Function(_)
            | Expr::Class(..)
            | Expr::BuildClass => return Err(Problem::Stack("half of a statement is used as a value")),
            Expr::Comprehension(made) if made.awaited => return Err(Problem::Stack("a comprehension that is not awaited")),
            Expr::Const(Const::Code(_)) => return Err(Problem::Stack("a code object is used as a value")),
            _ => crate::walk::children(expr, &mut |child| open.push(child)),
        }
    }
    Ok(())
}
