//! Parts of a body that are not ordinary statements: docstring, declarations, the parts of a class that the compiler adds.

use dynamlir_bytecode::{CodeObject, Const, flags};

use crate::{
    Problem, annotations,
    ast::{Expr, Parameters, Pattern, Piece, Stmt, Try},
    body::Scoped,
    cases,
    machine::Declared,
    names::is_identifier,
    structure::{leaves, negate_test},
    walk,
};

static FALSE: Const = Const::Bool(false);
static NONE: Const = Const::None;

/// Returns the statements of a body in source form.
pub(crate) fn body<'a>(
    code: &'a CodeObject,
    scoped: Scoped,
    mut statements: Vec<Stmt<'a>>,
    declared: &Declared<'a>,
) -> Result<Vec<Stmt<'a>>, Problem> {
    cases::gather(&mut statements)?;
    if scoped == Scoped::Class {
        // Both methods and annotations use it.
        let kept = code.cellvars.iter().any(|name| name == "__classdict__");
        if kept && !code.consts.iter().any(|value| matches!(value, Const::Code(_))) {
            // `(x): int` and `x.y: int` leave no other trace.
            return Err(Problem::Stack("annotations that have left nothing behind"));
        }
        class_parts(&mut statements);
    }
    if matches!(scoped, Scoped::Module | Scoped::Class) {
        annotations::place(&mut statements)?;
        if annotations::are_set_up(code) && !statements.iter().any(has_annotation) {
            return Err(Problem::Stack("annotations that have left nothing behind"));
        }
        annotations::join(&mut statements);
    }
    if scoped != Scoped::Lambda {
        drop_return(&mut statements);
    }
    statements.iter_mut().for_each(tidy);
    let mut head = Vec::new();
    match scoped {
        Scoped::Function => {
            if let Some(doc) = code.docstring() {
                head.push(Stmt::Expr(Expr::Const(doc)));
            }
        }
        Scoped::Class | Scoped::Module => {
            if let Some(Stmt::Assign(targets, Expr::Const(doc @ (Const::Str(_) | Const::WideStr(_))))) = statements.first()
                && *targets == [Expr::Name("__doc__")]
            {
                head.push(Stmt::Expr(Expr::Const(doc)));
                statements.remove(0);
            }
        }
        Scoped::Lambda => {}
    }
    // A string at the start that is not the docstring is an f-string.
    if head.is_empty()
        && let Some(Stmt::Expr(value)) = statements.first_mut()
        && let Expr::Const(text @ Const::Str(_)) = value
    {
        *value = Expr::Format(vec![Piece::Text(text)]);
    }
    if matches!(scoped, Scoped::Module | Scoped::Class) && statements.iter().any(returns) {
        return Err(Problem::Stack("a `return` outside of a function"));
    }
    if scoped != Scoped::Lambda {
        // Only the docstring may come before these.
        while matches!(statements.first(), Some(Stmt::ImportFrom("__future__", 0, ..))) {
            head.push(statements.remove(0));
        }
        declarations(code, declared, &mut head);
        if scoped == Scoped::Function {
            unseen(code, declared, &statements, &mut head);
        }
    }
    head.append(&mut statements);
    Ok(head)
}

fn declarations<'a>(code: &'a CodeObject, declared: &Declared<'a>, head: &mut Vec<Stmt<'a>>) {
    if !declared.globals.is_empty() {
        head.push(Stmt::Global(declared.globals.clone()));
    }
    let mut nonlocals = declared.nonlocals.clone();
    // A name that a comprehension stores with `:=` is a cell of this function, or of an enclosing one.
    for name in &declared.through {
        if code.freevars.iter().any(|free| free == name) && !nonlocals.contains(name) {
            nonlocals.push(name);
        }
    }
    // A declaration makes a name free even if it is unused.
    for name in &code.freevars {
        // `super()` implicitly uses this one.
        let implied = name == "__class__" && code.names.iter().any(|name| name == "super");
        if !implied && !declared.used.contains(&name.as_str()) && !nonlocals.contains(&name.as_str()) {
            nonlocals.push(name);
        }
    }
    if !nonlocals.is_empty() {
        head.push(Stmt::Nonlocal(nonlocals));
    }
}

