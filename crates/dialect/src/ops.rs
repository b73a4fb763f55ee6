//! The dialect's operations, enumerations and discardable attributes, generated from its ODS files (`crates/ods`).
//!
//! Rust code takes their names from here.

pub use generated::*;

#[expect(clippy::doc_markdown, reason = "the ODS files speak of operators and formulas in their own words")]
mod generated {
    use dynamlir_shapes::Dim;

    use crate::ir::{Attr, AttrValue, Builder, Ctx, Discardable, Op, Symbol, Target, Type, Value};

    include!(concat!(env!("OUT_DIR"), "/dynamo.rs"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Session,
        context::module_op,
        ir::{AttrValue, Block, Builder, Type},
    };

    #[test]
    fn accessors_read_what_builders_wrote() {
        let session = Session::new();
        let module = session.parse("module { func.func @f(%x: tensor<6xf32>, %i: tensor<3xi64>) { return } }").expect("parses");
        let function = module_op(&module).body().map(Block::ops).expect("a body")[0];
        let body = function.body().expect("a body");
        let (args, end) = (body.args(), body.terminator().expect("a terminator"));
        let (b, ctx) = (Builder::before(end), function.ctx());
        let part = Type::tensor(&[3], Type::f32(ctx));

        let slice = SliceOp::build(&b, args[0], &[1], &[2], part);
        assert_eq!((slice.operand(), slice.starts(), slice.steps()), (args[0], vec![1], vec![2]));
        assert_eq!(SliceOp::defining(slice.result()), Some(slice));
        assert_eq!(DynamoOp::of(slice.op()), Some(DynamoOp::Slice(slice)));
        assert_eq!(DynamoOp::of(end), None);
        assert_eq!(slice.op().text(), "%0 = dynamo.slice %arg0 starts [1] steps [2] : tensor<6xf32> -> tensor<3xf32>");

        // Checks the operands that follow a variadic one.
        let scatter = ScatterOp::build(&b, args[0], &[args[1]], slice.result(), &[-1], Some(ReduceKind::Max), args[0].ty());
        assert_eq!((scatter.base(), scatter.indices(), scatter.source()), (args[0], vec![args[1]], slice.result()));
        assert_eq!(scatter.kind(), Some(ReduceKind::Max));
        let plain = ScatterOp::build(&b, args[0], &[args[1]], slice.result(), &[-1], None, args[0].ty());
        assert_eq!(plain.kind(), None);

        let exp = ExpOp::build(&b, slice.result());
        assert_eq!(exp.result().ty(), part);
        assert!(function.verify(), "{}", session.take_diagnostics());
    }

    #[test]
    fn segments_are_told_apart() {
        let session = Session::new();
        let text = r#"module {
  func.func @f(%a: memref<4xf32>, %b: memref<4xf32>, %c: memref<4xf32>) {
    dynamo.extern dispatcher "aten.add.Tensor"(%a, %b) outs(%c) args [#dynamo.operand<0>, #dynamo.operand<1>, 1] : (memref<4xf32>, memref<4xf32>) -> (), (memref<4xf32>)
    return
  }
}"#;
        let module = session.parse(text).expect("parses");
        let mut found = None;
        module_op(&module).walk(&mut |op| found = found.or(ExternOp::cast(op)));
        let call = found.expect("an extern op");
        assert_eq!((call.inputs().len(), call.outs().len(), call.outputs().len()), (2, 1, 0));
        assert_eq!((call.route(), call.schema()), (Route::Dispatcher, "aten.add.Tensor".to_owned()));
    }

    #[test]
    fn enumerators_go_into_attributes_and_back() {
        let session = Session::new();
        for &kind in ReduceKind::ALL {
            let attr = ReduceKind::write(session.ctx(), kind);
            assert_eq!(attr.to_string(), format!("#dynamo<reduce_kind {}>", kind.word()));
            assert_eq!(ReduceKind::read(attr), Some(kind));
            assert_eq!(Predicate::read(attr), None);
        }
        for &route in Route::ALL {
            assert_eq!(Route::read(Route::write(session.ctx(), route)), Some(route));
        }
        for &predicate in Predicate::ALL {
            assert_eq!(Predicate::read(Predicate::write(session.ctx(), predicate)), Some(predicate));
        }
    }

    #[test]
    fn discardable_attributes_have_types() {
        let session = Session::new();
        let text = "module { func.func private @f(tensor<4xf32> {dynamo.storage = 3 : i64}) attributes {dynamo.kernel, dynamo.domain = array<i64: 4>} }";
        let module = session.parse(text).expect("parses");
        let function = module_op(&module).body().map(Block::ops).expect("a body")[0];
        assert!(KERNEL.is_on(function) && !ENTRY.is_on(function));
        assert_eq!(DOMAIN.of(function), Some(vec![4]));
        assert_eq!((STORAGE.of_arg(function, 0), STORAGE.of_arg(function, 1)), (Some(3), None));
        assert!(DOMAIN.remove(function) && DOMAIN.of(function).is_none());
    }
}
