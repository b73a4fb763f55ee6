//! The effects of an entry besides its values: versions, the bases of outputs that are views, random numbers.

use dynamlir_dialect::{
    ir::{self, Attr, AttrValue, Op},
    ops,
};
use dynamlir_runtime::{Base, Plan};

use super::at;
use crate::Error;

/// Reads them into the entry's plan. The runtime checks if they are possible.
pub(super) fn read(main: Op, plan: &mut Plan) -> Result<(), Error> {
    let wrong = |what: &str| at(main, format!("'{what}' is not what it should be"));
    plan.random = ops::RANDOM.is_on(main);
    if ops::VERSIONS.is_on(main) {
        plan.versions = ops::VERSIONS.of(main).ok_or_else(|| wrong(ops::VERSIONS.name()))?;
    }
    if ops::BASES.is_on(main) {
        let bases = ops::BASES.of(main).ok_or_else(|| wrong(ops::BASES.name()))?;
        plan.bases = bases.into_iter().map(base).collect::<Result<_, _>>().map_err(|()| wrong(ops::BASES.name()))?;
    }
    for (i, input) in plan.inputs.iter_mut().enumerate() {
        input.version_bumps = ops::VERSION_BUMPS.of_arg(main, i).unwrap_or(0);
    }
    Ok(())
}

/// Reads `#dynamo.base<…>`; `unit` means that the output's base is the one it gets when it is created.
fn base(attr: Attr) -> Result<Option<Base>, ()> {
    match ir::Base::read(attr) {
        _ if attr.is_unit() => Ok(None),
        None => Err(()),
        Some(ir::Base::None) => Ok(Some(Base::None)),
        Some(ir::Base::Arg(arg)) => Ok(Some(Base::Arg(arg))),
        Some(ir::Base::Output(output)) => Ok(Some(Base::Output(output))),
        Some(ir::Base::Hidden(first)) => Ok(Some(Base::Hidden(first))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dynamlir_dialect::{Session, context::module_op, program::entries};

    const TEXT: &str = r"module {
  func.func @main(%x: memref<4xf32> {dynamo.version_bumps = 2 : i64}, %w: memref<4xf32> {dynamo.requires_grad}) -> memref<4xf32>
      attributes {dynamo.entry, dynamo.random, dynamo.versions = array<i64: 3>,
                  dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<arg_view 0, [4], [1], 0>, #dynamo.output<none>],
                  dynamo.bases = [unit, #dynamo.base<none>, unit]} {
    %0 = dynamo.output_buffer : memref<4xf32>
    return %0 : memref<4xf32>
  }
}";

    /// The plan of a text whose entry is modified by `damage` after parsing, when nothing verifies it any more.
    fn plan(text: &str, damage: impl FnOnce(Op)) -> Result<Plan, Error> {
        let session = Session::new();
        let module = session.parse(text)?;
        let entry = entries(module_op(&module))[0];
        damage(entry);
        crate::plan::read(module_op(&module), entry).map(|(plan, _)| plan)
    }

    #[test]
    fn all_of_it_is_read() {
        let plan = plan(TEXT, |_| ()).expect("reads");
        assert_eq!(plan.inputs.iter().map(|input| input.version_bumps).collect::<Vec<_>>(), [2, 0]);
        assert_eq!((plan.random, plan.requires_grad, plan.versions), (true, vec![1], vec![3]));
        assert_eq!(plan.bases, [None, Some(Base::None), None]);
        let bare = "module { func.func @main() attributes {dynamo.entry, dynamo.outputs = []} { return } }";
        assert_eq!(super::tests::plan(bare, |_| ()).expect("reads"), Plan::default());
    }

    #[test]
    fn what_is_no_such_attribute_is_an_error_that_names_it() {
        let error = |damage: fn(Op)| plan(TEXT, damage).expect_err("is refused").to_string();
        assert!(error(|entry| entry.set_attr("dynamo.versions", Attr::str(entry.ctx(), "x"))).contains("'dynamo.versions'"));
        assert!(error(|entry| entry.set_attr("dynamo.bases", Attr::str(entry.ctx(), "x"))).contains("'dynamo.bases'"));
        let of_numbers = |entry: Op| ops::BASES.set(entry, &[Attr::i64(entry.ctx(), 1)]);
        assert!(error(of_numbers).contains("'dynamo.bases'"));
    }

    #[test]
    fn the_dialect_refuses_what_cannot_be() {
        let error = |from: &str, to: &str| plan(&TEXT.replace(from, to), |_| ()).expect_err("is refused").to_string();
        assert!(error("array<i64: 3>", "array<i64: -3>").contains("must not be negative"));
        assert!(error("version_bumps = 2", "version_bumps = -2").contains("'dynamo.version_bumps' of argument 0"));
        assert!(error("#dynamo.base<none>", "#dynamo.base<output 1>").contains("is the output itself"));
        assert!(error("#dynamo.base<none>", "#dynamo.base<arg 2>").contains("names nothing: there are 2 arguments"));
    }
}
