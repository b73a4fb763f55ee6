//! Tests of writing code: the result decompiles to its input, on each version, and has a consistent stack.

use dynamlir_bytecode::{CodeObject, Const, Expr, Flow, Opcode, StackDepths, Statement, Version, WriteError, flags, number_of, write};
use dynamlir_decompile::decompile;

/// Returns the head of `def f(x, *args, key, **rest)` in a function that has `free`.
fn head(version: Version) -> CodeObject {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    CodeObject {
        version,
        name: "f".to_owned(),
        qualname: "f".to_owned(),
        filename: "f.py".to_owned(),
        first_line: 7,
        flags: flags::OPTIMIZED | flags::NEWLOCALS | flags::VARARGS | flags::VARKEYWORDS | 0x0400_0000,
        arg_count: 1,
        positional_only: 0,
        keyword_only: 1,
        stack_size: 0,
        bytecode: Vec::new(),
        exception_table: Vec::new(),
        line_table: Vec::new(),
        consts: vec![Const::Str("a docstring".to_owned())],
        names: Vec::new(),
        varnames: words(&["x", "key", "args", "rest", "old"]),
        cellvars: words(&["x"]),
        freevars: words(&["free"]),
    }
}

fn local(name: &str) -> Expr {
    Expr::Local(name.to_owned())
}

fn global(name: &str) -> Expr {
    Expr::Global(name.to_owned())
}

fn number(value: i64) -> Expr {
    Expr::Const(Const::Int(value.to_string()))
}

fn text(value: &str) -> Expr {
    Expr::Const(Const::Str(value.to_owned()))
}

/// Returns the lines of the body, and the code.
fn written(version: Version, body: &[Statement], result: &Expr) -> (Vec<String>, CodeObject) {
    let code = write(&head(version), body, result).expect("it is written");
    let decoded = code.decode().expect("it decodes");
    let flow = Flow::of(&decoded);
    StackDepths::of(&decoded, &flow).expect("the stack is kept");
    let made = decompile(&code);
    assert_eq!(made.unknown, [] as [String; 0], "{version}: {}", made.text);
    let lines = made.text.lines().skip_while(|line| !line.trim_start().starts_with("def f(")).skip(1);
    (lines.filter(|line| !line.is_empty() && line.trim() != "nonlocal free").map(|line| line.trim().to_owned()).collect(), code)
}

#[test]
fn calls_and_lookups() {
    for version in Version::ALL {
        let body = [
            Statement::Assign("out".to_owned(), global("graph").call(vec![local("x"), local("args").at(0), local("x").attr("weight")])),
            Statement::SetItem { base: local("out").attr("__dict__"), key: text("a"), value: Expr::Free("free".to_owned()) },
            Statement::Do(global("object").attr("__new__").call(vec![local("key")])),
        ];
        let result = local("out").at(1).call(vec![local("rest").item(text("k"))]);
        let (lines, code) = written(version, &body, &result);
        let wanted = ["out = graph(x, args[0], x.weight)", "out.__dict__['a'] = free", "object.__new__(key)", "return out[1](rest['k'])"];
        assert!(lines.iter().map(|line| line.replace('"', "'")).eq(wanted), "{version}: {lines:?}");
        assert_eq!(code.varnames, ["x", "key", "args", "rest", "out"]);
        assert_eq!((code.freevars.len(), code.cellvars.len()), (1, 0));
        assert_eq!(code.positions().expect("lines").line(0), Some(7));
        assert!(!code.has(0x0400_0000), "{version}: the docstring is gone");
    }
}

#[test]
fn displays_are_those_of_the_compiler() {
    for version in Version::ALL {
        let pairs = |keys: [&str; 2]| keys.map(|key| (text(key), local("x"))).to_vec();
        let result = Expr::Tuple(vec![
            Expr::List(vec![number(1), number(-2), number(3)]),
            Expr::List(vec![local("x"), number(1)]),
            Expr::Dict(pairs(["a", "b"])),
            Expr::Dict(vec![(local("x"), number(1))]),
            Expr::Set(vec![local("x"), number(1)]),
            Expr::Tuple(vec![number(1), Expr::Tuple(vec![text("t")])]),
            Expr::Const(Const::Float(-0.0)),
            Expr::Const(Const::Float(0.0)),
        ]);
        let (lines, code) = written(version, &[], &result);
        let wanted = "return [1, -2, 3], [x, 1], {'a': x, 'b': x}, {x: 1}, {x, 1}, (1, ('t',)), -0.0, 0.0";
        assert_eq!(lines.join("\n").replace('"', "'"), wanted, "{version}");
        let opcodes: Vec<_> = code.decode().expect("it decodes").instructions.iter().map(|i| i.opcode).collect();
        let has_keys = number_of(version, Opcode::BuildConstKeyMap).is_some();
        assert_eq!(opcodes.contains(&Opcode::BuildConstKeyMap), has_keys, "{version}: {opcodes:?}");
        assert!(opcodes.contains(&Opcode::ListExtend), "{version}: {opcodes:?}");
    }
}

#[test]
fn constants_are_returned_and_never_a_docstring() {
    for version in Version::ALL {
        let (lines, code) = written(version, &[], &Expr::Tuple(vec![text("s")]));
        assert_eq!(lines[0].replace('"', "'"), "return ('s',)", "{version}");
        assert_eq!(code.docstring(), None, "{version}");
        let last = code.decode().expect("it decodes").instructions.last().map(|last| last.opcode);
        let wanted = if number_of(version, Opcode::ReturnConst).is_some() { Opcode::ReturnConst } else { Opcode::ReturnValue };
        assert_eq!(last, Some(wanted), "{version}");
    }
}

#[test]
fn many_arguments_need_prefixes() {
    for version in Version::ALL {
        let many: Vec<_> = (0..300).map(|index| local("args").at(index)).collect();
        let (_, code) = written(version, &[], &global("graph").call(many));
        assert!(code.stack_size >= 302, "{version}: {}", code.stack_size);
    }
}

#[test]
fn what_is_not_there_is_an_error() {
    let error = write(&head(Version::V3_12), &[], &local("nowhere")).expect_err("there is none");
    assert_eq!(error, WriteError::Unknown("nowhere".to_owned()));
}
