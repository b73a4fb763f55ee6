//! The outputs whose base in eager differs from the one that the runtime gives them: `dynamo.bases` of stage 01.
//!
//! At stage 00 the entry records for each output the tensor that it is a view of in eager. `dynamo.outputs` of stage 01 determines what the
//! runtime makes it a view of: directly of the argument or result whose memory it shares. Eager breaks such chains at `detach()` and at
//! composites that hide one. Also, a tensor that changed its shape in place remains the base of the views created before:
//!
//! ```mlir
//! // d = x.detach(); return d.t(), d
//! dynamo.bases   = [#dynamo.base<output 1>, #dynamo.base<none>]
//! // Both are created as views of %x, which would become their base. Had d been x.view(-1), this would be dropped:
//! dynamo.outputs = [#dynamo.output<arg_view 0, …>, #dynamo.output<arg_view 0, …>]
//! ```
//!
//! An output whose base is already right becomes `unit`: nothing needs to be done. Most graphs have only such outputs, and then the
//! attribute is omitted.

use std::collections::HashMap;

use dynamlir_dialect::ir::{Attr, AttrValue, Base, Ctx, Output};

/// Returns `dynamo.bases` for these outputs, given the `recorded` bases; a recorded `None` is a base that is not known. Returns `None` if
/// nothing needs to be done.
pub fn to_be_made(ctx: Ctx, outputs: &[Output], recorded: &[Option<Base>]) -> Option<Vec<Attr>> {
    let wanted = |(base, natural): (&Option<Base>, Natural)| match natural {
        Natural::Is(natural) => base.filter(|base| *base != natural),
        Natural::Fixed => None,
    };
    let wanted: Vec<Option<Base>> = recorded.iter().zip(natural(outputs)).map(wanted).collect();
    let attr = |base: &Option<Base>| base.map_or_else(|| Attr::unit(ctx), |base| Base::write(ctx, base));
    wanted.iter().any(Option::is_some).then(|| wanted.iter().map(attr).collect())
}

/// The base that an output gets without `dynamo.bases`.
#[derive(Clone, Copy)]
enum Natural {
    Is(Base),
    /// The output is an existing object, or not a tensor.
    Fixed,
}

fn natural(outputs: &[Output]) -> Vec<Natural> {
    let whole: HashMap<usize, usize> = outputs
        .iter()
        .enumerate()
        .filter_map(|(at, output)| if let Output::Result(result) = output { Some((*result, at)) } else { None })
        .collect();
    let mut hidden: HashMap<usize, usize> = HashMap::new();
    let one = |(at, output): (usize, &Output)| match output {
        Output::Result(_) => Natural::Is(Base::None),
        Output::ArgView(arg, _) => Natural::Is(Base::Arg(*arg)),
        Output::ResultView(result, _) => Natural::Is(match whole.get(result) {
            Some(&shown) => Base::Output(shown),
            None => Base::Hidden(*hidden.entry(*result).or_insert(at)),
        }),
        Output::Arg(_) | Output::Same(_) | Output::None | Output::Constant(_) => Natural::Fixed,
    };
    outputs.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dynamlir_dialect::Session;
    use dynamlir_shapes::Window;

    fn left(outputs: &[Output], recorded: &[Option<Base>]) -> Option<String> {
        let session = Session::new();
        let bases = to_be_made(session.ctx(), outputs, recorded)?;
        Some(bases.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    fn view() -> Window {
        Window { sizes: vec![2.into()], strides: vec![1.into()], offset: 0.into() }
    }

    #[test]
    fn what_is_made_anyway_is_not_said() {
        let outputs = [
            Output::ResultView(0, view()),
            Output::Result(0),
            Output::ArgView(1, view()),
            Output::ResultView(1, view()),
            Output::ResultView(1, view()),
        ];
        let recorded = [Base::Output(1), Base::None, Base::Arg(1), Base::Hidden(3), Base::Hidden(3)].map(Some);
        assert_eq!(left(&outputs, &recorded), None);
        assert_eq!(left(&outputs, &[None; 5]), None);
        let detached = [Some(Base::Output(1)), Some(Base::None), Some(Base::None), Some(Base::Hidden(3)), Some(Base::Hidden(4))];
        let expected = "unit unit #dynamo.base<none> unit #dynamo.base<hidden 4>";
        assert_eq!(left(&outputs, &detached).as_deref(), Some(expected));
    }

    #[test]
    fn another_ones_object_keeps_its_base() {
        let outputs = [Output::Arg(0), Output::Result(0), Output::Same(1), Output::None, Output::Constant(3)];
        assert_eq!(left(&outputs, &[Some(Base::None); 5]), None);
        assert_eq!(left(&outputs, &[Some(Base::Arg(1)), None, Some(Base::Arg(1)), None, None]), None);
    }
}
