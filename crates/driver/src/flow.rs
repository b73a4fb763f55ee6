//! Which arguments each gradient depends on, read from the values before kernels put them together.
//!
//! A gradient that depends on no tangent that is there is no gradient, and eager leaves it out. From a plan the runtime can only
//! tell that all results of a kernel depend on all that it reads.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dynamlir_dialect::{
    ir::{Block, Op, Value},
    ops,
    program::entries,
};

/// By entry, for each of its results, the arguments that it depends on. Entries without tangents are left out.
pub fn of_derivatives(module: Op) -> BTreeMap<String, Vec<Vec<usize>>> {
    let takes_tangents = |entry: &Op| {
        let arguments = entry.body().map_or(0, |body| body.args().len());
        (0..arguments).any(|argument| ops::TANGENT.of_arg(*entry, argument).is_some())
    };
    let named = |entry: Op| Some((entry.symbol()?, of_entry(entry)?));
    entries(module).into_iter().filter(takes_tangents).filter_map(named).collect()
}

fn of_entry(entry: Op) -> Option<Vec<Vec<usize>>> {
    let body = entry.body()?;
    let mut known: HashMap<Value, BTreeSet<usize>> = HashMap::new();
    for (argument, value) in body.args().into_iter().enumerate() {
        known.insert(value, BTreeSet::from([argument]));
    }
    for op in body.ops() {
        let mut all = BTreeSet::new();
        read(op, &known, &mut all);
        for result in op.results() {
            known.insert(result, all.clone());
        }
    }
    let returned = body.terminator()?.operands();
    Some(returned.iter().map(|value| known.get(value).into_iter().flatten().copied().collect()).collect())
}

/// What an operation and those within it depend on.
fn read(op: Op, known: &HashMap<Value, BTreeSet<usize>>, all: &mut BTreeSet<usize>) {
    all.extend(op.operands().iter().filter_map(|operand| known.get(operand)).flatten());
    let blocks = (0..op.num_regions()).flat_map(|region| op.region(region).blocks());
    blocks.flat_map(Block::ops).for_each(|inner| read(inner, known, all));
}

#[cfg(test)]
mod tests {
    use super::*;
    use dynamlir_dialect::{Session, context::module_op};

    #[test]
    fn gradients_depend_on_what_they_are_made_of() {
        let text = r"module {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry} { return %x : tensor<4xf32> }
  func.func @vjp(%x: tensor<4xf32>, %s: tensor<4xf32> {dynamo.tangent = 0 : i64}, %t: tensor<4xf32> {dynamo.tangent = 1 : i64})
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {dynamo.entry} {
    %0 = dynamo.mul %s, %x : tensor<4xf32>
    %1 = dynamo.neg %t : tensor<4xf32>
    %2 = dynamo.add %0, %1 : tensor<4xf32>
    return %0, %1, %2, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}";
        let session = Session::new();
        let module = session.parse(text).expect("parses");
        let flows = of_derivatives(module_op(&module));
        assert_eq!(flows, BTreeMap::from([("vjp".to_owned(), vec![vec![0, 1], vec![2], vec![0, 1, 2], vec![0]])]));
    }
}
