//! [`Trace::read`] is the inverse of [`Trace::write`]: for a trace that uses everything, and for all texts of the lit tests.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot read its input has failed")]

use std::{fs, path::Path, sync::Arc};

use dynamlir_dialect::{
    Session,
    context::module_op,
    ir::{
        Op,
        sizes::{SizeSymbol, SymbolSite},
    },
    program::entries,
};
use dynamlir_import::{Arg, Base, Creation, Frame, Input, OpCall, Output, Returned, TensorType, Trace};
use dynamlir_shapes::{Bindings, Dim, Interval, Symbol, SymbolInfo};

fn dim(text: &str) -> Dim {
    text.parse().expect("a size")
}

fn tensor(sizes: &[&str], strides: &[&str]) -> TensorType {
    let all = |texts: &[&str]| texts.iter().map(|text| dim(text)).collect();
    TensorType { dtype: "f32".into(), sizes: all(sizes), strides: all(strides), offset: 0.into() }
}

fn call(schema: &str, args: Vec<Arg>, ty: &TensorType) -> OpCall {
    let frame = |file: &str, line, column| Frame { file: file.into(), line, column, function: "forward".into() };
    OpCall {
        schema: schema.into(),
        args,
        results: [ty.clone()].into(),
        aliases: vec![-1],
        mutates: Vec::new(),
        functional: None,
        grad_enabled: true,
        decomposition: None,
        vjp: None,
        recompute: None,
        materialized: false,
        not_linear: false,
        once: false,
        unseen: false,
        location: [frame("torch/nn.py", 3, 0), frame("model.py", 12, 17)].into(),
    }
}

/// A derivative: from a tangent to a gradient.
fn vjp(ty: &TensorType, symbols: &[SizeSymbol]) -> Arc<Trace> {
    let mut trace = Trace::new("vjp_0");
    (trace.order, trace.keeps) = (1, true);
    trace.symbols = symbols.iter().map(|symbol| SizeSymbol { place: None, ..*symbol }).collect();
    trace.libraries = vec!["torch/nn.py".into()];
    let input = |name: &str, storage, tangent| Input {
        name: name.into(),
        ty: ty.clone(),
        storage,
        version_bumps: 0,
        requires_grad: false,
        tangent,
    };
    trace.input(input("arg0", 0, None));
    let tangent = trace.input(input("arg1", 1, Some(0)));
    let gradient = trace.op(call("aten.neg.default", vec![Arg::Tensor(tangent)], ty));
    trace.outputs = vec![Output::Value(Returned { gradient: Some(0), ..Returned::of(gradient) })];
    Arc::new(trace)
}

fn everything() -> Trace {
    let ty = tensor(&["s0", "3"], &["3", "1"]);
    let mut trace = Trace::new("main");
    trace.libraries = vec!["torch/nn.py".into()];
    (trace.random, trace.order, trace.path, trace.given) = (true, 3, vec![0, 1], vec![0]);
    let info = SymbolInfo { range: Interval::at_least(2), divisor: 1, hint: Some(4) };
    trace.symbols = vec![SizeSymbol { symbol: Symbol(0), place: Some(SymbolSite::Size { argument: 0, dim: 0 }), info }];
    trace.assumed = vec!["s0 != 7".parse().expect("a predicate")];
    let input = |name: &str, storage, requires_grad| Input {
        name: name.into(),
        ty: ty.clone(),
        storage,
        version_bumps: i64::from(requires_grad),
        requires_grad,
        tangent: None,
    };
    let x = trace.input(input("x", 4, true));
    let shares = trace.input(input("the same storage", 4, false));
    let derivative = vjp(&ty, &trace.symbols);
    let list = Arg::List(vec![Arg::Tensor(shares), Arg::Tensor(x), Arg::Size(dim("s0*2")), Arg::Int(-1), Arg::Float(f64::INFINITY)]);
    let args = vec![
        list,
        Arg::None,
        Arg::Bool(true),
        Arg::Str("a \"text\"".into()),
        Arg::DType("ui8".into()),
        Arg::Device("cuda:0".into()),
        Arg::MemoryFormat("channels_last".into()),
        Arg::Layout("strided".into()),
    ];
    let first = trace.op(OpCall {
        vjp: Some(Arc::clone(&derivative)),
        decomposition: Some(Arc::clone(&derivative)),
        recompute: Some(1),
        ..call("aten.mul.Tensor", args, &ty)
    });
    let written = OpCall {
        results: [ty.clone(), ty.clone()].into(),
        aliases: vec![0, -1],
        mutates: vec![0],
        functional: Some("aten.add.Tensor".into()),
        grad_enabled: false,
        vjp: Some(derivative),
        materialized: true,
        not_linear: true,
        once: true,
        unseen: true,
        location: [].into(),
        ..call("aten.add_.Tensor", vec![Arg::Tensor(first), Arg::Tensor(x)], &ty)
    };
    let second = trace.op(written);
    let returned = |value| Returned { version: 2, requires_grad: true, ..Returned::of(value) };
    trace.outputs = vec![
        Output::Value(Returned { base: Base::Arg(1), creation: Creation::OneOfSeveral, ..returned(second) }),
        Output::None,
        Output::Int(-5),
        Output::Value(Returned { creation: Creation::NoGrad, requires_grad: false, ..returned(second + 1) }),
    ];
    trace
}

