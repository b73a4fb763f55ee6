// RUN: dynamlir-opt %s --dynamo-attach-target=vector-bits=512 --dynamo-decompose --dynamo-select --dynamo-verify-prims | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-attach-target=vector-bits=0 --dynamo-decompose --dynamo-select | FileCheck %s --check-prefix=NONE --implicit-check-not=dynamo.attention
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=neoverse-v1 --dynamo-decompose --dynamo-select | FileCheck %s --check-prefix=NONE --implicit-check-not=dynamo.attention

// Attention becomes a primitive if the library's call is slower. The scale is explicit, and the mask has an element per score.

// CHECK-LABEL: func.func @plain
// CHECK: dynamo.attention %arg0, %arg1, %arg2 scale 1.250000e-01 causal
// NONE-LABEL: func.func @plain
func.func @plain(%q: tensor<1x4x32x64xf32>, %k: tensor<1x4x40x64xf32>, %v: tensor<1x4x40x64xf32>) -> tensor<1x4x32x64xf32> {
  %r, %s = dynamo.aten "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 0.0, true, unit, unit]
    : (tensor<1x4x32x64xf32>, tensor<1x4x40x64xf32>, tensor<1x4x40x64xf32>) -> (tensor<1x4x32x64xf32>, tensor<1x32x4xf32>)
  return %r : tensor<1x4x32x64xf32>
}

// CHECK-LABEL: func.func @masked
// CHECK: %[[M:.*]] = dynamo.broadcast
// CHECK: dynamo.attention %arg0, %arg1, %arg2 mask %[[M]] scale 2.000000e+00
// NONE-LABEL: func.func @masked
func.func @masked(%q: tensor<1x4x32x64xf32>, %k: tensor<1x4x40x64xf32>, %v: tensor<1x4x40x64xf32>, %m: tensor<1x1x32x40xf32>) -> tensor<1x4x32x64xf32> {
  %r, %s = dynamo.aten "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v, %m)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 0.0, false, #dynamo.operand<3>, 2.0]
    : (tensor<1x4x32x64xf32>, tensor<1x4x40x64xf32>, tensor<1x4x40x64xf32>, tensor<1x1x32x40xf32>) -> (tensor<1x4x32x64xf32>, tensor<1x32x4xf32>)
  return %r : tensor<1x4x32x64xf32>
}

// The library computes attention with many keys, another type or dropout, and if the call also returns the sums.
// CHECK-LABEL: func.func @left_to_the_library
// CHECK-COUNT-4: dynamo.aten
// CHECK: return
func.func @left_to_the_library(%q: tensor<1x4x32x64xf32>, %k: tensor<1x4x1000x64xf32>, %d: tensor<1x4x32x64xf64>) -> tensor<1x32x4xf32> {
  %0:2 = dynamo.aten "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %k)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 0.0, false, unit, unit]
    : (tensor<1x4x32x64xf32>, tensor<1x4x1000x64xf32>, tensor<1x4x1000x64xf32>) -> (tensor<1x4x32x64xf32>, tensor<1x32x4xf32>)
  %1:2 = dynamo.aten "aten._scaled_dot_product_flash_attention_for_cpu.default"(%d, %d, %d)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 0.0, false, unit, unit]
    : (tensor<1x4x32x64xf64>, tensor<1x4x32x64xf64>, tensor<1x4x32x64xf64>) -> (tensor<1x4x32x64xf64>, tensor<1x32x4xf64>)
  %2:2 = dynamo.aten "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %q, %q)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 0.1, false, unit, unit]
    : (tensor<1x4x32x64xf32>, tensor<1x4x32x64xf32>, tensor<1x4x32x64xf32>) -> (tensor<1x4x32x64xf32>, tensor<1x32x4xf32>)
  %3:2 = dynamo.aten "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %q, %q)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 0.0, false, unit, unit]
    : (tensor<1x4x32x64xf32>, tensor<1x4x32x64xf32>, tensor<1x4x32x64xf32>) -> (tensor<1x4x32x64xf32>, tensor<1x32x4xf32>)
  return %3#1 : tensor<1x32x4xf32>
}

