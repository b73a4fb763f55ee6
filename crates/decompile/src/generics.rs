//! Type parameters, and `type` statements: 3.12 and later.
//!
//! `def f[T](…)` calls a function that creates `T`, then `f`, and attaches `T` to `f`. `class C[T]` and `type A[T] = …` are similar. The
//! bound and the default of a parameter, and the value of an alias, are separate functions.

use dynamlir_bytecode::{CodeObject, Const};

use crate::{
    Problem, annotations,
    ast::{Alias, Arg, Expr, Marker, ParameterKind, Stmt, TypeParameter},
    body::{self, Scoped},
    functions,
    machine::{Declared, State, printable},
    op::{Generic, Op},
};

const ODD: Problem = Problem::Stack("type parameters that no compiler writes");

/// Runs a step.
pub(crate) fn run(step: Generic, state: &mut State<'_>) -> Result<(), Problem> {
    let made = match step {
        Generic::Parameter(kind) => match state.value()?.expr {
            Expr::Const(Const::Str(name)) => {
                Expr::TypeParameter(Box::new(TypeParameter { name, kind, bound: None, constraints: false, default: None }))
            }
            _ => return Err(ODD),
        },
        Generic::Bound { constraints } => {
            let Expr::Function(bound) = state.value()?.expr else { return Err(ODD) };
            let Expr::Const(Const::Str(name)) = state.value()?.expr else { return Err(ODD) };
            let bound = Some(value(bound.code)?);
            Expr::TypeParameter(Box::new(TypeParameter { name, kind: ParameterKind::Plain, bound, constraints, default: None }))
        }
        Generic::Default => {
            let Expr::Function(default) = state.value()?.expr else { return Err(ODD) };
            let Expr::TypeParameter(mut parameter) = state.value()?.expr else { return Err(ODD) };
            parameter.default = Some(value(default.code)?);
            Expr::TypeParameter(parameter)
        }
        Generic::Give => {
            let parameters = parameters(state.value()?.expr)?;
            let Expr::Function(mut function) = state.slot()?.expr else { return Err(ODD) };
            function.type_parameters = parameters;
            Expr::Function(function)
        }
        Generic::Base => match state.value()?.expr {
            Expr::Name(".type_params") => Expr::Marker(Marker::GenericBase),
            _ => return Err(ODD),
        },
        Generic::Alias => {
            let Expr::Tuple(parts) = state.value()?.expr else { return Err(ODD) };
            let Ok([Expr::Const(Const::Str(name)), given, Expr::Function(function)]) = <[Expr<'_>; 3]>::try_from(parts) else {
                return Err(ODD);
            };
            let parameters = if given == Expr::Const(&Const::None) { Vec::new() } else { parameters(given)? };
            Expr::Alias(Box::new(Alias { name, parameters, value: value(function.code)? }))
        }
    };
    state.push(made);
    Ok(())
}

/// Returns the type parameters in a tuple; each has also been stored.
fn parameters(tuple: Expr<'_>) -> Result<Vec<TypeParameter<'_>>, Problem> {
    let Expr::Tuple(items) = tuple else { return Err(ODD) };
    let one = |item| match item {
        Expr::Walrus(_, made) => match *made {
            Expr::TypeParameter(parameter) => Ok(*parameter),
            _ => Err(ODD),
        },
        _ => Err(ODD),
    };
    items.into_iter().map(one).collect()
}

/// Returns the value computed by a function without parameters (from 3.14 on, with a format).
fn value(code: &CodeObject) -> Result<Expr<'_>, Problem> {
    let value = functions::value_of(annotations::behind_test(code, body::statements(code, Scoped::Lambda)?)?)?;
    printable(&value)?;
    Ok(value)
}

/// Returns true for the function that creates type parameters and the object that has them.
pub(crate) fn makes(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Function(function) if function.code.name.starts_with("<generic parameters of "))
}

/// Returns the object that such a function creates. Its arguments are a function's defaults, in tuples and dicts.
pub(crate) fn made<'a>(function: Expr<'a>, arguments: Vec<Arg<'a>>) -> Result<Expr<'a>, Problem> {
    let Expr::Function(function) = function else { return Err(ODD) };
    let mut ops = body::only_block(function.code)?;
    // The arguments are evaluated once, at the call.
    for (argument, name) in arguments.into_iter().zip(&function.code.varnames) {
        let Arg::Positional(argument) = argument else { return Err(ODD) };
        let load = ops.iter_mut().find(|op| **op == Op::Push(Expr::Name(name))).ok_or(ODD)?;
        *load = Op::Push(argument);
    }
    let Some(Op::Return) = ops.pop() else { return Err(ODD) };
    let (mut state, mut declared, mut statements) = (State::default(), Declared::default(), Vec::new());
    crate::machine::run(&ops, &mut state, &mut declared, &mut statements)?;
    let made = state.slot()?.expr;
    match (made, statements.pop()) {
        (made @ (Expr::Function(_) | Expr::Alias(_)), None) => Ok(made),
        (Expr::Class(mut function, arguments), Some(Stmt::Assign(targets, tuple)))
            if targets[..] == [Expr::Name(".type_params")] && statements.is_empty() =>
        {
            function.type_parameters = parameters(tuple)?;
            // The compiler adds one base.
            let base = |argument: &Arg<'_>| *argument == Arg::Positional(Expr::Name(".generic_base"));
            Ok(Expr::Class(function, arguments.into_iter().filter(|argument| !base(argument)).collect()))
        }
        _ => Err(ODD),
    }
}

/// Returns the `type` statement for an alias being stored.
pub(crate) fn alias<'a>(target: &Expr<'a>, alias: Alias<'a>) -> Result<Stmt<'a>, Problem> {
    match target {
        Expr::Name(name) if functions::stands_for(name, alias.name) => Ok(Stmt::TypeAlias(Box::new(alias))),
        _ => Err(ODD),
    }
}
