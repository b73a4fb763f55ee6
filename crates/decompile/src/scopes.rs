//! `global` declarations for names that are only read: without one, a nested function would find the variable of an enclosing function.

use dynamlir_bytecode::{CodeObject, Const, Opcode};

use crate::{
    ast::{Expr, Stmt},
    lift::Source,
    tidy::bodies_mut,
};

/// Declares, in the functions and classes among statements, the globals that are also variables of an enclosing function.
pub(crate) fn declare<'a>(statements: &mut [Stmt<'a>], around: &[&'a str]) {
    for statement in statements {
        let (code, body, class) = match statement {
            Stmt::Def { body, .. } => (body.code, &mut body.statements, false),
            Stmt::ClassDef { body, .. } => (body.code, &mut body.statements, true),
            other => {
                for inner in bodies_mut(other) {
                    declare(inner, around);
                }
                continue;
            }
        };
        let Ok(body) = body else { continue };
        let mut hidden: Vec<&str> = Vec::new();
        for name in globals(code) {
            if around.contains(&name) && !hidden.contains(&name) && !body.iter().any(|statement| declares(statement, name)) {
                hidden.push(name);
            }
        }
        let mut inside: Vec<&str> = around.iter().copied().filter(|name| !globals(code).contains(name)).collect();
        if !class {
            inside.extend(code.varnames.iter().chain(&code.cellvars).chain(&code.freevars).map(String::as_str));
        }
        declare(body, &inside);
        if !hidden.is_empty() {
            // After the docstring.
            let at = usize::from(matches!(body.first(), Some(Stmt::Expr(Expr::Const(Const::Str(_) | Const::WideStr(_))))));
            body.insert(at, Stmt::Global(hidden));
        }
    }
}

fn declares(statement: &Stmt<'_>, name: &str) -> bool {
    matches!(statement, Stmt::Global(names) if names.contains(&name))
}

/// Returns the globals that a code object loads, including those of its lambdas and comprehensions, which cannot declare any.
fn globals(code: &CodeObject) -> Vec<&str> {
    let source = Source::new(code);
    let decoded = code.decode().map(|decoded| decoded.instructions).unwrap_or_default();
    let own = decoded.iter().filter(|instruction| instruction.opcode == Opcode::LoadGlobal);
    let mut found: Vec<&str> = own.filter_map(|instruction| source.name(instruction).ok()).collect();
    for value in &code.consts {
        if let Const::Code(inner) = value
            && inner.name.starts_with('<')
        {
            found.extend(globals(inner));
        }
    }
    found
}
