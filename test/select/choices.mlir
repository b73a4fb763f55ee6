// RUN: dynamlir-opt %s --split-input-file --dynamo-attach-target=vector-bits=512 --dynamo-decompose --dynamo-select | FileCheck %s --implicit-check-not=dynamo.choices
// RUN: dynamlir-opt %s --split-input-file --dynamo-attach-target=vector-bits=512 --dynamo-decompose --dynamo-select=list-problems=true | FileCheck %s --check-prefix=LIST

// Choices that come with the module override the cost model. A problem is identified by its text: operator, sizes, distances
// in memory, and whether operations follow that code could fuse. Of three products that differ in one of these, each has a
// choice of its own. Without choices, the first, with few rows, would be generated, and the second left to the library.

// LIST: module attributes {dynamo.problems = [
// LIST-SAME: {followed = false, numbers = [], problem = "aten.mm.default 4x768[768,1] 768x64[1,768]", schema = "aten.mm.default",
// LIST-SAME:  sizes = [array<i64: 4, 768>, array<i64: 768, 64>], strategies = ["dots-rhs-4", {{[^]]*}}"library"],
// LIST-SAME:  strides = [array<i64: 768, 1>, array<i64: 1, 768>], work = 196608 : i64}
// LIST-SAME: problem = "aten.mm.default 512x768[768,1] 768x512[512,1]"
// LIST-SAME: strategies = ["library", "panels-{{[lr]}}hs-{{[123]}}"
// LIST-SAME: problem = "aten.mm.default 4x768[768,1] 768x64[1,768] followed"
module attributes {dynamo.choices = {
  "aten.mm.default 4x768[768,1] 768x64[1,768]" = "library",
  "aten.mm.default 4x768[768,1] 768x64[1,768] followed" = "panels-rhs-2",
  "aten.mm.default 512x768[768,1] 768x512[512,1]" = "panels-rhs-3",
  "aten.mm.default 1x1[1,1] 1x1[1,1]" = "library"}} {

// CHECK-LABEL: func.func @few
// CHECK: dynamo.aten "aten.mm.default"
func.func @few(%a: tensor<4x768xf32>, %b: tensor<768x64xf32>) -> tensor<4x64xf32> {
  %r = dynamo.aten "aten.mm.default"(%a, %b) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {operand_strides = [array<i64: 768, 1>, array<i64: 1, 768>]} : (tensor<4x768xf32>, tensor<768x64xf32>) -> tensor<4x64xf32>
  return %r : tensor<4x64xf32>
}

// The chosen strategy is recorded on the primitive, for dynamo-plan.
// CHECK-LABEL: func.func @square
// CHECK: dynamo.matmul %arg0, %arg1 batch 0 {dynamo.choice = "panels-rhs-3"}
func.func @square(%a: tensor<512x768xf32>, %b: tensor<768x512xf32>) -> tensor<512x512xf32> {
  %r = dynamo.aten "aten.mm.default"(%a, %b) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<512x768xf32>, tensor<768x512xf32>) -> tensor<512x512xf32>
  return %r : tensor<512x512xf32>
}

// CHECK-LABEL: func.func @followed
// CHECK: dynamo.matmul %arg0, %arg1 batch 0 {dynamo.choice = "panels-rhs-2"}
func.func @followed(%a: tensor<4x768xf32>, %b: tensor<768x64xf32>) -> tensor<4x64xf32> {
  %r = dynamo.aten "aten.mm.default"(%a, %b) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {operand_strides = [array<i64: 768, 1>, array<i64: 1, 768>]} : (tensor<4x768xf32>, tensor<768x64xf32>) -> tensor<4x64xf32>
  %s = dynamo.aten "aten.relu.default"(%r) args [#dynamo.operand<0>] : (tensor<4x64xf32>) -> tensor<4x64xf32>
  return %s : tensor<4x64xf32>
}

// Another layout is another problem, which does not have a choice.
// CHECK-LABEL: func.func @otherwise
// CHECK: dynamo.matmul %arg0, %arg1 batch 0 : tensor<4x768xf32>
func.func @otherwise(%a: tensor<4x768xf32>, %b: tensor<768x64xf32>) -> tensor<4x64xf32> {
  %r = dynamo.aten "aten.mm.default"(%a, %b) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4x768xf32>, tensor<768x64xf32>) -> tensor<4x64xf32>
  return %r : tensor<4x64xf32>
}
}

// -----

// A convolution. A product whose sums are too long to be as exact in code and one of doubles are not problems: there is
// only one way, regardless of the choices.

// LIST: dynamo.problems = [
// LIST-SAME: numbers = [array<i64: 2, 2>, array<i64: 1, 1>, array<i64: 1, 1>, array<i64: 1>]
// LIST-SAME: problem = "aten.convolution.default 1x16x56x56[50176,3136,56,1] 32x16x3x3[144,9,3,1] 32[1] strides 2,2 padding 1,1 dilation 1,1 groups 1"
// LIST-SAME: strategies = ["windows-{{[123]}}-1"{{[^]]*}}], strides = {{.*}}, work = 3612672 : i64}]{{.*}} {
module attributes {dynamo.choices = {
  "aten.convolution.default 1x16x56x56[50176,3136,56,1] 32x16x3x3[144,9,3,1] 32[1] strides 2,2 padding 1,1 dilation 1,1 groups 1" = "windows-1-1",
  "aten.mm.default 4x20000[20000,1] 20000x8[8,1]" = "stream-rhs-1"}} {

// CHECK-LABEL: func.func @convolution
// CHECK: dynamo.convolution %arg0, %arg1 {{.*}} {dynamo.choice = "windows-1-1"}
func.func @convolution(%x: tensor<1x16x56x56xf32>, %w: tensor<32x16x3x3xf32>, %b: tensor<32xf32>) -> tensor<1x32x28x28xf32> {
  %r = dynamo.aten "aten.convolution.default"(%x, %w, %b)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, [2, 2], [1, 1], [1, 1], false, [0, 0], 1 : i64]
    : (tensor<1x16x56x56xf32>, tensor<32x16x3x3xf32>, tensor<32xf32>) -> tensor<1x32x28x28xf32>
  return %r : tensor<1x32x28x28xf32>
}

// CHECK-LABEL: func.func @no_choice
// CHECK-COUNT-2: dynamo.aten "aten.mm.default"
func.func @no_choice(%l: tensor<4x20000xf32>, %m: tensor<20000x8xf32>, %d: tensor<4x16xf64>, %e: tensor<16x8xf64>)
    -> (tensor<4x8xf32>, tensor<4x8xf64>) {
  %r = dynamo.aten "aten.mm.default"(%l, %m) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4x20000xf32>, tensor<20000x8xf32>) -> tensor<4x8xf32>
  %s = dynamo.aten "aten.mm.default"(%d, %e) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4x16xf64>, tensor<16x8xf64>) -> tensor<4x8xf64>
  return %r, %s : tensor<4x8xf32>, tensor<4x8xf64>
}
}