fn written(trace: &Trace, session: &Session) -> String {
    let module = session.parse("module {}").expect("parses");
    trace.write(module_op(&module).body().expect("a body"), session.ctx()).expect("writes");
    module_op(&module).text_with_locations()
}

#[test]
fn what_is_written_is_read() {
    let session = Session::new();
    let (trace, module) = (everything(), session.parse("module {}").expect("parses"));
    trace.write(module_op(&module).body().expect("a body"), session.ctx()).expect("writes");
    let read = Trace::read(module_op(&module), "main").expect("reads");
    // Equal functions were written twice, so their names differ.
    let plain =
        |trace: &Trace| format!("{trace:?}").replace("vjp_1", "vjp_0").replace("decomposition_0", "vjp_0").replace("vjp_2", "vjp_0");
    assert_eq!(plain(&read), plain(&trace));
    assert_eq!(written(&read, &session), written(&trace, &session));
}

#[test]
fn symbols_become_numbers() {
    let values: Bindings = [(Symbol(0), 5)].into_iter().collect();
    let at = everything().at(&values).expect("has a value for each symbol");
    let text = written(&at, &Session::new());
    assert!(text.contains("5x3xf32") && text.contains(", 10, ") && !text.contains("s0"), "{text}");
    let missing = everything().at(&Bindings::default()).expect_err("has no value");
    assert!(missing.to_string().contains("s0"), "{missing}");
}

fn refused(text: &str) -> String {
    let session = Session::new();
    let module = session.parse(text).unwrap_or_else(|_| panic!("{}", session.take_diagnostics()));
    Trace::read(module_op(&module), "main").expect_err("is refused").message
}

#[test]
fn other_texts_are_refused() {
    assert_eq!(refused("module {}"), "there is no function @main with a body");
    assert_eq!(refused("module { func.func private @main() }"), "there is no function @main with a body");
    let message = refused("module { func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> } }");
    assert_eq!(message, "tensor<4xf32> is not a type of stage 00 (aten)");
    let ty = "!dynamo.tensor<4xf32, [1]>";
    let message = refused(&format!("module {{ func.func @main(%x: {ty}) {{ %c = arith.constant 1 : i64 return }} }}"));
    assert_eq!(message, "arith.constant is not an operation of stage 00 (aten)");
    let call = format!("dynamo.aten \"aten.neg.default\"(%x) args [#dynamo.operand<0>] {{vjp = @main}} : ({ty}) -> {ty}");
    let message = refused(&format!("module {{ func.func @main(%x: {ty}) {{ %y = {call} return }} }}"));
    assert_eq!(message, "@main refers to itself");
}

/// All entries at stage 00 in a text, which may be a module or several ones that `FileCheck` separates.
fn stage_00(session: &Session, text: &str) -> Vec<(Op, String)> {
    let mut found = Vec::new();
    for part in text.split("// -----") {
        let Ok(module) = session.parse(part) else { continue };
        // Modules live as long as the session in this test.
        let module = module_op(Box::leak(Box::new(module)));
        for entry in entries(module) {
            let name = entry.symbol().expect("an entry has a name");
            if Trace::read(module, &name).is_ok() {
                found.push((module, name));
            }
        }
    }
    session.take_diagnostics();
    found
}

fn texts(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            texts(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "mlir") {
            found.push(fs::read_to_string(&entry).expect("text"));
        }
    }
}

#[test]
fn texts_of_the_tests_are_written_as_they_were_read() {
    let session = Session::new();
    let (mut all, mut count) = (Vec::new(), 0);
    texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test"), &mut all);
    for text in all {
        for (module, name) in stage_00(&session, &text) {
            let first = Trace::read(module, &name).expect("was read");
            let module = session.parse(&written(&first, &session)).expect("parses");
            let second = Trace::read(module_op(&module), "main").expect("reads what was written");
            assert_eq!(written(&second, &session), written(&first, &session));
            count += 1;
        }
    }
    assert!(count >= 50, "only {count} entries at stage 00: are the tests elsewhere now?");
}
