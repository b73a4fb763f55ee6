// RUN: dynamlir-opt %s --split-input-file --dynamo-autodiff --dynamo-verify-functional | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-autodiff=one-node=true | FileCheck %s --check-prefix=ONE

// The split of a function into nodes of autograd's graph (dynamo.node), and the values that they take from one another. A function with one
// visible result has one node, and no attributes for nodes: see autodiff.mlir.

// A chain. y is computed from h: the gradient of y with respect to h is a result, and the gradient of x comes from node 0 alone.

// CHECK-LABEL: func.func @chain
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32> {{[{][^}]*[}]}}, %[[TH:[^:]*]]: tensor<4xf32> {dynamo.node = 0 : i64, {{[^}]*}}dynamo.tangent = 0 : i64},
// CHECK-SAME: %[[TY:[^:]*]]: tensor<4xf32> {dynamo.node = 1 : i64, {{[^}]*}}dynamo.tangent = 1 : i64}
// CHECK-SAME: tensor<4xf32> {dynamo.gradient = 0 : i64, dynamo.node = 0 : i64, {{[^}]*}}}, tensor<4xf32> {dynamo.gradient_of = 0 : i64, dynamo.node = 1 : i64,
// CHECK: %[[H:.*]] = dynamo.mul %[[X]], %[[X]]
// CHECK: %[[COS:.*]] = dynamo.cos %[[H]]
// CHECK: %[[GH:.*]] = dynamo.mul %[[TY]], %[[COS]]
// CHECK: %[[A:.*]] = dynamo.mul %[[TH]], %[[X]]
// CHECK: %[[B:.*]] = dynamo.mul %[[TH]], %[[X]]
// CHECK: %[[GX:.*]] = dynamo.aten "aten.add.Tensor"(%[[A]], %[[B]])
// CHECK: return %[[H]], %{{.*}}, %[[GX]], %[[GH]]

// As one node, the gradient of x is the sum over both paths.
// ONE-LABEL: func.func @chain
// ONE-NOT: dynamo.node
// ONE: return %{{.*}}, %{{.*}}, %{{[^,]*}} :
func.func @chain(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0, 1>} {
  %h = dynamo.mul %x, %x : tensor<4xf32>
  %y = dynamo.sin %h : tensor<4xf32>
  return %h, %y : tensor<4xf32>, tensor<4xf32>
}

// -----

// A trunk with two heads: three nodes. The trunk passes on a result that only nodes see (dynamo.hidden), which has a tangent.

