// RUN: dynamlir-opt %s --split-input-file --dynamo-fuse --dynamo-verify-kernels | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-fuse=print-fusion=true -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHY
// RUN: dynamlir-opt %s --split-input-file --dynamo-fuse --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LINES

// A chain of pointwise operations is one kernel, which contains its constants.

// CHECK-LABEL: func.func @chain
// CHECK-SAME: (%[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<4x8xf32>)
// CHECK: %[[R:.*]] = dynamo.launch @kernels::@pointwise_add_mul_0(%[[A]], %[[B]]) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: return %[[R]]
// CHECK: module @kernels
// CHECK-NEXT: func.func @pointwise_add_mul_0(%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-SAME: attributes {dynamo.domain = array<i64: 4, 8>, dynamo.kernel, dynamo.reduced_dims = array<i64>}
// CHECK-NEXT: %[[S:.*]] = dynamo.add %[[X]], %[[Y]]
// CHECK-NEXT: %[[TWO:.*]] = dynamo.full 2.0
// CHECK-NEXT: %[[P:.*]] = dynamo.mul %[[S]], %[[TWO]]
// CHECK-NEXT: return %[[P]]
// WHY: fuse: %{{.*}} add + %{{.*}} mul saves 256 bytes
func.func @chain(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %sum = dynamo.add %a, %b : tensor<4x8xf32>
  %c = dynamo.full 2.0 : f32 -> tensor<f32>
  %two = dynamo.broadcast %c dims [] : tensor<f32> -> tensor<4x8xf32>
  %product = dynamo.mul %sum, %two : tensor<4x8xf32>
  return %product : tensor<4x8xf32>
}

// -----

// Softmax is one kernel: rows are broadcast over the domain inside it, and the unit dims of keepdim reductions are removed.

// CHECK-LABEL: func.func @softmax
// CHECK-NEXT: %[[R:.*]] = dynamo.launch @kernels::@reduce_max_sub_exp_sum_div_0(%{{.*}}) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// CHECK-NEXT: return %[[R]]
// CHECK: dynamo.domain = array<i64: 2, 4, 8>, dynamo.kernel, dynamo.reduced_dims = array<i64: 2>
// CHECK-NEXT: %[[MAX:.*]] = dynamo.reduce max %[[X:.*]] dims [2] : tensor<2x4x8xf32> -> tensor<2x4xf32>
// CHECK-NEXT: %[[WIDE:.*]] = dynamo.broadcast %[[MAX]] dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x8xf32>
// CHECK-NEXT: dynamo.sub %[[X]], %[[WIDE]]
// CHECK-NOT: reshape
// CHECK: return
func.func @softmax(%x: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %max = dynamo.reduce max %x dims [2] : tensor<2x4x8xf32> -> tensor<2x4xf32>
  %keep = dynamo.reshape %max : tensor<2x4xf32> -> tensor<2x4x1xf32>
  %wide = dynamo.broadcast %keep dims [0, 1, 2] : tensor<2x4x1xf32> -> tensor<2x4x8xf32>
  %sub = dynamo.sub %x, %wide : tensor<2x4x8xf32>
  %exp = dynamo.exp %sub : tensor<2x4x8xf32>
  %sum = dynamo.reduce sum %exp dims [2] : tensor<2x4x8xf32> -> tensor<2x4xf32>
  %keep2 = dynamo.reshape %sum : tensor<2x4xf32> -> tensor<2x4x1xf32>
  %wide2 = dynamo.broadcast %keep2 dims [0, 1, 2] : tensor<2x4x1xf32> -> tensor<2x4x8xf32>
  %div = dynamo.div %exp, %wide2 : tensor<2x4x8xf32>
  return %div : tensor<2x4x8xf32>
}

// -----

// Layer norm is one kernel. Weight and bias are passed as views with stride 0; mean and rstd are returned as rows and get
// their unit dim back outside.

