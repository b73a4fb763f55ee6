//! Calls, and the expressions for nested code objects: functions, lambdas, classes, comprehensions.

use dynamlir_bytecode::{CodeObject, Const, flags};

use crate::{
    Problem, annotations,
    ast::{Arg, Body, Clause, Comprehension, Expr, Function, Makes, Parameter, Parameters, Stmt},
    body::{self, Scoped},
    generics,
    machine::{Declared, Slot, State, boxed, in_order, printable},
    names::is_identifier,
};

/// `CALL`, with names for its last arguments.
pub(crate) fn call<'a>(state: &mut State<'a>, declared: &mut Declared<'a>, count: usize, names: &'a [Const]) -> Result<(), Problem> {
    let positional = count.checked_sub(names.len()).ok_or(Problem::Malformed)?;
    let mut arguments = Vec::with_capacity(count.min(64));
    let slots = state.values(count)?;
    let first = slots.first().map(|slot| slot.order);
    for (at, slot) in slots.into_iter().enumerate() {
        arguments.push(match at.checked_sub(positional).map(|at| &names[at]) {
            None => Arg::Positional(slot.expr),
            Some(Const::Str(name)) => Arg::Keyword(name, slot.expr),
            Some(_) => return Err(Problem::Malformed),
        });
    }
    let callable = callable(state, &mut arguments)?;
    if first.is_some_and(|first| first < callable.order) && !generics::makes(&callable.expr) {
        return Err(Problem::Stack("operands out of order"));
    }
    let value = match callable.expr {
        Expr::BuildClass => class(arguments)?,
        function if generics::makes(&function) => generics::made(function, arguments)?,
        Expr::Function(function) => comprehension(&function, arguments, declared)?,
        function => Expr::Call(Box::new(function), arguments),
    };
    state.push(value);
    Ok(())
}

/// Returns the callable. One of the two entries below the arguments is NULL; otherwise, the upper one is the first argument.
fn callable<'a>(state: &mut State<'a>, arguments: &mut Vec<Arg<'a>>) -> Result<Slot<'a>, Problem> {
    let upper = state.slot()?;
    let lower = state.slot()?;
    match (lower.expr == Expr::Null, upper.expr == Expr::Null) {
        (true, false) => state.stack.push(upper),
        (false, true) => state.stack.push(lower),
        (false, false) => {
            if lower.order >= upper.order && !generics::makes(&lower.expr) {
                return Err(Problem::Stack("operands out of order"));
            }
            state.stack.push(upper);
            let argument = state.value()?;
            arguments.insert(0, Arg::Positional(argument.expr));
            state.stack.push(lower);
        }
        (true, true) => return Err(Problem::Malformed),
    }
    if state.peek(1)?.expr == Expr::BuildClass { state.slot() } else { state.value() }
}

/// `CALL_FUNCTION_EX`
pub(crate) fn call_ex(state: &mut State<'_>, keywords: bool) -> Result<(), Problem> {
    // From 3.14 on, missing keywords are NULL.
    let keywords = if keywords && state.peek(1)?.expr == Expr::Null { state.slot().map(|_| false)? } else { keywords };
    let options = if keywords { Some(state.value()?) } else { None };
    let positional = state.value()?;
    let mut arguments = Vec::new();
    let function = callable(state, &mut arguments)?;
    if !arguments.is_empty() {
        return Err(Problem::Malformed);
    }
    let mut order = vec![function.clone(), positional.clone()];
    order.extend(options.clone());
    in_order(&order)?;
    match positional.expr {
        Expr::Tuple(items) if keywords || items.iter().any(|item| matches!(item, Expr::Starred(_))) => {
            arguments.extend(items.into_iter().map(|item| match item {
                Expr::Starred(value) => Arg::Star(*value),
                item => Arg::Positional(item),
            }));
        }
        Expr::Const(Const::Tuple(items)) if keywords => arguments.extend(items.iter().map(|item| Arg::Positional(Expr::Const(item)))),
        other => arguments.push(Arg::Star(other)),
    }
    match options.map(|options| options.expr) {
        None => {}
        Some(Expr::Dict(pairs)) => {
            for (key, value) in pairs {
                arguments.push(match key {
                    None => Arg::DoubleStar(value),
                    Some(Expr::Const(Const::Str(name))) if is_identifier(name) => Arg::Keyword(name, value),
                    key @ Some(_) => Arg::DoubleStar(Expr::Dict(vec![(key, value)])),
                });
            }
        }
        Some(other) => arguments.push(Arg::DoubleStar(other)),
    }
    // The function of a class statement with `*bases` was created before them.
    let value = if function.expr == Expr::BuildClass { class(arguments)? } else { Expr::Call(boxed(function), arguments) };
    state.push(value);
    Ok(())
}