/// Adds `if False: …` for code that the compiler dropped, but that still makes a name local or a function a generator.
fn unseen<'a>(code: &'a CodeObject, declared: &Declared<'a>, statements: &[Stmt<'a>], head: &mut Vec<Stmt<'a>>) {
    let mut dead = Vec::new();
    let locals = code.varnames.iter().skip(code.parameter_count()).chain(&code.cellvars);
    let parameters: Vec<&String> = code.varnames.iter().take(code.parameter_count()).collect();
    for name in locals {
        // A name stored only by a comprehension is not a local, unless a load checks if it is set.
        let stored = declared.locals.contains(&name.as_str());
        let hidden = declared.hidden.contains(&name.as_str()) && !declared.checked.contains(&name.as_str());
        let known = stored || hidden || declared.through.contains(&name.as_str());
        if !known && !parameters.contains(&name) && name != "__classdict__" {
            dead.push(Stmt::Assign(vec![Expr::Name(name)], Expr::Const(&NONE)));
        }
    }
    // The inner function that made it a cell was dropped.
    let captured = |name: &String| code.consts.iter().any(|value| matches!(value, Const::Code(inner) if inner.freevars.contains(name)));
    for name in code.cellvars.iter().filter(|name| is_identifier(name) && !captured(name)) {
        let none = Parameters { positional_only: 0, positional: Vec::new(), rest: None, keyword_only: Vec::new(), options: None };
        dead.push(Stmt::Expr(Expr::Lambda(Box::new(none), Box::new(Expr::Name(name)))));
    }
    let yields = code.has(flags::GENERATOR | flags::ASYNC_GENERATOR);
    if yields && !statements.iter().any(has_yield) {
        dead.push(Stmt::Expr(Expr::Yield(Box::new(Expr::Const(&NONE)))));
    }
    if !dead.is_empty() {
        head.push(Stmt::If(Expr::Const(&FALSE), dead, Vec::new()));
    }
}

/// Removes the code that the compiler adds at the start and the end of every class.
fn class_parts(statements: &mut Vec<Stmt<'_>>) {
    for name in ["__module__", "__qualname__", "__firstlineno__", "__type_params__"] {
        let stores = |statement: &Stmt<'_>| matches!(statement, Stmt::Assign(targets, _) if targets[..] == [Expr::Name(name)]);
        if statements.first().is_some_and(stores) {
            statements.remove(0);
        }
    }
    // The cell of `super()` is returned.
    if let Some(Stmt::Return(Expr::Walrus("__classcell__", _))) = statements.last() {
        statements.pop();
    } else {
        drop_return(statements);
    }
    // 3.14 has the two in the opposite order.
    for name in ["__static_attributes__", "__classdictcell__", "__static_attributes__"] {
        if let Some(Stmt::Assign(targets, _)) = statements.last()
            && targets[..] == [Expr::Name(name)]
        {
            statements.pop();
        }
    }
}

/// Removes a redundant `return` without a value at the end.
fn drop_return(statements: &mut Vec<Stmt<'_>>) {
    match statements.last_mut() {
        Some(Stmt::Return(Expr::Const(Const::None))) => {
            statements.pop();
        }
        Some(Stmt::If(_, then, other)) => {
            drop_return(then);
            drop_return(other);
        }
        Some(Stmt::With { body, .. }) => drop_return(body),
        Some(Stmt::Match(_, cases)) => {
            for case in &mut *cases {
                drop_return(&mut case.body);
            }
            // `case _` without a body is redundant too.
            if cases.len() > 1 {
                cases.pop_if(|case| case.body.is_empty() && case.guard.is_none() && case.pattern == Pattern::Capture(None));
            }
        }
        Some(Stmt::Try(statement)) if statement.finally.is_empty() => {
            if statement.orelse.is_empty() {
                drop_return(&mut statement.body);
            }
            drop_return(&mut statement.orelse);
            statement.handlers.iter_mut().for_each(|handler| drop_return(&mut handler.body));
        }
        _ => {}
    }
}

