//! Annotations as functions, from 3.14 on: they return a dict when called.
//!
//! ```text
//! def __annotate__(format, /):  # of variables
//!     if format > 2: raise NotImplementedError
//!     made = {}
//!     made['a'] = int
//!     if 0 in __conditional_annotations__: made['b'] = str
//!     return made
//! ```
//! In a module, and within a statement of a class, the code at the annotation's position adds the annotation's number to that set.

use dynamlir_bytecode::{CodeObject, Const, Opcode, Version};

use crate::{
    Problem,
    ast::{Expr, Stmt},
    body::{self, Scoped},
    tidy::{bodies, bodies_mut},
};

/// The set of the annotations that have been executed.
pub(crate) const MET: &str = "__conditional_annotations__";

static FALSE: Const = Const::Bool(false);

const ODD: Problem = Problem::Stack("annotations that no compiler writes");

/// Returns true for a function that the compiler created from annotations.
pub(crate) fn are_in(code: &CodeObject) -> bool {
    code.name == "__annotate__" && has_format(code)
}

/// Returns true for a module or class that creates a dict for annotations at its start.
pub(crate) fn are_set_up(code: &CodeObject) -> bool {
    code.decode().is_ok_and(|decoded| decoded.instructions.iter().any(|instruction| instruction.opcode == Opcode::SetupAnnotations))
}

/// Returns true for a function that is called with a format: it raises a constant that source code cannot name.
fn has_format(code: &CodeObject) -> bool {
    let known = code.version.facts().common_constants;
    let refuses = |at: u32| known.get(at as usize) == Some(&"NotImplementedError");
    let instructions = || code.decode().map(|decoded| decoded.instructions).unwrap_or_default();
    instructions().iter().any(|instruction| instruction.opcode == Opcode::LoadCommonConstant && refuses(instruction.arg))
}

/// Returns the statements after the test of the format; before 3.14, all statements.
pub(crate) fn behind_test<'a>(annotate: &CodeObject, statements: Vec<Stmt<'a>>) -> Result<Vec<Stmt<'a>>, Problem> {
    if annotate.version < Version::V3_14 {
        return Ok(statements);
    }
    let mut statements = statements.into_iter();
    match statements.next() {
        Some(Stmt::If(_, refuses, other)) if has_format(annotate) && other.is_empty() && matches!(refuses[..], [Stmt::Raise(..)]) => {
            Ok(statements.collect())
        }
        _ => Err(ODD),
    }
}

/// Returns the annotations of a function's parameters and result.
pub(crate) fn of_function(annotate: &CodeObject) -> Result<Vec<(&str, Expr<'_>)>, Problem> {
    let mut rest = behind_test(annotate, body::statements(annotate, Scoped::Lambda)?)?;
    match (rest.pop(), rest.is_empty()) {
        (Some(Stmt::Return(Expr::Dict(pairs))), true) => {
            pairs.into_iter().map(|(key, value)| Ok((name(key.as_ref().ok_or(ODD)?)?, value))).collect()
        }
        _ => Err(ODD),
    }
}

/// The annotation of a variable, with the number that marks its execution, if it has one.
struct Variable<'a> {
    name: &'a str,
    annotation: Expr<'a>,
    met: Option<&'a Const>,
}

impl<'a> Variable<'a> {
    fn statement(&self) -> Stmt<'a> {
        Stmt::Annotate(self.name, self.annotation.clone(), None)
    }
}

fn name<'a>(key: &Expr<'a>) -> Result<&'a str, Problem> {
    if let Expr::Const(Const::Str(name)) = key { Ok(name) } else { Err(ODD) }
}

/// Returns the annotations of variables in source order.
fn of_variables(annotate: &CodeObject) -> Result<Vec<Variable<'_>>, Problem> {
    let statements = body::entries(annotate, Scoped::Lambda)?;
    behind_test(annotate, statements)?.into_iter().map(variable).collect()
}

