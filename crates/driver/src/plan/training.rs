//! The gradients of an entry: the inputs and outputs that have one, and the values saved for the entry that computes them. For that entry,
//! the meaning of its arguments and results.

use dynamlir_dialect::{
    ir::{self, AttrValue, Op, Symbol, Type},
    ops,
};
use dynamlir_runtime::{Derivative, GradientOf, Layout, Output, Plan, PlanSlot, Saved, Training};
use dynamlir_shapes::{Dim, Window};

use super::{at, attributes::dtype, open::Opened};
use crate::Error;

/// Reads it into the entry's plan, whose outputs have been read. Saved values are not among the user's outputs.
pub(super) fn read(main: Op, plan: &mut Plan, opened: &mut Opened) -> Result<(), Error> {
    plan.requires_grad = (0..plan.inputs.len()).filter(|input| ops::REQUIRES_GRAD.of_arg(main, *input).is_some()).collect();
    let of_nodes = ops::VJPS.of(main).unwrap_or_default().into_iter().filter_map(Symbol::read);
    let vjps: Vec<String> = ops::VJP.of(main).into_iter().chain(of_nodes).map(|symbol| symbol.name).collect();
    if !vjps.is_empty() {
        let count = ops::SAVED.of(main).and_then(|count| usize::try_from(count).ok()).filter(|count| *count <= plan.outputs.len());
        let count = count.ok_or_else(|| at(main, format!("'{}' is not a number of outputs", ops::SAVED.name())))?;
        let kept = plan.outputs.split_off(plan.outputs.len() - count);
        let user = plan.outputs.len();
        let saved = |(i, output): (usize, &Output)| {
            let named = match output {
                Output::Same(other) if *other >= user => kept.get(other - user),
                Output::Same(other) => plan.outputs.get(*other),
                output => Some(output),
            };
            match named {
                Some(Output::Result(result)) => Ok(Saved::Result(*result)),
                Some(Output::Arg(arg)) => Ok(Saved::Arg(*arg)),
                _ => Err(at(main, format!("output {} is saved, and is neither a result nor an argument", user + i))),
            }
        };
        let saved = kept.iter().enumerate().map(saved).collect::<Result<_, _>>()?;
        plan.bases.truncate(user);
        let primals = ops::PRIMALS.of(main).unwrap_or_default().into_iter().filter_map(|at| usize::try_from(at).ok()).collect();
        let keys = ops::KEPT_KEYS.of(main).and_then(|at| usize::try_from(at).ok());
        let crossing = ops::CROSSING.of(main).unwrap_or_default().into_iter().enumerate();
        let crossing = crossing.map(|(i, ty)| without_memory(Type::read(ty), i, opened).map_err(|what| at(main, what)));
        let crossing = crossing.collect::<Result<_, _>>()?;
        let sizes = ops::KEPT_SIZES.of(main).is_some();
        plan.training = Some(Training { vjps, saved, primals, keys, sizes, crossing });
    }
    // These attributes describe only the user's outputs, not saved values.
    let user = plan.outputs.len();
    let positions = |attribute: Option<Vec<i64>>| {
        attribute.unwrap_or_default().into_iter().filter_map(|at| usize::try_from(at).ok()).filter(|at| *at < user).collect()
    };
    plan.differentiable = positions(ops::DIFFERENTIABLE.of(main));
    plan.without_grad = positions(ops::WITHOUT_GRAD.of(main));
    plan.one_of_several = positions(ops::ONE_OF_SEVERAL.of(main));
    let made_from = ops::MADE_FROM.of(main).unwrap_or_default();
    plan.made_from = made_from.into_iter().map(|at| usize::try_from(at).ok()).collect();
    let made_beside = ops::MADE_BESIDE.of(main).unwrap_or_default();
    plan.made_beside = made_beside.into_iter().map(|at| usize::try_from(at).ok()).collect();

    let number = |number: i64| usize::try_from(number).ok();
    plan.primals = (0..plan.inputs.len()).map(|input| ops::PRIMAL.of_arg(main, input).and_then(number)).collect();
    plan.keys = (0..plan.inputs.len()).find(|input| ops::KEYS.of_arg(main, *input).is_some());
    let places = |attribute: Vec<i64>| attribute.into_iter().filter_map(number).collect::<Vec<usize>>();
    let sources: Vec<_> = (0..plan.results.len()).map(|result| ops::SOURCES.of_result(main, result).map(places)).collect();
    if sources.iter().any(Option::is_some) {
        plan.sources = Some(sources.into_iter().map(Option::unwrap_or_default).collect());
    }
    let tangents: Vec<_> = (0..plan.inputs.len()).map(|input| ops::TANGENT.of_arg(main, input).and_then(number)).collect();
    if tangents.iter().any(Option::is_some) {
        let of = |result: usize| {
            let said = |attribute: Option<i64>| attribute.and_then(number);
            let of_input = said(ops::GRADIENT.of_result(main, result)).map(GradientOf::Input);
            let of_result = || said(ops::GRADIENT_OF.of_result(main, result)).map(GradientOf::Result);
            of_input.or_else(of_result).or_else(|| said(ops::GRADIENT_OF_OUTPUT.of_result(main, result)).map(GradientOf::Output))
        };
        let gradients: Option<Vec<GradientOf>> = (0..plan.results.len()).map(of).collect();
        let gradients = gradients.ok_or_else(|| at(main, "it takes tangents, but not all of its results are gradients"))?;
        let reached = (0..plan.results.len()).map(|result| ops::REACHED.of_result(main, result).map(places)).collect();
        let kept = ops::KEPT.of(main).map(places);
        let by_views = ops::BY_VIEWS.of(main).map(places).unwrap_or_default();
        let led = |attr| match ir::Output::read(attr) {
            Some(ir::Output::Arg(at)) => Some(GradientOf::Input(at)),
            Some(ir::Output::Result(at)) => Some(GradientOf::Result(at)),
            Some(ir::Output::Same(at)) => Some(GradientOf::Output(at)),
            _ => None,
        };
        let leads_to: Option<Vec<GradientOf>> =
            (0..plan.inputs.len()).flat_map(|input| ops::LEADS_TO.of_arg(main, input).unwrap_or_default()).map(led).collect();
        let leads_to = leads_to.ok_or_else(|| at(main, "a tangent leads to something that has no gradient"))?;
        let once = (0..plan.inputs.len()).any(|input| ops::ONCE.of_arg(main, input).is_some());
        let is_kept = |input: &usize| ops::KEPT_BY_EAGER.of_arg(main, *input).is_some();
        let by_eager = (0..plan.inputs.len()).filter(is_kept).filter_map(|input| tangents[input]).collect();
        plan.derivative = Some(Derivative { tangents, gradients, reached, kept, by_views, by_eager, once, leads_to });
    }
    Ok(())
}