/// Rewrites combined statements: `assert`, `if` with an empty first branch, `try` with `except` and `finally`.
fn tidy(statement: &mut Stmt<'_>) {
    match statement {
        Stmt::If(test, then, other) => {
            if then.is_empty() && !other.is_empty() {
                std::mem::swap(then, other);
                *test = negate_test(std::mem::replace(test, Expr::Null));
            }
            if other.is_empty()
                && let [Stmt::Raise(Some(raised), None)] = &then[..]
            {
                match assertion(negate_test(test.clone()), raised) {
                    Ok(assert) => *statement = assert,
                    Err(_) => then.iter_mut().for_each(tidy),
                }
                return;
            }
            then.iter_mut().chain(other).for_each(tidy);
        }
        Stmt::Raise(Some(raised), None) => {
            if let Ok(assert) = assertion(Expr::Const(&FALSE), raised) {
                *statement = assert;
            }
        }
        Stmt::While(_, body, orelse) | Stmt::For { body, orelse, .. } => body.iter_mut().chain(orelse).for_each(tidy),
        Stmt::With { body, .. } => body.iter_mut().for_each(tidy),
        Stmt::Match(_, cases) => cases.iter_mut().flat_map(|case| &mut case.body).for_each(tidy),
        Stmt::Try(whole) => {
            let Try { body, handlers, orelse, finally } = &mut **whole;
            let all = body.iter_mut().chain(orelse.iter_mut()).chain(finally.iter_mut());
            all.chain(handlers.iter_mut().flat_map(|handler| &mut handler.body)).for_each(tidy);
            // A `finally` around a `try` becomes part of it. So does the following code, as its `else`, if no handler reaches it.
            if !handlers.is_empty() || !body.first().is_some_and(|first| can_take(first, body.len() > 1)) {
                return;
            }
            let mut rest = std::mem::take(body);
            if let Stmt::Try(mut inner) = rest.remove(0) {
                inner.orelse.append(&mut rest);
                **whole = Try { finally: std::mem::take(finally), ..*inner };
            }
        }
        _ => {}
    }
}

/// Returns true if a statement is a `try` that can take a `finally`, and an `else` if needed.
fn can_take(statement: &Stmt<'_>, more: bool) -> bool {
    let Stmt::Try(inner) = statement else { return false };
    let handled = inner.orelse.is_empty() && inner.handlers.iter().all(|handler| leaves(&handler.body));
    !inner.handlers.is_empty() && inner.finally.is_empty() && (!more || handled)
}

/// Builds an `assert` from its raise statement: the failing test and the message.
fn assertion<'a>(test: Expr<'a>, raised: &Expr<'a>) -> Result<Stmt<'a>, Expr<'a>> {
    match raised {
        Expr::AssertionError => Ok(Stmt::Assert(test, None)),
        Expr::Call(function, arguments) if **function == Expr::AssertionError => match &arguments[..] {
            [crate::ast::Arg::Positional(message)] => Ok(Stmt::Assert(test, Some(message.clone()))),
            _ => Err(test),
        },
        _ => Err(test),
    }
}

/// Returns true if a statement returns, not counting inner functions.
fn returns(statement: &Stmt<'_>) -> bool {
    matches!(statement, Stmt::Return(_)) || bodies(statement).into_iter().flatten().any(returns)
}

/// Returns the bodies of a statement, except those of functions and classes.
pub(crate) fn bodies<'t, 'a>(statement: &'t Stmt<'a>) -> Vec<&'t [Stmt<'a>]> {
    match statement {
        Stmt::If(_, then, other) | Stmt::While(_, then, other) => vec![then, other],
        Stmt::For { body, orelse, .. } => vec![body, orelse],
        Stmt::With { body, .. } => vec![body],
        Stmt::Match(_, cases) => cases.iter().map(|case| &case.body[..]).collect(),
        Stmt::Try(statement) => {
            let own = [&statement.body[..], &statement.orelse, &statement.finally];
            own.into_iter().chain(statement.handlers.iter().map(|handler| &handler.body[..])).collect()
        }
        _ => Vec::new(),
    }
}