/// `MAKE_FUNCTION`; its flags list the parts below the code.
pub(crate) fn make(state: &mut State<'_>, flags: u32) -> Result<(), Problem> {
    let Expr::Const(Const::Code(code)) = state.slot()?.expr else { return Err(Problem::Malformed) };
    let mut parts = Vec::new();
    for bit in [8, 4, 2, 1] {
        if flags & bit != 0 {
            parts.push((bit, state.value()?));
        }
    }
    state.push(Expr::Function(Box::new(Function::new(code))));
    parts.reverse();
    let ordered: Vec<_> = parts.iter().map(|(_, slot)| slot.clone()).collect();
    in_order(&ordered)?;
    parts.into_iter().try_for_each(|(bit, slot)| attribute(state, bit, slot.expr))
}

/// `SET_FUNCTION_ATTRIBUTE`, from 3.13 on.
pub(crate) fn set_attribute(state: &mut State<'_>, flag: u32) -> Result<(), Problem> {
    let function = state.slot()?;
    let value = state.value()?;
    state.stack.push(function);
    attribute(state, flag, value.expr)
}

/// Adds defaults, annotations or cells to the function at the top.
fn attribute<'a>(state: &mut State<'a>, flag: u32, value: Expr<'a>) -> Result<(), Problem> {
    let Expr::Function(function) = &mut state.peek(1)?.expr else { return Err(Problem::Malformed) };
    match (flag, value) {
        (1, Expr::Tuple(values)) => function.defaults = values,
        (1, Expr::Const(Const::Tuple(values))) => function.defaults = values.iter().map(Expr::Const).collect(),
        (2, Expr::Dict(pairs)) => function.keyword_defaults = named(pairs)?,
        (4, Expr::Tuple(values)) => {
            let mut values = values.into_iter();
            while let (Some(key), Some(value)) = (values.next(), values.next()) {
                function.annotations.extend(named(vec![(Some(key), value)])?);
            }
        }
        (4, Expr::Const(Const::Tuple(values))) => {
            for pair in values.chunks(2) {
                let [key, value] = pair else { return Err(Problem::Malformed) };
                function.annotations.extend(named(vec![(Some(Expr::Const(key)), Expr::Const(value))])?);
            }
        }
        (16, Expr::Function(annotate)) => function.annotations = annotations::of_function(annotate.code)?,
        // The cells are determined by the names that the code uses.
        (8, Expr::Tuple(_)) => {}
        _ => return Err(Problem::Malformed),
    }
    Ok(())
}

fn named<'a>(pairs: Vec<(Option<Expr<'a>>, Expr<'a>)>) -> Result<Vec<(&'a str, Expr<'a>)>, Problem> {
    let name = |(key, value)| match key {
        Some(Expr::Const(Const::Str(name))) => Ok((name.as_str(), value)),
        _ => Err(Problem::Malformed),
    };
    pairs.into_iter().map(name).collect()
}