/// The layout of a tensor whose elements are all the same one.
fn without_memory(ty: Option<Type>, number: usize, opened: &mut Opened) -> Result<Layout, String> {
    let ty = ty.filter(|ty| ty.is_tensor()).ok_or("what nodes hand to one another are tensors")?;
    let dtype = dtype(ty.element()).ok_or_else(|| format!("{ty} has no elements of torch's"))?;
    let dims = ty.dims();
    let strides = vec![Dim::from(0); dims.len()];
    let window = Window { sizes: dims, strides, offset: Dim::from(0) };
    Ok(Layout { dtype, window: opened.window(&window, |part| PlanSlot::Crossing(number, part))? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dynamlir_dialect::{Session, context::module_op, program::entries};

    const TEXT: &str = r"module {
  func.func @main(%x: memref<4xf32> {dynamo.requires_grad}, %w: memref<4xf32>) -> (memref<4xf32>, memref<4xf32>)
      attributes {dynamo.entry, dynamo.vjp = @main_vjp, dynamo.saved = 3 : i64, dynamo.primals = array<i64: 0>, dynamo.differentiable = array<i64: 0>,
                  dynamo.without_grad = array<i64: 1>, dynamo.bases = [unit, unit, unit, unit, unit],
                  dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<arg_view 1, [4], [1], 0>,
                                    #dynamo.output<same 0>, #dynamo.output<result 1>, #dynamo.output<arg 1>]} {
    %0 = dynamo.output_buffer : memref<4xf32>
    %1 = dynamo.output_buffer : memref<4xf32>
    return %0, %1 : memref<4xf32>, memref<4xf32>
  }
  func.func @main_vjp(%y: memref<4xf32>, %s: memref<4xf32>, %w: memref<4xf32>, %t: memref<4xf32> {dynamo.tangent = 0 : i64})
      -> (memref<4xf32> {dynamo.gradient = 0 : i64}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
    %0 = dynamo.output_buffer : memref<4xf32>
    return %0 : memref<4xf32>
  }
}";

    fn plans(text: &str) -> Result<Vec<Plan>, Error> {
        let session = Session::new();
        let module = session.parse(text)?;
        entries(module_op(&module)).into_iter().map(|entry| Ok(crate::plan::read(module_op(&module), entry)?.0)).collect()
    }

    #[test]
    fn what_is_kept_is_no_output() {
        let plans = plans(TEXT).expect("reads");
        let [main, vjp] = &plans[..] else { panic!("{plans:?}") };
        assert_eq!((main.outputs.len(), main.bases.len()), (2, 2));
        let saved = vec![Saved::Result(0), Saved::Result(1), Saved::Arg(1)];
        assert_eq!(
            main.training,
            Some(Training { vjps: vec!["main_vjp".into()], saved, primals: vec![0], keys: None, sizes: false, crossing: Vec::new() })
        );
        assert_eq!((&main.requires_grad[..], &main.differentiable[..], &main.without_grad[..]), (&[0][..], &[0][..], &[1][..]));
        let derivative = vjp.derivative.as_ref().expect("is a derivative");
        assert_eq!(derivative.tangents, [None, None, None, Some(0)]);
        assert_eq!((&derivative.gradients[..], &main.derivative), (&[GradientOf::Input(0)][..], &None));
    }

    #[test]
    fn only_results_and_arguments_are_kept() {
        let error = |from: &str, to: &str| plans(&TEXT.replace(from, to)).expect_err("is refused").to_string();
        let kept = error("#dynamo.output<same 0>", "#dynamo.output<same 1>");
        assert!(kept.contains("output 2 is saved, and is neither a result nor an argument"), "{kept}");
        let gradients = error("{dynamo.gradient = 0 : i64}", "");
        assert!(gradients.contains("not all of its results are gradients"), "{gradients}");
    }
}