// CHECK-LABEL: func.func @layer_norm
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK-DAG: %[[WIDE:.*]] = dynamo.broadcast %[[W]] dims [1]
// CHECK-DAG: %[[BIAS:.*]] = dynamo.broadcast %[[B]] dims [1]
// CHECK: %[[R:.*]]:3 = dynamo.launch @kernels::@reduce_{{.*}}(%[[X]], %[[WIDE]], %[[BIAS]]) : ({{.*}}) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>)
// CHECK-NOT: launch
// CHECK-DAG: dynamo.reshape %[[R]]#0 : tensor<4xf32> -> tensor<4x1xf32>
// CHECK-DAG: dynamo.reshape %[[R]]#1 : tensor<4xf32> -> tensor<4x1xf32>
// CHECK: module @kernels
// CHECK-COUNT-1: func.func
// CHECK: dynamo.reduced_dims = array<i64: 1>
// CHECK: dynamo.rsqrt {{.*}} : tensor<4xf32>
// CHECK-NOT: func.func
func.func @layer_norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>) {
  %n = dynamo.full 8.0 : f32 -> tensor<4x1xf32>
  %eps = dynamo.full 1.0e-5 : f32 -> tensor<4x1xf32>
  %sum = dynamo.reduce sum %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %sum1 = dynamo.reshape %sum : tensor<4xf32> -> tensor<4x1xf32>
  %mean = dynamo.div %sum1, %n : tensor<4x1xf32>
  %mean2 = dynamo.broadcast %mean dims [0, 1] : tensor<4x1xf32> -> tensor<4x8xf32>
  %d = dynamo.sub %x, %mean2 : tensor<4x8xf32>
  %sq = dynamo.mul %d, %d : tensor<4x8xf32>
  %ssq = dynamo.reduce sum %sq dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %ssq1 = dynamo.reshape %ssq : tensor<4xf32> -> tensor<4x1xf32>
  %var = dynamo.div %ssq1, %n : tensor<4x1xf32>
  %vare = dynamo.add %var, %eps : tensor<4x1xf32>
  %rstd = dynamo.rsqrt %vare : tensor<4x1xf32>
  %rstd2 = dynamo.broadcast %rstd dims [0, 1] : tensor<4x1xf32> -> tensor<4x8xf32>
  %norm = dynamo.mul %d, %rstd2 : tensor<4x8xf32>
  %w2 = dynamo.broadcast %w dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %b2 = dynamo.broadcast %b dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %scaled = dynamo.mul %norm, %w2 : tensor<4x8xf32>
  %y = dynamo.add %scaled, %b2 : tensor<4x8xf32>
  return %y, %mean, %rstd : tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>
}

// -----

// A row sum and a column sum traverse their operand in different orders: two kernels, and the refusal gives the reason. The
// cheap operation before them is computed in both rather than stored.

// CHECK-LABEL: func.func @row_and_column_sum
// CHECK-DAG: dynamo.launch @kernels::@reduce_neg_sum_0(%[[X:.*]]) : (tensor<4x8xf32>) -> tensor<4xf32>
// CHECK-DAG: dynamo.launch @kernels::@reduce_neg_sum_1(%[[X]]) : (tensor<4x8xf32>) -> tensor<8xf32>
// WHY: fuse: rejected %{{.*}} sum + %{{.*}} sum: different reduced dims [1] and [0] of [4, 8]
func.func @row_and_column_sum(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %y = dynamo.neg %x : tensor<4x8xf32>
  %rows = dynamo.reduce sum %y dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %columns = dynamo.reduce sum %y dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %rows, %columns : tensor<4xf32>, tensor<8xf32>
}

// -----

// Equal layers launch the same kernel, although their source lines differ: a launch has the locations of all operations that it
// runs. Extern calls keep their order.

