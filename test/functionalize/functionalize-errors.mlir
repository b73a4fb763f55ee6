// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics --dynamo-functionalize

// Cases without a meaning on values, or not worth supporting. Callers of the pass treat these errors as: run it in eager.

func.func @expanded_write(%x: !dynamo.tensor<3xf32, [1]>) attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.expand.default"(%x) args [#dynamo.operand<0>, [2, 3], false] {aliases = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [1]>) -> !dynamo.tensor<2x3xf32, [0, 1]>
  // expected-error @+1 {{a tensor that shows an element twice is written}}
  %1 = dynamo.aten "aten.neg_.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<2x3xf32, [0, 1]>) -> !dynamo.tensor<2x3xf32, [0, 1]>
  return
}

// -----

func.func @no_variant(%x: !dynamo.tensor<3xf32, [1]>) attributes {dynamo.entry} {
  // expected-error @+1 {{no functional variant of aten.scramble.default}}
  dynamo.aten "aten.scramble.default"(%x) args [#dynamo.operand<0>] {mutates = array<i64: 0>} : (!dynamo.tensor<3xf32, [1]>) -> ()
  return
}

// -----

func.func @unclear_out(%x: !dynamo.tensor<3xf32, [1]>) attributes {dynamo.entry} {
  // expected-error @+1 {{cannot tell which arguments of aten.sin.out are outputs}}
  dynamo.aten "aten.sin.out"(%x) args [#dynamo.operand<0>, 1] {mutates = array<i64: 0>, functional = "aten.sin.default"}
    : (!dynamo.tensor<3xf32, [1]>) -> ()
  return
}

// -----

func.func @two_element_types(%x: !dynamo.tensor<3xf32, [1]>) attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.view.dtype"(%x) args [#dynamo.operand<0>, i32] {aliases = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [1]>) -> !dynamo.tensor<3xi32, [1]>
  // expected-error @+1 {{a storage that is written is shown in two element types}}
  %1 = dynamo.aten "aten.neg_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [1]>) -> !dynamo.tensor<3xf32, [1]>
  return
}

// -----

func.func @output_of_other_type(%x: !dynamo.tensor<3xf32, [1]>) -> !dynamo.tensor<3xi32, [1]> attributes {dynamo.entry} {
  // expected-error @+1 {{an output shows memory of another element type}}
  %0 = dynamo.aten "aten.view.dtype"(%x) args [#dynamo.operand<0>, i32] {aliases = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [1]>) -> !dynamo.tensor<3xi32, [1]>
  return %0 : !dynamo.tensor<3xi32, [1]>
}

// -----

func.func @folded_inputs(%x: !dynamo.tensor<3x3xf32, [1, 1]> {dynamo.storage = 0}, %y: !dynamo.tensor<3xf32, [1], 4> {dynamo.storage = 0})
    attributes {dynamo.entry} {
  // expected-error @+1 {{unsupported aliasing of inputs}}
  %0 = dynamo.aten "aten.neg_.default"(%y) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [1], 4>) -> !dynamo.tensor<3xf32, [1], 4>
  return
}

// -----

func.func @outside(%x: !dynamo.tensor<3xf32, [2]>) -> !dynamo.tensor<5xf32, [1]> attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.as_strided.default"(%x) args [#dynamo.operand<0>, [5], [1], 0] {aliases = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [2]>) -> !dynamo.tensor<5xf32, [1]>
  // expected-error @+1 {{as_strided shows memory that no tensor of the graph shows}}
  %1 = dynamo.aten "aten.sin.default"(%0) args [#dynamo.operand<0>] : (!dynamo.tensor<5xf32, [1]>) -> !dynamo.tensor<5xf32, [1]>
  return %1 : !dynamo.tensor<5xf32, [1]>
}

// -----

func.func private @decomposition(%x: !dynamo.tensor<3xf32, [1]>) -> !dynamo.tensor<3xf32, [1]> {
  // expected-error @+1 {{a decomposition writes to its argument}}
  %0 = dynamo.aten "aten.neg_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [1]>) -> !dynamo.tensor<3xf32, [1]>
  return %0 : !dynamo.tensor<3xf32, [1]>
}

// -----

func.func @dynamic(%x: !dynamo.tensor<?xf32, [1]>) attributes {dynamo.entry} {
  // expected-error @-1 {{expected a !dynamo.tensor that says its sizes and strides}}
  return
}

// -----

func.func @other_op(%x: !dynamo.tensor<3xf32, [1]>) attributes {dynamo.entry} {
  // expected-error @+1 {{expected only dynamo.aten here, got arith.constant}}
  %0 = arith.constant 1 : i64
  return
}

// -----

func.func @view_of_another(%x: !dynamo.tensor<3xf32, [1]>, %y: !dynamo.tensor<3xf32, [1]>) attributes {dynamo.entry} {
  // expected-error @+1 {{an op writes to one operand and returns a view of another}}
  %0 = dynamo.aten "aten.odd_.default"(%x, %y) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: 1>, mutates = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [1]>, !dynamo.tensor<3xf32, [1]>) -> !dynamo.tensor<3xf32, [1]>
  return
}

// -----

// The symbol decides if the view stays within the argument.

func.func @beyond(%x: !dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> !dynamo.tensor<4xf32, [1], 32> attributes {
    dynamo.entry, dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %row = dynamo.aten "aten.select.int"(%x) args [#dynamo.operand<0>, 0, 8] {aliases = array<i64: 0>}
    : (!dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> !dynamo.tensor<4xf32, [1], 32>
  // expected-error @+1 {{unsupported aliasing of inputs}}
  %new = dynamo.aten "aten.relu_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> !dynamo.tensor<[s0, 4]xf32, [4, 1]>
  return %row : !dynamo.tensor<4xf32, [1], 32>
}

// -----

// Rows of s1 elements at a distance of s0: they may overlap.

func.func @may_repeat(%x: !dynamo.tensor<[4, s1]xf32, [s0, 1]>, %y: !dynamo.tensor<[s0]xf32, [1]>) attributes {
    dynamo.entry, dynamo.symbols = [#dynamo.symbol<s0, argument = 1, dim = 0>, #dynamo.symbol<s1, argument = 0, dim = 1>]} {
  // expected-error @+1 {{a tensor that shows an element twice is written}}
  %new = dynamo.aten "aten.relu_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<[4, s1]xf32, [s0, 1]>) -> !dynamo.tensor<[4, s1]xf32, [s0, 1]>
  return
}
