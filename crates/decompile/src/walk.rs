//! The parts of an expression.

use crate::ast::{Arg, Clause, Expr, Function, Piece, TypeParameter};

/// Calls `visit` with each expression directly inside.
pub(crate) fn children<'t, 'a>(expr: &'t Expr<'a>, visit: &mut dyn FnMut(&'t Expr<'a>)) {
    match expr {
        Expr::Attribute(value, _)
        | Expr::Unary(_, value)
        | Expr::Starred(value)
        | Expr::DoubleStarred(value)
        | Expr::Yield(value)
        | Expr::YieldFrom(value)
        | Expr::Await(value)
        | Expr::Walrus(_, value)
        | Expr::Group(value)
        | Expr::Copy(_, value)
        | Expr::Iterated(value)
        | Expr::Converted(_, value) => visit(value),
        Expr::TypeParameter(parameter) => type_parameter(parameter, visit),
        Expr::Alias(alias) => {
            alias.parameters.iter().for_each(|parameter| type_parameter(parameter, visit));
            visit(&alias.value);
        }
        Expr::Subscript(a, b) | Expr::Binary(_, a, b) | Expr::Bool(_, a, b) | Expr::InPlace(_, a, b) => {
            visit(a);
            visit(b);
        }
        Expr::IfElse(a, b, c) => [a, b, c].into_iter().for_each(|expr| visit(expr)),
        Expr::Slice(a, b, c) => [a, b, c].into_iter().flatten().for_each(|expr| visit(expr)),
        Expr::Call(function, args) => {
            visit(function);
            arguments(args, visit);
        }
        Expr::Compare(left, rest) => {
            visit(left);
            for (_, expr) in rest {
                visit(expr);
            }
        }
        Expr::Tuple(items) | Expr::List(items) | Expr::Set(items) => items.iter().for_each(visit),
        Expr::Stored(targets, value) => {
            targets.iter().for_each(&mut *visit);
            visit(value);
        }
        Expr::Dict(pairs) => {
            for (key, value) in pairs {
                key.iter().for_each(&mut *visit);
                visit(value);
            }
        }
        Expr::Format(pieces) | Expr::Template(pieces) => self::pieces(pieces, visit),
        Expr::Interpolation(piece) => self::pieces(std::slice::from_ref(&**piece), visit),
        Expr::Lambda(parameters, body) => {
            let all = parameters.positional.iter().chain(&parameters.keyword_only);
            all.filter_map(|parameter| parameter.default.as_ref()).for_each(&mut *visit);
            visit(body);
        }
        Expr::Comprehension(made) => {
            visit(&made.element);
            made.value.iter().for_each(&mut *visit);
            for clause in &made.clauses {
                match clause {
                    Clause::For { target, iter, .. } => {
                        visit(target);
                        visit(iter);
                    }
                    Clause::If(test) => visit(test),
                }
            }
        }
        Expr::Function(function) => self::function(function, visit),
        Expr::Class(function, args) => {
            self::function(function, visit);
            arguments(args, visit);
        }
        Expr::Case(case) => case.subject.iter().for_each(visit),
        Expr::Name(_)
        | Expr::Const(_)
        | Expr::Null
        | Expr::Marker(_)
        | Expr::Element(..)
        | Expr::BuildClass
        | Expr::AssertionError
        | Expr::Module(..)
        | Expr::Imported(..) => {}
    }
}

fn arguments<'t, 'a>(args: &'t [Arg<'a>], visit: &mut dyn FnMut(&'t Expr<'a>)) {
    for arg in args {
        match arg {
            Arg::Positional(expr) | Arg::Star(expr) | Arg::Keyword(_, expr) | Arg::DoubleStar(expr) => visit(expr),
        }
    }
}

fn function<'t, 'a>(function: &'t Function<'a>, visit: &mut dyn FnMut(&'t Expr<'a>)) {
    function.defaults.iter().for_each(&mut *visit);
    function.keyword_defaults.iter().chain(&function.annotations).for_each(|(_, expr)| visit(expr));
}

fn type_parameter<'t, 'a>(parameter: &'t TypeParameter<'a>, visit: &mut dyn FnMut(&'t Expr<'a>)) {
    parameter.bound.iter().chain(&parameter.default).for_each(visit);
}

fn pieces<'t, 'a>(pieces: &'t [Piece<'a>], visit: &mut dyn FnMut(&'t Expr<'a>)) {
    for piece in pieces {
        if let Piece::Value(expr, _, format) | Piece::Source(expr, _, _, format) = piece {
            visit(expr);
            if let Some(format) = format {
                self::pieces(format, visit);
            }
        }
    }
}