// CHECK-LABEL: func.func @layers
// CHECK: %[[H1:.*]] = dynamo.aten
// CHECK: %[[R1:.*]] = dynamo.launch @kernels::@[[K:.*]](%[[H1]]
// CHECK: %[[H2:.*]] = dynamo.aten "aten.mm.default"(%[[R1]]
// CHECK: dynamo.launch @kernels::@[[K]](%[[H2]]
// CHECK: module @kernels
// CHECK-COUNT-1: func.func
// CHECK-NOT: func.func
// LINES: dynamo.launch @kernels::@pointwise_add_tanh_0{{.*}} loc(fused["model.py":3:0, "model.py":4:0])
// LINES: dynamo.launch @kernels::@pointwise_add_tanh_0{{.*}} loc(fused["model.py":13:0, "model.py":14:0])
// LINES: func.func @pointwise_add_tanh_0
// LINES-NOT: func.func @pointwise_add_tanh
func.func @layers(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
  %h1 = dynamo.aten "aten.mm.default"(%x, %w) args [#dynamo.operand<0>, #dynamo.operand<1>] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b1 = dynamo.broadcast %b dims [1] : tensor<4xf32> -> tensor<4x4xf32>
  %s1 = dynamo.add %h1, %b1 : tensor<4x4xf32> loc("model.py":3:0)
  %r1 = dynamo.tanh %s1 : tensor<4x4xf32> loc("model.py":4:0)
  %h2 = dynamo.aten "aten.mm.default"(%r1, %w) args [#dynamo.operand<0>, #dynamo.operand<1>] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b2 = dynamo.broadcast %b dims [1] : tensor<4xf32> -> tensor<4x4xf32>
  %s2 = dynamo.add %h2, %b2 : tensor<4x4xf32> loc("model.py":13:0)
  %r2 = dynamo.tanh %s2 : tensor<4x4xf32> loc("model.py":14:0)
  return %r2 : tensor<4x4xf32>
}

// -----

// Unit dims disappear inside; a reduction over one is a reshape.

// CHECK-LABEL: func.func @unit_dims
// CHECK: %[[IN:.*]] = dynamo.reshape %{{.*}} : tensor<1x4x1x8xf32> -> tensor<4x8xf32>
// CHECK: %[[R:.*]] = dynamo.launch @kernels::@pointwise_exp_neg_0(%[[IN]]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: dynamo.reshape %[[R]] : tensor<4x8xf32> -> tensor<4x1x8xf32>
func.func @unit_dims(%x: tensor<1x4x1x8xf32>) -> tensor<4x1x8xf32> {
  %exp = dynamo.exp %x : tensor<1x4x1x8xf32>
  %sum = dynamo.reduce sum %exp dims [0] : tensor<1x4x1x8xf32> -> tensor<4x1x8xf32>
  %neg = dynamo.neg %sum : tensor<4x1x8xf32>
  return %neg : tensor<4x1x8xf32>
}

// -----

// A broadcast of a cheap value moves to the inputs. So does one that the innermost dimension does not depend on.

// CHECK-LABEL: func.func @broadcast_push
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[M:.*]]: tensor<8xi1>, %[[V:.*]]: tensor<4xf32>)
// CHECK-DAG: %[[MASK:.*]] = dynamo.broadcast %[[M]] dims [1] : tensor<8xi1> -> tensor<4x8xi1>
// CHECK-DAG: %[[VAR:.*]] = dynamo.broadcast %[[V]] dims [0] : tensor<4xf32> -> tensor<4x8xf32>
// CHECK: %[[R:.*]] = dynamo.launch @kernels::@pointwise_{{.*}}(%[[MASK]], %[[VAR]], %[[X]])
// CHECK-NEXT: return %[[R]]
func.func @broadcast_push(%x: tensor<4x8xf32>, %m: tensor<8xi1>, %v: tensor<4xf32>) -> tensor<4x8xf32> {
  %mf = dynamo.convert %m : tensor<8xi1> -> tensor<8xf32>
  %mask = dynamo.broadcast %mf dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %log = dynamo.log %v : tensor<4xf32>
  %wide = dynamo.broadcast %log dims [0] : tensor<4xf32> -> tensor<4x8xf32>
  %a = dynamo.add %x, %mask : tensor<4x8xf32>
  %r = dynamo.mul %a, %wide : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

// Computing exp once per column is cheaper than once per element: it is stored, and the broadcast is a view.

// CHECK-LABEL: func.func @broadcast_of_dear_value
// CHECK: %[[E:.*]] = dynamo.launch @kernels::@pointwise_exp_0
// CHECK: %[[WIDE:.*]] = dynamo.broadcast %[[E]] dims [1]
// CHECK: dynamo.launch @kernels::@pointwise_add_0(%{{.*}}, %[[WIDE]])
func.func @broadcast_of_dear_value(%x: tensor<4x8xf32>, %v: tensor<8xf32>) -> tensor<4x8xf32> {
  %exp = dynamo.exp %v : tensor<8xf32>
  %wide = dynamo.broadcast %exp dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %r = dynamo.add %x, %wide : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

// A permute and a reshape between computations move to the inputs, where they are views.

// CHECK-LABEL: func.func @views_between
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<2x16xf32>)
// CHECK-DAG: %[[T:.*]] = dynamo.permute %[[X]] dims [1, 0]
// CHECK-DAG: %[[F:.*]] = dynamo.reshape %[[Y]] : tensor<2x16xf32> -> tensor<8x4xf32>
// CHECK: %[[R:.*]] = dynamo.launch @kernels::@pointwise_exp_neg_add_0(%[[T]], %[[F]])
// CHECK-NEXT: return %[[R]]
func.func @views_between(%x: tensor<4x8xf32>, %y: tensor<2x16xf32>) -> tensor<8x4xf32> {
  %exp = dynamo.exp %x : tensor<4x8xf32>
  %t = dynamo.permute %exp dims [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %neg = dynamo.neg %y : tensor<2x16xf32>
  %f = dynamo.reshape %neg : tensor<2x16xf32> -> tensor<8x4xf32>
  %r = dynamo.add %t, %f : tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// They do not move if memory is in another order: the reshape would be a copy. Here the value is stored between two kernels.

// CHECK-LABEL: func.func @strided_input
// CHECK: dynamo.launch @kernels::@pointwise_exp_0
// CHECK: dynamo.reshape
// CHECK: dynamo.launch @kernels::@pointwise_neg_0
func.func @strided_input(%x: tensor<4x8xf32> {dynamo.strides = array<i64: 1, 4>}) -> tensor<32xf32> {
  %exp = dynamo.exp %x : tensor<4x8xf32>
  %flat = dynamo.reshape %exp : tensor<4x8xf32> -> tensor<32xf32>
  %neg = dynamo.neg %flat : tensor<32xf32>
  return %neg : tensor<32xf32>
}

// -----

// Two kernels with an extern call between them remain two, although the second also reads the result of the first.

// CHECK-LABEL: func.func @residual
// CHECK: %[[A:.*]] = dynamo.launch @kernels::@pointwise_tanh_0
// CHECK: %[[H:.*]] = dynamo.aten "aten.mm.default"(%[[A]], %[[A]])
// CHECK: dynamo.launch @kernels::@pointwise_add_0(%[[A]], %[[H]])
// WHY: fuse: rejected %{{.*}} tanh + %{{.*}} add: what is between them would have to run inside the kernel
func.func @residual(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = dynamo.tanh %x : tensor<4x4xf32>
  %h = dynamo.aten "aten.mm.default"(%a, %a) args [#dynamo.operand<0>, #dynamo.operand<1>] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = dynamo.add %a, %h : tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// Sums over the same dims of the same value are one pass over it.

// CHECK-LABEL: func.func @siblings
// CHECK: dynamo.launch @kernels::@reduce_sum_max_0(%{{.*}}) : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
func.func @siblings(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %sum = dynamo.reduce sum %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %max = dynamo.reduce max %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  return %sum, %max : tensor<4xf32>, tensor<4xf32>
}

// -----

// The gradients of a weight and a bias, as after a layer norm. The product joins the first kernel, but is recomputed for its
// sum rather than stored; then both sums are one pass over the gradient.

// CHECK-LABEL: func.func @weight_and_bias_gradient
// CHECK-DAG: dynamo.launch @kernels::@reduce_mul_sum_0({{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32>
// CHECK-DAG: dynamo.launch @kernels::@reduce_mul_sum_1({{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
// CHECK: module @kernels
// CHECK: dynamo.reduced_dims = array<i64: 1>
// CHECK: dynamo.reduced_dims = array<i64: 0>
func.func @weight_and_bias_gradient(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) {
  %p = dynamo.mul %g, %x : tensor<4x8xf32>
  %rows = dynamo.reduce sum %p dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %weight = dynamo.reduce sum %p dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  %bias = dynamo.reduce sum %g dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %rows, %weight, %bias : tensor<4xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// A reduction of no elements is the neutral element. A constant that is returned is a kernel.

// CHECK-LABEL: func.func @empty
// CHECK-DAG: dynamo.launch @kernels::@pointwise_full_0() : () -> tensor<4xi64>
// CHECK-DAG: dynamo.launch @kernels::@pointwise_full_1() : () -> tensor<4xi1>
// CHECK-DAG: dynamo.full 1 : i64 -> tensor<4xi64>
// CHECK-DAG: dynamo.full true -> tensor<4xi1>
func.func @empty(%x: tensor<4x0xi64>, %y: tensor<4x0xi1>) -> (tensor<4xi64>, tensor<4xi1>) {
  %r = dynamo.reduce prod %x dims [1] : tensor<4x0xi64> -> tensor<4xi64>
  %s = dynamo.reduce and %y dims [1] : tensor<4x0xi1> -> tensor<4xi1>
  return %r, %s : tensor<4xi64>, tensor<4xi1>
}

// -----

// Scalars have the empty domain.

// CHECK-LABEL: func.func @scalars
// CHECK: dynamo.launch @kernels::@pointwise_add_0(%{{.*}}) : (tensor<f32>) -> tensor<f32>
// CHECK: dynamo.domain = array<i64>, dynamo.kernel, dynamo.reduced_dims = array<i64>
func.func @scalars(%x: tensor<f32>) -> tensor<f32> {
  %y = dynamo.add %x, %x : tensor<f32>
  return %y : tensor<f32>
}

// -----

// A scan is fused with the operation before it, and ends its kernel; the conversion of its elements for storage is part of it.

// CHECK-LABEL: func.func @scan
// CHECK: %[[S:.*]] = dynamo.launch @kernels::@scan_neg_cumsum_0
// CHECK: dynamo.launch @kernels::@pointwise_exp_0(%[[S]])
func.func @scan(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %neg = dynamo.neg %x : tensor<4x8xf32>
  %scan = dynamo.scan sum %neg dim 1 : tensor<4x8xf32>
  %exp = dynamo.exp %scan : tensor<4x8xf32>
  return %exp : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @converted
// CHECK: dynamo.launch @kernels::@scan_convert_cumsum_convert_0(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: dynamo.launch @kernels::@pointwise_exp_0
func.func @converted(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %wide = dynamo.convert %x : tensor<4x8xf32> -> tensor<4x8xf64>
  %scan = dynamo.scan sum %wide dim 1 : tensor<4x8xf64>
  %narrow = dynamo.convert %scan : tensor<4x8xf64> -> tensor<4x8xf32>
  %exp = dynamo.exp %narrow : tensor<4x8xf32>
  return %exp : tensor<4x8xf32>
}

// -----

// A gather is computed in the kernel that uses it. Its table is an argument of a shape of its own, the last one.

// CHECK-LABEL: func.func @gather
// CHECK-SAME: (%[[TABLE:.*]]: tensor<10x1x8xf32>, %[[I:.*]]: tensor<4xi64>)
// CHECK: %[[C:.*]] = dynamo.check_range %[[I]]
// CHECK: %[[ROW:.*]] = dynamo.broadcast %[[C]] dims [0]
// CHECK: dynamo.launch @kernels::@pointwise_gather_mul_0(%[[ROW]], %[[TABLE]]) : (tensor<4x8xi64>, tensor<10x1x8xf32>) -> tensor<4x8xf32>
// CHECK: func.func @pointwise_gather_mul_0(%[[INDEX:.*]]: tensor<4x8xi64>, %[[ARG:.*]]: tensor<10x1x8xf32>)
// CHECK-DAG: %[[ZERO:.*]] = dynamo.full 0 : i64 -> tensor<4x8xi64>
// CHECK-DAG: %[[COLUMN:.*]] = dynamo.iota 1
// CHECK: %[[G:.*]] = dynamo.gather %[[ARG]][%[[INDEX]], %[[ZERO]], %[[COLUMN]]]
// CHECK: dynamo.mul %[[G]], %[[G]]
func.func @gather(%table: tensor<10x1x8xf32>, %i: tensor<4xi64>) -> tensor<4x1x8xf32> {
  %c = dynamo.check_range %i in [0, 10) "out" : (tensor<4xi64>) -> tensor<4xi64>
  %row = dynamo.broadcast %c dims [0] : tensor<4xi64> -> tensor<4x1x8xi64>
  %unit = dynamo.iota 1 : tensor<4x1x8xi64>
  %column = dynamo.iota 2 : tensor<4x1x8xi64>
  %g = dynamo.gather %table[%row, %unit, %column] : tensor<10x1x8xf32>, tensor<4x1x8xi64>, tensor<4x1x8xi64>, tensor<4x1x8xi64> -> tensor<4x1x8xf32>
  %r = dynamo.mul %g, %g : tensor<4x1x8xf32>
  return %r : tensor<4x1x8xf32>
}

// -----

// The table of a gather is stored in memory first, even if it is cheap to compute and of the same shape; the other operand
// of the same kernel may be that very value.

// CHECK-LABEL: func.func @computed_table
// CHECK: %[[T:.*]] = dynamo.launch @kernels::@pointwise_neg_0
// CHECK: dynamo.launch @kernels::@pointwise_gather_add_0(%{{.*}}, %[[T]], %[[T]])
// WHY: fuse: rejected %{{.*}} neg + %{{.*}} gather: what is gathered from, or multiplied, must be in memory
func.func @computed_table(%x: tensor<8xf32>, %i: tensor<8xi64>) -> tensor<8xf32> {
  %table = dynamo.neg %x : tensor<8xf32>
  %g = dynamo.gather %table[%i] : tensor<8xf32>, tensor<8xi64> -> tensor<8xf32>
  %r = dynamo.add %g, %table : tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// A constant is a kernel of its own if it is the table of a gather.

// CHECK-LABEL: func.func @constant_table
// CHECK: %[[T:.*]] = dynamo.launch @kernels::@pointwise_iota_0() : () -> tensor<8xi64>
// CHECK: dynamo.launch @kernels::@pointwise_gather_0(%{{.*}}, %[[T]])
func.func @constant_table(%i: tensor<4xi64>) -> tensor<4xi64> {
  %table = dynamo.iota 0 : tensor<8xi64>
  %g = dynamo.gather %table[%i] : tensor<8xi64>, tensor<4xi64> -> tensor<4xi64>
  return %g : tensor<4xi64>
}

// -----

// A computation on a single number runs once, in a kernel of its own, for all its users: an optimizer's bias correction. Two parameters
// that use the same number are not merged into one kernel because of it.

// CHECK-LABEL: func.func @one_number
// CHECK: %[[R:.*]] = dynamo.launch @kernels::@[[ONE:.*]](%arg2) : (tensor<f32>) -> tensor<f32>
// CHECK: %[[WIDE:.*]] = dynamo.broadcast %[[R]] dims []
// CHECK: dynamo.launch @kernels::@[[MANY:.*]](%arg0, %[[WIDE]])
// CHECK: dynamo.launch @kernels::@[[MANY]](%arg1, %[[WIDE]])
func.func @one_number(%x: tensor<4096xf32>, %y: tensor<4096xf32>, %rate: tensor<f32>) -> (tensor<4096xf32>, tensor<4096xf32>) attributes {dynamo.entry} {
  %0 = dynamo.exp %rate : tensor<f32>
  %1 = dynamo.neg %0 : tensor<f32>
  %2 = dynamo.broadcast %1 dims [] : tensor<f32> -> tensor<4096xf32>
  %3 = dynamo.mul %x, %2 : tensor<4096xf32>
  %4 = dynamo.mul %y, %2 : tensor<4096xf32>
  return %3, %4 : tensor<4096xf32>, tensor<4096xf32>
}