/// The same, mutable.
pub(crate) fn bodies_mut<'t, 'a>(statement: &'t mut Stmt<'a>) -> Vec<&'t mut Vec<Stmt<'a>>> {
    match statement {
        Stmt::If(_, then, other) | Stmt::While(_, then, other) => vec![then, other],
        Stmt::For { body, orelse, .. } => vec![body, orelse],
        Stmt::With { body, .. } => vec![body],
        Stmt::Match(_, cases) => cases.iter_mut().map(|case| &mut case.body).collect(),
        Stmt::Try(statement) => {
            let Try { body, handlers, orelse, finally } = &mut **statement;
            [body, orelse, finally].into_iter().chain(handlers.iter_mut().map(|handler| &mut handler.body)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true for a statement that annotates a variable, directly or in a nested statement.
fn has_annotation(statement: &Stmt<'_>) -> bool {
    matches!(statement, Stmt::Annotate(..)) || bodies(statement).into_iter().flatten().any(has_annotation)
}

/// Returns true if a statement yields.
fn has_yield(statement: &Stmt<'_>) -> bool {
    let mut found = false;
    expressions(statement, &mut |expr| {
        let mut open = vec![expr];
        while let Some(expr) = open.pop() {
            match expr {
                Expr::Yield(_) | Expr::YieldFrom(_) => found = true,
                // A `yield` inside belongs to the lambda.
                Expr::Lambda(..) => {}
                _ => walk::children(expr, &mut |child| open.push(child)),
            }
        }
    });
    found
}

/// Calls `visit` with each expression of a statement and of its nested statements, except nested functions and classes.
fn expressions<'t, 'a>(statement: &'t Stmt<'a>, visit: &mut dyn FnMut(&'t Expr<'a>)) {
    match statement {
        Stmt::Expr(value) | Stmt::Delete(value) | Stmt::Return(value) => visit(value),
        Stmt::Annotate(_, annotation, value) => [annotation].into_iter().chain(value).for_each(&mut *visit),
        Stmt::Assign(targets, value) => targets.iter().chain([value]).for_each(&mut *visit),
        Stmt::AugAssign(target, _, value) => [target, value].into_iter().for_each(&mut *visit),
        Stmt::Raise(value, cause) => value.iter().chain(cause).for_each(&mut *visit),
        Stmt::Assert(test, message) => [test].into_iter().chain(message).for_each(&mut *visit),
        Stmt::Append(element, value) => [element].into_iter().chain(value).for_each(&mut *visit),
        Stmt::If(test, ..) | Stmt::While(test, ..) => visit(test),
        Stmt::Match(subject, cases) => [subject].into_iter().chain(cases.iter().filter_map(|case| case.guard.as_ref())).for_each(&mut *visit),
        Stmt::For { target, iter, .. } => {
            visit(target);
            visit(iter);
        }
        Stmt::With { context, target, .. } => {
            visit(context);
            target.iter().for_each(&mut *visit);
        }
        Stmt::Try(statement) => statement.handlers.iter().filter_map(|handler| handler.kind.as_ref()).for_each(&mut *visit),
        Stmt::Def { decorators, parameters, .. } => {
            decorators.iter().for_each(&mut *visit);
            let all = parameters.positional.iter().chain(&parameters.keyword_only);
            all.filter_map(|parameter| parameter.default.as_ref()).for_each(&mut *visit);
        }
        Stmt::ClassDef { decorators, .. } => decorators.iter().for_each(&mut *visit),
        Stmt::Import(..)
        | Stmt::ImportFrom(..)
        | Stmt::Global(_)
        | Stmt::Nonlocal(_)
        | Stmt::Pass
        | Stmt::Break
        | Stmt::Continue
        // A `yield` inside belongs to the inner scope.
        | Stmt::TypeAlias(_)
        | Stmt::Annotations(_)
        | Stmt::Otherwise(_)
        | Stmt::Met(_) => {}
    }
    for statement in bodies(statement).into_iter().flatten() {
        expressions(statement, visit);
    }
}