// CHECK-LABEL: func.func @heads
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32> {{[{][^}]*[}]}}, %[[TY:[^:]*]]: tensor<4xf32> {dynamo.node = 1 : i64, {{[^}]*}}dynamo.tangent = 0 : i64},
// CHECK-SAME: %[[TZ:[^:]*]]: tensor<4xf32> {dynamo.node = 2 : i64, {{[^}]*}}dynamo.tangent = 1 : i64},
// CHECK-SAME: %[[TT:[^:]*]]: tensor<4xf32> {dynamo.node = 0 : i64, {{[^}]*}}dynamo.tangent = 2 : i64}
// CHECK-SAME: tensor<4xf32> {dynamo.hidden, {{[^}]*}}}, tensor<4xf32> {dynamo.gradient = 0 : i64, dynamo.node = 0 : i64, {{[^}]*}}},
// CHECK-SAME: tensor<4xf32> {dynamo.gradient_of = 2 : i64, dynamo.node = 1 : i64, {{[^}]*}}}, tensor<4xf32> {dynamo.gradient_of = 2 : i64, dynamo.node = 2 : i64,
// CHECK: %[[T:.*]] = dynamo.exp %[[X]]
// CHECK: %[[GX:.*]] = dynamo.mul %[[TT]], %[[T]]
// CHECK: return %{{.*}}, %{{.*}}, %[[T]], %[[GX]], %{{.*}}, %{{.*}}
func.func @heads(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0, 1>} {
  %t = dynamo.exp %x : tensor<4xf32>
  %y = dynamo.sin %t : tensor<4xf32>
  %z = dynamo.cos %t : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// Two results that share nothing: two nodes, neither of which takes anything from the other.

// CHECK-LABEL: func.func @apart
// CHECK-SAME: {dynamo.kept_by_eager, dynamo.node = 1 : i64, {{[^}]*}}dynamo.tangent = 1 : i64}
// CHECK-NOT: dynamo.hidden
// CHECK-SAME: tensor<4xf32> {dynamo.gradient = 0 : i64, dynamo.node = 0 : i64, {{[^}]*}}}, tensor<4xf32> {dynamo.gradient = 1 : i64, dynamo.node = 1 : i64,
func.func @apart(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                 %w: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0, 1>} {
  %y = dynamo.sin %x : tensor<4xf32>
  %z = dynamo.exp %w : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// A value used by both its own node and a later one: the later node's gradient arrives as a tangent, and is added.

// CHECK-LABEL: func.func @diamond
// CHECK-SAME: %[[TT:[^:]*]]: tensor<4xf32> {dynamo.node = 0 : i64, {{[^}]*}}dynamo.tangent = 3 : i64}
// CHECK: %[[SUM:.*]] = dynamo.aten "aten.add.Tensor"(%{{.*}}, %[[TT]])
// CHECK: dynamo.mul %[[SUM]],
func.func @diamond(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0, 1>} {
  %t = dynamo.exp %x : tensor<4xf32>
  %u = dynamo.tanh %t : tensor<4xf32>
  %y = dynamo.mul %u, %t : tensor<4xf32>
  %z = dynamo.cos %u : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// A view that is an output is a cut as well: values computed from it depend on the output. It has no tangent, since torch's own view
// operator propagates the gradient.

// CHECK-LABEL: func.func @view
// CHECK-SAME: %[[T:[^:]*]]: tensor<2xf32> {{{[^}]*}}dynamo.tangent = 0 : i64}
// CHECK-SAME: tensor<2xf32> {dynamo.gradient_of_output = 0 : i64, {{[^}]*}}}
func.func @view(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<2xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<arg_view 0, [2], [1], 0>, #dynamo.output<result 0>], dynamo.differentiable = array<i64: 0, 1>} {
  %v = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 0, 2, 1]
    {dynamo.shown = array<i64: 0>, grad_enabled, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<2xf32>
  %y = dynamo.sin %v : tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// An operator of several results belongs to one node, regardless of which results are used: a gradient that only some tangents reach lists
// these (dynamo.reached).

// CHECK-LABEL: func.func @several
// CHECK-SAME: dynamo.tangent = 0 : i64}
// CHECK-SAME: dynamo.tangent = 1 : i64}
// CHECK-SAME: -> (tensor<2xf32> {{[{][^}]*[}]}}, tensor<2xf32> {{[{][^}]*[}]}}, tensor<4xf32> {dynamo.gradient = 0 : i64, dynamo.strides = array<i64: 1>})
func.func @several(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<2xf32> {dynamo.strides = array<i64: 1>}, tensor<2xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0, 1>} {
  %0:2 = dynamo.aten "aten.split.Tensor"(%x) args [#dynamo.operand<0>, 2, 0]
    {grad_enabled, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>, array<i64: 1>]} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xf32>
}

// -----

// A gradient of a single node that only one tangent reaches.

// ONE-LABEL: func.func @reached
// ONE-SAME: tensor<4xf32> {dynamo.gradient = 0 : i64, dynamo.reached = array<i64: 0>,
// ONE-SAME: tensor<4xf32> {dynamo.gradient = 1 : i64, dynamo.strides
func.func @reached(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                   %w: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0, 1>} {
  %y = dynamo.mul %x, %w : tensor<4xf32>
  %z = dynamo.exp %w : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// A user's function that returns no gradient: its node still leads to its operand (dynamo.leads_to), since autograd visits the operand's
// producer.

// CHECK-LABEL: func.func @nothing
// CHECK-SAME: {dynamo.leads_to = [#dynamo.output<arg 0>], dynamo.node = 0 : i64{{.*}}dynamo.tangent = 0 : i64}
// CHECK-SAME: dynamo.gradient = 1 : i64
func.func @nothing(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                   %w: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0, 1>} {
  %y = dynamo.aten "user.nothing.default"(%x) args [#dynamo.operand<0>]
    {grad_enabled, vjp = @nothing_vjp, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  %z = dynamo.exp %w : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

func.func private @nothing_vjp(%x: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0 : i64}) {
  return
}

// -----

// A user's function that returns a gradient for its first operand only. The second is computed by exp, whose gradient comes from %z. exp is
// a node of its own, to which the node of %y leads as well, so that its saved tensors are freed regardless of which of the two runs
// backward first.

// CHECK-LABEL: func.func @one_of_two
// CHECK-SAME: {dynamo.leads_to = [#dynamo.output<result 2>], dynamo.node = [[Y:[0-9]]] : i64{{[^}]*}}dynamo.tangent = 0 : i64}
// CHECK-SAME: {dynamo.node = [[Z:[0-9]]] : i64{{[^}]*}}dynamo.tangent = 1 : i64}
// CHECK-SAME: {dynamo.node = 0 : i64{{[^}]*}}dynamo.tangent = 2 : i64}
// CHECK-SAME: {dynamo.hidden{{[^}]*}}}, {{.*}} {dynamo.gradient = 1 : i64, dynamo.node = 0 : i64{{[^}]*}}},
// CHECK-SAME: {dynamo.gradient = 0 : i64, dynamo.node = [[Y]] : i64{{[^}]*}}}, {{.*}} {dynamo.gradient_of = 2 : i64, dynamo.node = [[Z]] : i64{{[^}]*}}})
func.func @one_of_two(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                      %w: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0, 1>} {
  %e = dynamo.exp %w : tensor<4xf32>
  %y = dynamo.aten "user.one_of_two.default"(%x, %e) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {grad_enabled, vjp = @one_of_two_vjp, operand_strides = [array<i64: 1>, array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = dynamo.sin %e : tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

func.func private @one_of_two_vjp(%x: tensor<4xf32>, %e: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf32> {dynamo.gradient = 0 : i64}) {
  return %t : tensor<4xf32>
}