/// `class`: from the function that fills its namespace, its name, bases and keywords.
fn class(arguments: Vec<Arg<'_>>) -> Result<Expr<'_>, Problem> {
    let mut arguments = arguments.into_iter();
    match (arguments.next(), arguments.next()) {
        (Some(Arg::Positional(Expr::Function(function))), Some(Arg::Positional(Expr::Const(Const::Str(_))))) => {
            Ok(Expr::Class(function, arguments.collect()))
        }
        _ => Err(Problem::Stack("a class that no statement makes")),
    }
}

/// Returns true if a value is a function or class, possibly inside decorator calls.
pub(crate) fn is_decorated(value: &Expr<'_>) -> bool {
    match value {
        Expr::Function(function) => function.code.name != "<lambda>",
        Expr::Class(..) => true,
        Expr::Call(_, arguments) => matches!(&arguments[..], [Arg::Positional(inner)] if is_decorated(inner)),
        _ => false,
    }
}

/// `def` or `class`, with decorators.
pub(crate) fn definition<'a>(name: &'a str, value: Expr<'a>) -> Result<Stmt<'a>, Problem> {
    let mut decorators = Vec::new();
    let mut value = value;
    loop {
        match value {
            Expr::Call(decorator, mut arguments) => {
                printable(&decorator)?;
                decorators.push(*decorator);
                match arguments.pop() {
                    Some(Arg::Positional(inner)) => value = inner,
                    _ => return Err(Problem::Malformed),
                }
            }
            Expr::Function(function) if stands_for(name, &function.code.name) => {
                let (parameters, returns) = parameters(&function)?;
                let Function { code, type_parameters, .. } = *function;
                let is_async = code.has(flags::COROUTINE | flags::ASYNC_GENERATOR);
                let body = body_of(code, Scoped::Function);
                let parameters = Box::new(parameters);
                return Ok(Stmt::Def { name: &code.name, type_parameters, parameters, returns, decorators, body, is_async });
            }
            Expr::Class(function, arguments) if stands_for(name, &function.code.name) => {
                let Function { code, type_parameters, .. } = *function;
                arguments.iter().try_for_each(|argument| match argument {
                    Arg::Positional(value) | Arg::Star(value) | Arg::Keyword(_, value) | Arg::DoubleStar(value) => printable(value),
                })?;
                let body = body_of(code, Scoped::Class);
                return Ok(Stmt::ClassDef { name: &code.name, type_parameters, arguments, decorators, body });
            }
            _ => return Err(Problem::Stack("a definition stored under another name")),
        }
    }
}

/// Returns true if a definition with this name may be stored under the given name: a name in a class may be mangled.
pub(crate) fn stands_for(stored: &str, name: &str) -> bool {
    stored == name || (name.starts_with("__") && stored.starts_with('_') && stored.ends_with(name))
}

fn body_of(code: &CodeObject, scoped: Scoped) -> Body<'_> {
    Body { code, statements: body::statements(code, scoped).map_err(|problem| problem.to_string()) }
}

/// Returns the head of a function: its parameters, and its return annotation.
pub(crate) fn parameters<'a>(function: &Function<'a>) -> Result<(Parameters<'a>, Option<Expr<'a>>), Problem> {
    let code = function.code;
    let annotation = |name: &str| {
        // Parameters of methods are annotated under their mangled names.
        function.annotations.iter().find(|(annotated, _)| *annotated == name).map(|(_, value)| value.clone())
    };
    function.annotations.iter().try_for_each(|(_, value)| printable(value))?;
    function.defaults.iter().try_for_each(printable)?;
    let mut names = code.varnames.iter().map(|name| Parameter { name, annotation: annotation(name), default: None });
    let mut take =
        |count: u32| -> Result<Vec<Parameter<'a>>, Problem> { (0..count).map(|_| names.next().ok_or(Problem::Malformed)).collect() };
    let mut positional = take(code.arg_count)?;
    let mut keyword_only = take(code.keyword_only)?;
    let rest = take(u32::from(code.has(flags::VARARGS)))?.pop();
    let options = take(u32::from(code.has(flags::VARKEYWORDS)))?.pop();
    let without = positional.len().checked_sub(function.defaults.len()).ok_or(Problem::Malformed)?;
    for (parameter, default) in positional[without..].iter_mut().zip(&function.defaults) {
        parameter.default = Some(default.clone());
    }
    for (name, default) in &function.keyword_defaults {
        printable(default)?;
        let parameter = keyword_only.iter_mut().find(|parameter| parameter.name == *name).ok_or(Problem::Malformed)?;
        parameter.default = Some(default.clone());
    }
    let positional_only = code.positional_only as usize;
    Ok((Parameters { positional_only, positional, rest, keyword_only, options }, annotation("return")))
}

