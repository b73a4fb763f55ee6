// RUN: dynamlir-opt %s --dynamo-decompose | FileCheck %s --check-prefix=BOTH
// RUN: dynamlir-opt %s --dynamo-decompose --dynamo-attach-target=cpu=x86-64-v4 --dynamo-decompose | FileCheck %s --check-prefix=BOTH
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64-v4 --dynamo-decompose --dynamo-select=print-selection=true | FileCheck %s --check-prefixes=CODE
// RUN: dynamlir-opt %s --dynamo-decompose --dynamo-select=print-selection=true | FileCheck %s --check-prefixes=LIBRARY
// RUN: dynamlir-opt %s --dynamo-attach-target=chip=sm_90 --dynamo-decompose --dynamo-select=print-selection=true | FileCheck %s --check-prefixes=GPU
// RUN: not dynamlir-opt %s --dynamo-decompose --dynamo-fuse 2>&1 | FileCheck %s --check-prefix=EARLY

// dynamo-decompose does not depend on the machine: if the library may be faster, the call is kept together with its code.
// dynamo-select chooses one of the two, and prints the reason.

// BOTH-LABEL: func.func @layer
// BOTH: %[[R:.*]] = dynamo.aten "aten.addmm.default"(%arg0, %arg1, %arg2) args [{{.*}}] code {
// BOTH-NEXT: %[[P:.*]] = dynamo.matmul %arg1, %arg2 batch 0
// BOTH-NEXT: %[[B:.*]] = dynamo.broadcast %arg0 dims [1]
// BOTH-NEXT: %[[S:.*]] = dynamo.add %[[P]], %[[B]]
// BOTH-NEXT: dynamo.yield %[[S]] : tensor<8x64xf32>
// BOTH-NEXT: } {dynamo.followed} : (tensor<64xf32>, tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
// BOTH: dynamo.select

// CODE: select: aten.addmm.default by code: it is expected to be as fast as the library, or to take in what follows
// CODE: select: aten.cumsum.default by code: there is nothing that the library does better
// CODE-LABEL: func.func @layer
// CODE-NOT: dynamo.aten
// CODE: dynamo.matmul %arg1, %arg2 batch 0
// CODE-NOT: dynamo.aten

// For a machine without vectors, products are left to the library.
// LIBRARY: select: aten.addmm.default by library: no code would be as fast and as exact
// LIBRARY-LABEL: func.func @layer
// LIBRARY: dynamo.aten "aten.addmm.default"(%arg0, %arg1, %arg2) args
// LIBRARY-NOT: code
// LIBRARY: dynamo.scan

// GPU: select: aten.addmm.default by library: the cost model knows the CPU's products only
// GPU: select: aten.cumsum.default by library: a scan has no form for threads
// GPU: dynamo.aten "aten.addmm.default"
// GPU: dynamo.aten "aten.cumsum.default"
// GPU-NOT: dynamo.scan

// EARLY: error: the call has code beside it: dynamo-select takes one of the two first

func.func @layer(%b: tensor<64xf32>, %x: tensor<8x32xf32>, %w: tensor<32x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %0 = dynamo.aten "aten.addmm.default"(%b, %x, %w) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 1 : i64, 1 : i64]
    : (tensor<64xf32>, tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
  %1 = dynamo.aten "aten.relu.default"(%0) args [#dynamo.operand<0>] : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = dynamo.aten "aten.cumsum.default"(%1) args [#dynamo.operand<0>, 0 : i64, unit] : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %1, %2 : tensor<8x64xf32>, tensor<8x64xf32>
}
