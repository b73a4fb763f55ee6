//! Prints the tree as source text.

use std::fmt::Write;

use dynamlir_bytecode::{CodeObject, Const, Version, disassemble, flags, repr};

use crate::{
    ast::{Body, Expr, Function, Parameter, ParameterKind, Parameters, Stmt, Try, TypeParameter},
    body::Scoped,
    functions,
    names::is_identifier,
};

mod expressions;
mod patterns;
mod strings;

use expressions::Level;

/// Writes statements.
pub(crate) struct Printer {
    pub version: Version,
    out: String,
    indent: usize,
    /// True if annotations are strings that the compiler created: `from __future__ import annotations` is part of the text.
    quoted: bool,
    /// A part that could not be written: the enclosing function then becomes disassembly.
    pub problem: Option<String>,
    /// Functions and classes whose bodies are left as disassembly, with the reason.
    pub unknown: Vec<String>,
}

impl Printer {
    pub fn new(version: Version) -> Self {
        Self { version, out: String::new(), indent: 0, quoted: false, problem: None, unknown: Vec::new() }
    }

    pub fn finish(self) -> (String, Vec<String>) {
        (self.out, self.unknown)
    }

    pub fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn block(&mut self, head: &str, body: &[Stmt<'_>]) {
        self.line(head);
        self.indent += 1;
        self.statements(body);
        self.indent -= 1;
    }

    /// Writes a whole code object.
    pub fn whole(&mut self, code: &CodeObject, scoped: Scoped, statements: &[Stmt<'_>]) {
        self.head(code, scoped);
        self.quoted = scoped == Scoped::Module && code.has(flags::FUTURE_ANNOTATIONS);
        match (scoped, statements) {
            (Scoped::Lambda, [Stmt::Return(value)]) => {
                let text = self.head_of_lambda(code) + &self.test(value);
                self.line(&text);
            }
            (Scoped::Lambda, _) => self.problem = Some("a lambda with statements".to_owned()),
            _ => self.statements(statements),
        }
    }

    /// Writes a whole code object that could not be decompiled.
    pub fn whole_unknown(&mut self, code: &CodeObject, scoped: Scoped, reason: &str) {
        self.head(code, scoped);
        self.disassembly(code, reason);
    }

    /// Writes the line above a body, and indents.
    fn head(&mut self, code: &CodeObject, scoped: Scoped) {
        let function = Function::new(code);
        match scoped {
            Scoped::Function => {
                if !code.freevars.is_empty() {
                    self.line(&format!("# free variables: {}", code.freevars.join(", ")));
                }
                let parameters = functions::parameters(&function).map(|(parameters, _)| self.parameters(&parameters, false));
                let is_async = code.has(flags::COROUTINE | flags::ASYNC_GENERATOR);
                let parameters = parameters.unwrap_or_else(|problem| format!("...  # {problem}"));
                self.line(&format!("{}def {}({parameters}):", prefix(is_async), code.name));
                self.indent += 1;
            }
            Scoped::Class => {
                self.line(&format!("class {}:", code.name));
                self.indent += 1;
            }
            Scoped::Lambda | Scoped::Module => {}
        }
    }

    fn head_of_lambda(&mut self, code: &CodeObject) -> String {
        let function = Function::new(code);
        match functions::parameters(&function) {
            Ok((parameters, _)) => {
                let parameters = self.parameters(&parameters, false);
                if parameters.is_empty() { "lambda: ".to_owned() } else { format!("lambda {parameters}: ") }
            }
            Err(problem) => {
                self.problem = Some(problem.to_string());
                String::new()
            }
        }
    }

    /// Writes statements; `pass` if there are none.
    pub fn statements(&mut self, statements: &[Stmt<'_>]) {
        if statements.is_empty() {
            self.line("pass");
        }
        for statement in statements {
            self.statement(statement);
        }
    }

    /// Returns an expression for a position where anything except `:=` needs no parentheses.
    fn any(&mut self, expr: &Expr<'_>) -> String {
        self.expression(expr, Level::Any)
    }

    fn annotation(&mut self, expr: &Expr<'_>) -> String {
        match expr {
            Expr::Const(Const::Str(text)) if self.quoted => text.clone(),
            expr => self.test(expr),
        }
    }

    fn test(&mut self, expr: &Expr<'_>) -> String {
        self.expression(expr, Level::Test)
    }

    fn statement(&mut self, statement: &Stmt<'_>) {
        match statement {
            Stmt::Expr(value) => {
                let text = self.any(value);
                self.line(&text);
            }
            Stmt::Assign(targets, value) => {
                let mut text = String::new();
                for target in targets {
                    let _ = write!(text, "{} = ", self.any(target));
                }
                text.push_str(&self.any(value));
                self.line(&text);
            }
            Stmt::AugAssign(target, symbol, value) => {
                let text = format!("{} {symbol} {}", self.any(target), self.any(value));
                self.line(&text);
            }
            Stmt::Annotate(name, annotation, value) => {
                let mut text = format!("{name}: {}", self.annotation(annotation));
                if let Some(value) = value {
                    let _ = write!(text, " = {}", self.any(value));
                }
                self.line(&text);
            }
            Stmt::Delete(target) => {
                let text = format!("del {}", self.any(target));
                self.line(&text);
            }
            Stmt::Return(Expr::Const(Const::None)) => self.line("return"),
            Stmt::Return(value) => {
                let text = format!("return {}", self.expression(value, Level::NoYield));
                self.line(&text);
            }
            Stmt::Raise(value, cause) => {
                let mut text = "raise".to_owned();
                if let Some(value) = value {
                    let _ = write!(text, " {}", self.test(value));
                }
                if let Some(cause) = cause {
                    let _ = write!(text, " from {}", self.test(cause));
                }
                self.line(&text);
            }
            Stmt::Assert(test, message) => {
                let mut text = format!("assert {}", self.test(test));
                if let Some(message) = message {
                    let _ = write!(text, ", {}", self.test(message));
                }
                self.line(&text);
            }
            Stmt::Import(module, stored, lazy) => {
                let plain = module.split('.').next() == Some(stored);
                let stored = if plain { String::new() } else { format!(" as {stored}") };
                self.line(&format!("{}import {module}{stored}", laziness(*lazy)));
            }
            Stmt::ImportFrom(module, level, names, lazy) => {
                let name = |(name, stored): &(&str, &str)| if name == stored { (*name).to_owned() } else { format!("{name} as {stored}") };
                let names = if names.is_empty() { "*".to_owned() } else { names.iter().map(name).collect::<Vec<_>>().join(", ") };
                self.line(&format!("{}from {}{module} import {names}", laziness(*lazy), ".".repeat(*level)));
            }
            Stmt::Global(names) => self.line(&format!("global {}", names.join(", "))),
            Stmt::Nonlocal(names) => self.line(&format!("nonlocal {}", names.join(", "))),
            Stmt::Pass => self.line("pass"),
            Stmt::Break => self.line("break"),
            Stmt::Continue => self.line("continue"),
            Stmt::If(test, then, other) => self.if_statement("if", test, then, other),
            Stmt::While(test, body, orelse) => {
                let head = format!("while {}:", self.test(test));
                self.block(&head, body);
                self.orelse(orelse);
            }
            Stmt::For { target, iter, body, orelse, is_async } => {
                let head = format!("{}for {} in {}:", prefix(*is_async), self.any(target), self.expression(iter, Level::NoYield));
                self.block(&head, body);
                self.orelse(orelse);
            }
            Stmt::With { context, target, body, is_async } => {
                let mut head = format!("{}with {}", prefix(*is_async), self.test(context));
                if let Some(target) = target {
                    let _ = write!(head, " as {}", self.test(target));
                }
                head.push(':');
                self.block(&head, body);
            }
            Stmt::Try(statement) => self.try_statement(statement),
            Stmt::Match(subject, cases) => {
                let head = format!("match {}:", self.expression(subject, Level::NoYield));
                self.line(&head);
                self.indent += 1;
                for case in cases {
                    let mut head = format!("case {}", self.pattern(&case.pattern));
                    if let Some(guard) = &case.guard {
                        let _ = write!(head, " if {}", self.test(guard));
                    }
                    head.push(':');
                    self.block(&head, &case.body);
                }
                self.indent -= 1;
            }
            Stmt::Def { name, type_parameters, parameters, returns, decorators, body, is_async } => {
                self.decorators(decorators);
                let generic = self.type_parameters(type_parameters);
                let mut head = format!("{}def {name}{generic}({})", prefix(*is_async), self.parameters(parameters, true));
                if let Some(returns) = returns {
                    let _ = write!(head, " -> {}", self.annotation(returns));
                }
                head.push(':');
                self.line(&head);
                self.body(body);
            }
            Stmt::ClassDef { name, type_parameters, arguments, decorators, body } => {
                self.decorators(decorators);
                let arguments = if arguments.is_empty() { String::new() } else { format!("({})", self.arguments(arguments)) };
                let generic = self.type_parameters(type_parameters);
                self.line(&format!("class {name}{generic}{arguments}:"));
                self.body(body);
            }
            Stmt::TypeAlias(alias) => {
                let text = format!("type {}{} = {}", alias.name, self.type_parameters(&alias.parameters), self.test(&alias.value));
                self.line(&text);
            }
            Stmt::Otherwise(_) => self.problem = Some("cases that no `match` has".to_owned()),
            Stmt::Annotations(_) | Stmt::Met(_) => self.problem = Some("annotations that no compiler writes".to_owned()),
            Stmt::Append(..) => self.problem = Some("an element outside of a comprehension".to_owned()),
        }
    }

    fn decorators(&mut self, decorators: &[Expr<'_>]) {
        for decorator in decorators {
            let text = format!("@{}", self.test(decorator));
            self.line(&text);
        }
    }

    fn if_statement(&mut self, word: &str, test: &Expr<'_>, then: &[Stmt<'_>], other: &[Stmt<'_>]) {
        let head = format!("{word} {}:", self.test(test));
        self.block(&head, then);
        match other {
            [Stmt::If(test, then, other)] => self.if_statement("elif", test, then, other),
            other => self.orelse(other),
        }
    }

    fn orelse(&mut self, statements: &[Stmt<'_>]) {
        if !statements.is_empty() {
            self.block("else:", statements);
        }
    }

    fn try_statement(&mut self, statement: &Try<'_>) {
        self.block("try:", &statement.body);
        for handler in &statement.handlers {
            let mut head = "except".to_owned();
            if let Some(kind) = &handler.kind {
                let _ = write!(head, " {}", self.test(kind));
            }
            if let Some(name) = &handler.name {
                let _ = write!(head, " as {}", self.test(name));
            }
            head.push(':');
            self.block(&head, &handler.body);
        }
        self.orelse(&statement.orelse);
        if statement.handlers.is_empty() || !statement.finally.is_empty() {
            self.block("finally:", &statement.finally);
        }
    }

    /// Writes the body of a function or class. If any part of it cannot be written, all of it becomes disassembly.
    fn body(&mut self, body: &Body<'_>) {
        self.indent += 1;
        let (start, around) = (self.out.len(), self.problem.take());
        let problem = match &body.statements {
            Ok(statements) => {
                self.statements(statements);
                self.problem.take()
            }
            Err(problem) => Some(problem.clone()),
        };
        if let Some(problem) = problem {
            self.out.truncate(start);
            // The enclosing functions keep their cells.
            let free: Vec<&str> = body.code.freevars.iter().map(String::as_str).filter(|name| is_identifier(name)).collect();
            if !free.is_empty() {
                self.line(&format!("nonlocal {}", free.join(", ")));
            }
            self.disassembly(body.code, &problem);
        }
        self.problem = around;
        self.indent -= 1;
    }

    /// Writes a body that could not be decompiled: the instructions as comments, and an exception instead of a wrong meaning.
    pub fn disassembly(&mut self, code: &CodeObject, reason: &str) {
        self.unknown.push(format!("{}: {reason}", code.qualname));
        self.line(&format!("# Not decompiled: {reason}."));
        let listing = disassemble(code).unwrap_or_else(|error| error.to_string());
        let own = listing.split("\nDisassembly of ").next().unwrap_or_default();
        for line in own.lines() {
            self.line(format!("# {line}").trim_end());
        }
        self.line(&format!("raise NotImplementedError({})", repr::quoted(format!("not decompiled: {reason}").chars().map(u32::from))));
    }

    /// Returns type parameters in brackets; empty if there are none.
    fn type_parameters(&mut self, parameters: &[TypeParameter<'_>]) -> String {
        let one = |parameter: &TypeParameter<'_>| {
            let stars = match parameter.kind {
                ParameterKind::Plain => "",
                ParameterKind::Star => "*",
                ParameterKind::DoubleStar => "**",
            };
            let mut text = format!("{stars}{}", parameter.name);
            if let Some(bound) = &parameter.bound {
                let tuple = matches!(bound, Expr::Tuple(_) | Expr::Const(Const::Tuple(_)));
                if parameter.constraints != tuple {
                    self.problem = Some("a bound that no source has".to_owned());
                }
                let _ = write!(text, ": {}", self.test(bound));
            }
            if let Some(default) = &parameter.default {
                let _ = write!(text, " = {}", self.test(default));
            }
            text
        };
        let parts: Vec<String> = parameters.iter().map(one).collect();
        if parts.is_empty() { String::new() } else { format!("[{}]", parts.join(", ")) }
    }

    /// Returns the parameters of a function, or of a lambda, which does not have annotations.
    pub fn parameters(&mut self, parameters: &Parameters<'_>, annotated: bool) -> String {
        let mut parts = Vec::new();
        for (at, parameter) in parameters.positional.iter().enumerate() {
            if at == parameters.positional_only && at > 0 {
                parts.push("/".to_owned());
            }
            parts.push(self.parameter(parameter, annotated, ""));
        }
        if parameters.positional_only > 0 && parameters.positional_only == parameters.positional.len() {
            parts.push("/".to_owned());
        }
        match &parameters.rest {
            Some(rest) => parts.push(self.parameter(rest, annotated, "*")),
            None if !parameters.keyword_only.is_empty() => parts.push("*".to_owned()),
            None => {}
        }
        for parameter in &parameters.keyword_only {
            parts.push(self.parameter(parameter, annotated, ""));
        }
        if let Some(options) = &parameters.options {
            parts.push(self.parameter(options, annotated, "**"));
        }
        parts.join(", ")
    }

    fn parameter(&mut self, parameter: &Parameter<'_>, annotated: bool, stars: &str) -> String {
        let mut text = format!("{stars}{}", parameter.name);
        let annotation = parameter.annotation.as_ref().filter(|_| annotated);
        if let Some(annotation) = annotation {
            let _ = write!(text, ": {}", self.annotation(annotation));
        }
        if let Some(default) = &parameter.default {
            let equals = if annotation.is_some() { " = " } else { "=" };
            let _ = write!(text, "{equals}{}", self.test(default));
        }
        text
    }
}

fn prefix(is_async: bool) -> &'static str {
    if is_async { "async " } else { "" }
}

fn laziness(lazy: bool) -> &'static str {
    if lazy { "lazy " } else { "" }
}