/// Converts a function used as a value: it is a lambda, or will be decorated.
pub(crate) fn settle(value: Expr<'_>) -> Result<Expr<'_>, Problem> {
    match value {
        Expr::Function(function) if function.code.name == "<lambda>" => {
            let (parameters, _) = parameters(&function)?;
            let body = value_of(body::statements(function.code, Scoped::Lambda)?)?;
            Ok(Expr::Lambda(Box::new(parameters), Box::new(body)))
        }
        value => Ok(value),
    }
}

/// Returns the value that statements return, if they do nothing else.
pub(crate) fn value_of(statements: Vec<Stmt<'_>>) -> Result<Expr<'_>, Problem> {
    let mut statements = statements.into_iter();
    match (statements.next(), statements.next(), statements.next()) {
        (Some(Stmt::Return(value)), None, None) => Ok(value),
        (Some(Stmt::If(test, then, other)), rest, None) if other.is_empty() != rest.is_none() => {
            let other = if other.is_empty() { rest.into_iter().collect() } else { other };
            Ok(Expr::IfElse(Box::new(test), Box::new(value_of(then)?), Box::new(value_of(other)?)))
        }
        _ => Err(Problem::Stack("a lambda with statements")),
    }
}

/// Converts a call of a function that implements a comprehension.
fn comprehension<'a>(function: &Function<'a>, mut arguments: Vec<Arg<'a>>, declared: &mut Declared<'a>) -> Result<Expr<'a>, Problem> {
    let code = function.code;
    let makes = makes(code).ok_or(Problem::Stack("a function that is called where it is defined"))?;
    let (Some(Arg::Positional(iter)), true) = (arguments.pop(), arguments.is_empty()) else {
        return Err(Problem::Stack("a comprehension over nothing"));
    };
    // From 3.15 on, the function itself creates its iterator.
    let iter = match iter {
        Expr::Iterated(iter) => *iter,
        iter if code.version.facts().iterator_places == 2 => iter,
        _ => return Err(Problem::Stack("a comprehension over nothing")),
    };
    let (mut made, inner) = body::comprehension(code, makes)?;
    made.awaited = code.has(flags::COROUTINE);
    for name in inner.globals {
        declared.note(crate::op::Scope::Global, name);
    }
    // Names stored with `:=` belong to the enclosing function, which decides itself if it must declare them.
    declared.passed(inner.nonlocals);
    match made.clauses.first_mut() {
        Some(Clause::For { iter: first, .. }) => *first = iter,
        _ => return Err(Problem::Malformed),
    }
    Ok(Expr::Comprehension(Box::new(made)))
}

/// Returns the type of result of a comprehension's code object.
pub(crate) fn makes(code: &CodeObject) -> Option<Makes> {
    Some(match code.name.as_str() {
        "<listcomp>" => Makes::List,
        "<setcomp>" => Makes::Set,
        "<dictcomp>" => Makes::Dict,
        "<genexpr>" => Makes::Generator,
        _ => return None,
    })
}

/// Converts loops to a comprehension: `for`s and `if`s around a single element.
pub(crate) fn from_loops(makes: Makes, statement: Stmt<'_>) -> Result<Comprehension<'_>, Problem> {
    let mut clauses = Vec::new();
    let mut statement = statement;
    loop {
        let mut inner = match statement {
            Stmt::For { target, iter, body, orelse, is_async } if orelse.is_empty() => {
                let iter = if clauses.is_empty() { Expr::Null } else { iter };
                clauses.push(Clause::For { target, iter, is_async });
                body
            }
            Stmt::If(test, then, other) if other.is_empty() => {
                clauses.push(Clause::If(test));
                then
            }
            Stmt::Append(element, value) if makes != Makes::Generator || matches!(element, Expr::Starred(_)) => {
                return Ok(Comprehension { makes, element, value, clauses, awaited: false });
            }
            Stmt::Expr(Expr::Yield(value)) if makes == Makes::Generator => {
                return Ok(Comprehension { makes, element: *value, value: None, clauses, awaited: false });
            }
            _ => return Err(Problem::Stack("a comprehension with statements")),
        };
        // `if not a: continue` before the element.
        while inner.len() > 1 {
            let first = inner.remove(0);
            match first {
                Stmt::If(test, then, other) if then == [Stmt::Continue] && other.is_empty() => {
                    clauses.push(Clause::If(crate::structure::negate_test(test)));
                }
                _ => return Err(Problem::Stack("a comprehension with statements")),
            }
        }
        statement = inner.pop().ok_or(Problem::Stack("a comprehension without an element"))?;
    }
}
