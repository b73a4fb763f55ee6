//! `match`: tests of cases first become a chain of branches, then a single statement.

use crate::{
    Problem,
    ast::{Case, Expr, Marker, MatchCase, Pattern, Stmt, Unary},
    machine::{Declared, State, printable},
    op::Keeps,
    patterns::Found,
    structure::leaves,
    tidy::bodies_mut,
};

const ODD: Problem = Problem::Stack("cases that no `match` has");

/// Runs the test of a case.
pub(crate) fn test<'a>(
    found: &Found<'a>,
    keeps: Keeps,
    state: &mut State<'a>,
    declared: &mut Declared<'a>,
    out: &mut Vec<Stmt<'a>>,
) -> Result<(), Problem> {
    found.stores.iter().for_each(|&(scope, name)| declared.note(scope, name));
    let subject = if state.peek(1)?.expr == Expr::Marker(Marker::Subject) {
        None
    } else {
        let subject = state.value()?.expr;
        printable(&subject)?;
        state.push(Expr::Marker(Marker::Subject));
        Some(subject)
    };
    if state.is_pending() {
        return Err(Problem::Stack("a statement while an expression is being computed"));
    }
    if keeps != Keeps::Subject {
        state.slot()?;
    }
    let pattern = found.pattern.clone();
    if keeps == Keeps::NoResult {
        // If the first pattern matches everything, this may not be a case at all.
        return if subject.is_none() { state.emit(Stmt::Otherwise(pattern), out) } else { Err(ODD) };
    }
    state.push(Expr::Case(Box::new(Case { subject, pattern, keeps: keeps == Keeps::Subject, joined: false })));
    Ok(())
}

/// Adds an alternative to the case at the top.
pub(crate) fn or<'a>(found: &Found<'a>, state: &mut State<'a>, declared: &mut Declared<'a>) -> Result<(), Problem> {
    found.stores.iter().for_each(|&(scope, name)| declared.note(scope, name));
    let Expr::Case(case) = &mut state.peek(1)?.expr else { return Err(ODD) };
    if case.joined
        && let Pattern::Or(all) = &mut case.pattern
    {
        all.push(found.pattern.clone());
    } else {
        case.joined = true;
        let first = std::mem::replace(&mut case.pattern, Pattern::Capture(None));
        case.pattern = Pattern::Or(vec![first, found.pattern.clone()]);
    }
    Ok(())
}

/// Returns the case that a test belongs to, if any.
pub(crate) fn case<'t, 'a>(test: &'t Expr<'a>) -> Option<&'t Case<'a>> {
    match test {
        Expr::Case(case) => Some(case),
        Expr::Bool(true, case, _) | Expr::Unary(Unary::Not, case) => self::case(case),
        _ => None,
    }
}

/// Splits a test into a case and its guard; true if the test is negated.
fn split(test: Expr<'_>) -> Result<(Case<'_>, Option<Expr<'_>>, bool), Problem> {
    match test {
        Expr::Case(case) => Ok((*case, None, false)),
        Expr::Unary(Unary::Not, test) => split(*test).map(|(case, guard, opposite)| (case, guard, !opposite)),
        Expr::Bool(true, first, second) => match split(*first)? {
            (case, None, false) => Ok((case, Some(*second), false)),
            (case, Some(guard), false) => Ok((case, Some(Expr::Bool(true, Box::new(guard), second)), false)),
            _ => Err(ODD),
        },
        _ => Err(ODD),
    }
}

/// Converts branches on cases into `match` statements.
pub(crate) fn gather(statements: &mut Vec<Stmt<'_>>) -> Result<(), Problem> {
    let mut at = 0;
    while at < statements.len() {
        if matches!(&statements[at], Stmt::If(test, ..) if case(test).is_some_and(|case| case.subject.is_some())) {
            let behind = statements.split_off(at + 1);
            let first = statements.pop().ok_or(ODD)?;
            let (made, mut behind) = statement(first, behind)?;
            statements.push(made);
            statements.append(&mut behind);
        }
        for body in bodies_mut(&mut statements[at]) {
            gather(body)?;
        }
        at += 1;
    }
    Ok(())
}

fn continues(statements: &[Stmt<'_>]) -> bool {
    match statements.first() {
        Some(Stmt::If(test, ..)) => case(test).is_some_and(|case| case.subject.is_none()),
        Some(Stmt::Otherwise(_)) => true,
        _ => false,
    }
}

/// Returns the statement that starts with a case, and the remaining statements after it.
fn statement<'a>(first: Stmt<'a>, behind: Vec<Stmt<'a>>) -> Result<(Stmt<'a>, Vec<Stmt<'a>>), Problem> {
    let mut cases = Vec::new();
    let mut subject = None;
    let (mut current, mut behind) = (first, behind);
    // The code after the whole statement, once `behind` is only the code after a case.
    let mut outside: Option<Vec<Stmt<'a>>> = None;
    loop {
        let (test, then, other) = match current {
            Stmt::If(test, then, other) => (test, then, other),
            // It matches everything that reaches it.
            Stmt::Otherwise(pattern) => {
                cases.push(MatchCase { pattern, guard: None, body: std::mem::take(&mut behind) });
                break;
            }
            _ => return Err(ODD),
        };
        let (case, guard, opposite) = split(test)?;
        let (then, mut other) = if opposite { (other, then) } else { (then, other) };
        subject = subject.or(case.subject);
        let left = leaves(&then);
        cases.push(MatchCase { pattern: case.pattern, guard, body: then });
        if case.keeps && other.is_empty() && left && continues(&behind) {
            current = behind.remove(0);
        } else if case.keeps && continues(&other) {
            // The code after the branch would be reached by all cases.
            if outside.is_some() && !behind.is_empty() {
                return Err(ODD);
            }
            current = other.remove(0);
            outside = outside.or(Some(std::mem::take(&mut behind)));
            behind = other;
        } else {
            let inside = outside.is_some() && !behind.is_empty();
            if !other.is_empty() && !inside {
                cases.push(MatchCase { pattern: Pattern::Capture(None), guard: None, body: other });
            } else if inside && other.is_empty() && left {
                cases.push(MatchCase { pattern: Pattern::Capture(None), guard: None, body: std::mem::take(&mut behind) });
            } else if inside {
                return Err(ODD);
            }
            break;
        }
    }
    Ok((Stmt::Match(subject.ok_or(ODD)?, cases), outside.unwrap_or(behind)))
}