fn variable(statement: Stmt<'_>) -> Result<Variable<'_>, Problem> {
    match statement {
        Stmt::Append(key, Some(annotation)) => Ok(Variable { name: name(&key)?, annotation, met: None }),
        Stmt::If(Expr::Compare(number, sets), mut then, other) if other.is_empty() && then.len() == 1 => match (*number, &sets[..]) {
            (Expr::Const(number), [("in", Expr::Name(MET))]) => Ok(Variable { met: Some(number), ..variable(then.remove(0))? }),
            _ => Err(ODD),
        },
        _ => Err(ODD),
    }
}

/// Moves the annotations of a module's or class's variables to their original positions.
pub(crate) fn place(statements: &mut Vec<Stmt<'_>>) -> Result<(), Problem> {
    statements.retain(
        |statement| !matches!(statement, Stmt::Assign(targets, Expr::Set(items)) if targets[..] == [Expr::Name(MET)] && items.is_empty()),
    );
    let Some(at) = statements.iter().position(|statement| matches!(statement, Stmt::Annotations(_))) else { return Ok(()) };
    let Stmt::Annotations(annotate) = statements.remove(at) else { return Err(ODD) };
    let variables = of_variables(annotate)?;
    // The docstring and imports from `__future__` come first.
    let leads = |statement: &Stmt<'_>| match statement {
        Stmt::Assign(targets, _) => targets[..] == [Expr::Name("__doc__")],
        statement => matches!(statement, Stmt::ImportFrom("__future__", 0, ..)),
    };
    let mut from = statements.iter().take_while(|statement| leads(statement)).count();
    for (at, variable) in variables.iter().enumerate() {
        if let Some(number) = variable.met {
            let Some(met) = statements.iter().position(|statement| meets(statement, number)) else {
                // The compiler found that it is never executed.
                statements.insert(from, Stmt::If(Expr::Const(&FALSE), vec![variable.statement()], Vec::new()));
                from += 1;
                continue;
            };
            // Other annotations may be in the same statement.
            if met + 1 < from {
                return Err(ODD);
            }
            put(statements, number, variable);
            from = met + 1;
        } else {
            // Insert it before the next annotation with a known position, and after the assignment to the variable, if there is one.
            let mut next = variables[at..].iter().filter_map(|variable| variable.met);
            let limit = next.find_map(|number| statements.iter().position(|statement| meets(statement, number)));
            let limit = limit.unwrap_or(statements.len()).max(from);
            let given = |statement: &Stmt<'_>| matches!(statement, Stmt::Assign(targets, _) if targets[..] == [Expr::Name(variable.name)]);
            from = statements[from..limit].iter().position(given).map_or(from, |given| from + given + 1);
            statements.insert(from, variable.statement());
            from += 1;
        }
    }
    Ok(())
}

/// Returns true if a statement executes the annotation with a number.
fn meets(statement: &Stmt<'_>, number: &Const) -> bool {
    matches!(statement, Stmt::Met(met) if **met == *number) || bodies(statement).into_iter().flatten().any(|inner| meets(inner, number))
}

fn put<'a>(statements: &mut [Stmt<'a>], number: &Const, variable: &Variable<'a>) {
    for statement in statements {
        if matches!(statement, Stmt::Met(met) if **met == *number) {
            *statement = variable.statement();
        } else {
            for body in bodies_mut(statement) {
                put(body, number, variable);
            }
        }
    }
}

/// Combines an assignment and the annotation after it into `name: annotation = value`.
pub(crate) fn join(statements: &mut Vec<Stmt<'_>>) {
    let mut at = 0;
    while at < statements.len() {
        bodies_mut(&mut statements[at]).into_iter().for_each(join);
        if let [Stmt::Assign(targets, _), Stmt::Annotate(name, _, None), ..] = &statements[at..]
            && targets[..] == [Expr::Name(name)]
            && let Stmt::Assign(_, given) = statements.remove(at)
            && let Stmt::Annotate(_, _, value) = &mut statements[at]
        {
            *value = Some(given);
        }
        at += 1;
    }
}