// One query, as for a generated token: scores are sums along lines of memory, the result is one across the lines, for any number of
// keys. A row that is masked completely gives zeros. This needs neither vectors nor a decision.
// CHECK-LABEL: func.func @one_query
// CHECK-NOT: dynamo.attention
// CHECK: dynamo.reduce sum %{{.*}} dims [3] : tensor<1x4x?x64xf32, #dynamo.sizes<1, 4, s0, 64>>
// CHECK: dynamo.reduce max %[[SCORES:.*]] dims [2]
// CHECK: %[[ALL:.*]] = dynamo.compare eq
// CHECK: dynamo.select %[[ALL]]
// CHECK: dynamo.exp
// CHECK: %[[SUM:.*]] = dynamo.select %[[ALL]]
// CHECK: dynamo.div
// CHECK-NOT: dynamo.aten
// CHECK: return
// NONE-LABEL: func.func @one_query
// NONE-NOT: dynamo.aten
// NONE: return
func.func @one_query(%q: tensor<1x4x1x64xf32>, %k: tensor<1x4x?x64xf32, #dynamo.sizes<1, 4, s0, 64>>, %m: tensor<1x1x1x?xf32, #dynamo.sizes<1, 1, 1, s0>>) -> tensor<1x4x1x64xf32> attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 1, dim = 2>]} {
  %r, %s = dynamo.aten "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %k, %m)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 0.0, false, #dynamo.operand<3>, unit]
    : (tensor<1x4x1x64xf32>, tensor<1x4x?x64xf32, #dynamo.sizes<1, 4, s0, 64>>, tensor<1x4x?x64xf32, #dynamo.sizes<1, 4, s0, 64>>, tensor<1x1x1x?xf32, #dynamo.sizes<1, 1, 1, s0>>) -> (tensor<1x4x1x64xf32>, tensor<1x1x4xf32>)
  return %r : tensor<1x4x1x64xf32>
}

// Several queries with any number of keys, and a number of keys that may be 0, are left to the library.
// CHECK-LABEL: func.func @any_size
// CHECK-COUNT-2: dynamo.aten
// CHECK: return
func.func @any_size(%q: tensor<1x4x8x64xf32>, %one: tensor<1x4x1x64xf32>, %k: tensor<1x4x?x64xf32, #dynamo.sizes<1, 4, s0, 64>>, %n: tensor<1x4x?x64xf32, #dynamo.sizes<1, 4, s1, 64>>) -> (tensor<1x4x8x64xf32>, tensor<1x4x1x64xf32>) attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 2, dim = 2>, #dynamo.symbol<s1, argument = 3, dim = 2, min = 0>]} {
  %0:2 = dynamo.aten "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %k)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 0.0, false, unit, unit]
    : (tensor<1x4x8x64xf32>, tensor<1x4x?x64xf32, #dynamo.sizes<1, 4, s0, 64>>, tensor<1x4x?x64xf32, #dynamo.sizes<1, 4, s0, 64>>) -> (tensor<1x4x8x64xf32>, tensor<1x8x4xf32>)
  %1:2 = dynamo.aten "aten._scaled_dot_product_flash_attention_for_cpu.default"(%one, %n, %n)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 0.0, false, unit, unit]
    : (tensor<1x4x1x64xf32>, tensor<1x4x?x64xf32, #dynamo.sizes<1, 4, s1, 64>>, tensor<1x4x?x64xf32, #dynamo.sizes<1, 4, s1, 64>>) -> (tensor<1x4x1x64xf32>, tensor<1x1x4xf32>)
  return %0#0, %1#0 : tensor<1x4x8x64xf32>, tensor<1x4x1x64xf32>
}
