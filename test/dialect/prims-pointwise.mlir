// RUN: dynamlir-opt %s | FileCheck %s
// RUN: dynamlir-opt %s | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --mlir-print-op-generic | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --emit-bytecode | dynamlir-opt | FileCheck %s


// Pointwise primitives print as they are written, also from the generic form and from bytecode.

// CHECK-LABEL: func.func @one_float
func.func @one_float(%x: tensor<4xf32>) {
  // CHECK: dynamo.neg %arg0 : tensor<4xf32>
  dynamo.neg %x : tensor<4xf32>
  // CHECK: dynamo.abs %arg0 : tensor<4xf32>
  dynamo.abs %x : tensor<4xf32>
  // CHECK: dynamo.exp %arg0 : tensor<4xf32>
  dynamo.exp %x : tensor<4xf32>
  // CHECK: dynamo.exp2 %arg0 : tensor<4xf32>
  dynamo.exp2 %x : tensor<4xf32>
  // CHECK: dynamo.expm1 %arg0 : tensor<4xf32>
  dynamo.expm1 %x : tensor<4xf32>
  // CHECK: dynamo.log %arg0 : tensor<4xf32>
  dynamo.log %x : tensor<4xf32>
  // CHECK: dynamo.log2 %arg0 : tensor<4xf32>
  dynamo.log2 %x : tensor<4xf32>
  // CHECK: dynamo.log10 %arg0 : tensor<4xf32>
  dynamo.log10 %x : tensor<4xf32>
  // CHECK: dynamo.log1p %arg0 : tensor<4xf32>
  dynamo.log1p %x : tensor<4xf32>
  // CHECK: dynamo.sqrt %arg0 : tensor<4xf32>
  dynamo.sqrt %x : tensor<4xf32>
  // CHECK: dynamo.rsqrt %arg0 : tensor<4xf32>
  dynamo.rsqrt %x : tensor<4xf32>
  // CHECK: dynamo.sin %arg0 : tensor<4xf32>
  dynamo.sin %x : tensor<4xf32>
  // CHECK: dynamo.cos %arg0 : tensor<4xf32>
  dynamo.cos %x : tensor<4xf32>
  // CHECK: dynamo.tan %arg0 : tensor<4xf32>
  dynamo.tan %x : tensor<4xf32>
  // CHECK: dynamo.asin %arg0 : tensor<4xf32>
  dynamo.asin %x : tensor<4xf32>
  // CHECK: dynamo.acos %arg0 : tensor<4xf32>
  dynamo.acos %x : tensor<4xf32>
  // CHECK: dynamo.atan %arg0 : tensor<4xf32>
  dynamo.atan %x : tensor<4xf32>
  // CHECK: dynamo.sinh %arg0 : tensor<4xf32>
  dynamo.sinh %x : tensor<4xf32>
  // CHECK: dynamo.cosh %arg0 : tensor<4xf32>
  dynamo.cosh %x : tensor<4xf32>
  // CHECK: dynamo.tanh %arg0 : tensor<4xf32>
  dynamo.tanh %x : tensor<4xf32>
  // CHECK: dynamo.asinh %arg0 : tensor<4xf32>
  dynamo.asinh %x : tensor<4xf32>
  // CHECK: dynamo.acosh %arg0 : tensor<4xf32>
  dynamo.acosh %x : tensor<4xf32>
  // CHECK: dynamo.atanh %arg0 : tensor<4xf32>
  dynamo.atanh %x : tensor<4xf32>
  // CHECK: dynamo.erf %arg0 : tensor<4xf32>
  dynamo.erf %x : tensor<4xf32>
  // CHECK: dynamo.erfc %arg0 : tensor<4xf32>
  dynamo.erfc %x : tensor<4xf32>
  // CHECK: dynamo.lgamma %arg0 : tensor<4xf32>
  dynamo.lgamma %x : tensor<4xf32>
  // CHECK: dynamo.floor %arg0 : tensor<4xf32>
  dynamo.floor %x : tensor<4xf32>
  // CHECK: dynamo.ceil %arg0 : tensor<4xf32>
  dynamo.ceil %x : tensor<4xf32>
  // CHECK: dynamo.round %arg0 : tensor<4xf32>
  dynamo.round %x : tensor<4xf32>
  // CHECK: dynamo.trunc %arg0 : tensor<4xf32>
  dynamo.trunc %x : tensor<4xf32>
  return
}

// Each accepts every float type, any rank, and unknown sizes.
// CHECK-LABEL: func.func @float_types
func.func @float_types(%a: tensor<f64>, %b: tensor<2x0xbf16>, %c: tensor<?x3xf16>) {
  // CHECK: dynamo.exp %arg0 : tensor<f64>
  dynamo.exp %a : tensor<f64>
  // CHECK: dynamo.exp %arg1 : tensor<2x0xbf16>
  dynamo.exp %b : tensor<2x0xbf16>
  // CHECK: dynamo.exp %arg2 : tensor<?x3xf16>
  dynamo.exp %c : tensor<?x3xf16>
  return
}

// CHECK-LABEL: func.func @one_integer
func.func @one_integer(%x: tensor<4xi64>, %u: tensor<4xui8>, %b: tensor<4xi1>) {
  // CHECK: dynamo.neg %arg0 : tensor<4xi64>
  dynamo.neg %x : tensor<4xi64>
  // CHECK: dynamo.abs %arg1 : tensor<4xui8>
  dynamo.abs %u : tensor<4xui8>
  // CHECK: dynamo.not %arg0 : tensor<4xi64>
  dynamo.not %x : tensor<4xi64>
  // CHECK: dynamo.not %arg2 : tensor<4xi1>
  dynamo.not %b : tensor<4xi1>
  return
}

// CHECK-LABEL: func.func @two_floats
func.func @two_floats(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // CHECK: dynamo.add %arg0, %arg1 : tensor<4xf32>
  dynamo.add %x, %y : tensor<4xf32>
  // CHECK: dynamo.sub %arg0, %arg1 : tensor<4xf32>
  dynamo.sub %x, %y : tensor<4xf32>
  // CHECK: dynamo.mul %arg0, %arg1 : tensor<4xf32>
  dynamo.mul %x, %y : tensor<4xf32>
  // CHECK: dynamo.div %arg0, %arg1 : tensor<4xf32>
  dynamo.div %x, %y : tensor<4xf32>
  // CHECK: dynamo.rem %arg0, %arg1 : tensor<4xf32>
  dynamo.rem %x, %y : tensor<4xf32>
  // CHECK: dynamo.pow %arg0, %arg1 : tensor<4xf32>
  dynamo.pow %x, %y : tensor<4xf32>
  // CHECK: dynamo.atan2 %arg0, %arg1 : tensor<4xf32>
  dynamo.atan2 %x, %y : tensor<4xf32>
  // CHECK: dynamo.hypot %arg0, %arg1 : tensor<4xf32>
  dynamo.hypot %x, %y : tensor<4xf32>
  // CHECK: dynamo.fma %arg0, %arg1, %arg0 : tensor<4xf32>
  dynamo.fma %x, %y, %x : tensor<4xf32>
  // CHECK: dynamo.copysign %arg0, %arg1 : tensor<4xf32>
  dynamo.copysign %x, %y : tensor<4xf32>
  // CHECK: dynamo.nextafter %arg0, %arg1 : tensor<4xf32>
  dynamo.nextafter %x, %y : tensor<4xf32>
  // CHECK: dynamo.max %arg0, %arg1 : tensor<4xf32>
  dynamo.max %x, %y : tensor<4xf32>
  // CHECK: dynamo.min %arg0, %arg1 : tensor<4xf32>
  dynamo.min %x, %y : tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @two_integers
func.func @two_integers(%x: tensor<4xi32>, %y: tensor<4xi32>) {
  // CHECK: dynamo.add %arg0, %arg1 : tensor<4xi32>
  dynamo.add %x, %y : tensor<4xi32>
  // CHECK: dynamo.sub %arg0, %arg1 : tensor<4xi32>
  dynamo.sub %x, %y : tensor<4xi32>
  // CHECK: dynamo.mul %arg0, %arg1 : tensor<4xi32>
  dynamo.mul %x, %y : tensor<4xi32>
  // CHECK: dynamo.div %arg0, %arg1 : tensor<4xi32>
  dynamo.div %x, %y : tensor<4xi32>
  // CHECK: dynamo.rem %arg0, %arg1 : tensor<4xi32>
  dynamo.rem %x, %y : tensor<4xi32>
  // CHECK: dynamo.max %arg0, %arg1 : tensor<4xi32>
  dynamo.max %x, %y : tensor<4xi32>
  // CHECK: dynamo.min %arg0, %arg1 : tensor<4xi32>
  dynamo.min %x, %y : tensor<4xi32>
  // CHECK: dynamo.and %arg0, %arg1 : tensor<4xi32>
  dynamo.and %x, %y : tensor<4xi32>
  // CHECK: dynamo.or %arg0, %arg1 : tensor<4xi32>
  dynamo.or %x, %y : tensor<4xi32>
  // CHECK: dynamo.xor %arg0, %arg1 : tensor<4xi32>
  dynamo.xor %x, %y : tensor<4xi32>
  // CHECK: dynamo.shl %arg0, %arg1 : tensor<4xi32>
  dynamo.shl %x, %y : tensor<4xi32>
  // CHECK: dynamo.shr %arg0, %arg1 : tensor<4xi32>
  dynamo.shr %x, %y : tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @two_bools
func.func @two_bools(%x: tensor<4xi1>, %y: tensor<4xi1>) {
  // CHECK: dynamo.and %arg0, %arg1 : tensor<4xi1>
  dynamo.and %x, %y : tensor<4xi1>
  // CHECK: dynamo.or %arg0, %arg1 : tensor<4xi1>
  dynamo.or %x, %y : tensor<4xi1>
  // CHECK: dynamo.xor %arg0, %arg1 : tensor<4xi1>
  dynamo.xor %x, %y : tensor<4xi1>
  // CHECK: dynamo.max %arg0, %arg1 : tensor<4xi1>
  dynamo.max %x, %y : tensor<4xi1>
  // CHECK: dynamo.min %arg0, %arg1 : tensor<4xi1>
  dynamo.min %x, %y : tensor<4xi1>
  return
}

// There is one space before the predicate, not two.
// CHECK-LABEL: func.func @compare
func.func @compare(%x: tensor<4xf32>, %y: tensor<4xf32>, %b: tensor<i1>) {
  // CHECK: dynamo.compare eq %arg0, %arg1 : tensor<4xf32> -> tensor<4xi1>
  dynamo.compare eq %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: dynamo.compare ne %arg0, %arg1 : tensor<4xf32> -> tensor<4xi1>
  dynamo.compare ne %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: dynamo.compare lt %arg0, %arg1 : tensor<4xf32> -> tensor<4xi1>
  dynamo.compare lt %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: dynamo.compare le %arg0, %arg1 : tensor<4xf32> -> tensor<4xi1>
  dynamo.compare le %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: dynamo.compare gt %arg0, %arg1 : tensor<4xf32> -> tensor<4xi1>
  dynamo.compare gt %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: dynamo.compare ge %arg0, %arg1 : tensor<4xf32> -> tensor<4xi1>
  dynamo.compare ge %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: dynamo.compare lt %arg2, %arg2 : tensor<i1> -> tensor<i1>
  dynamo.compare lt %b, %b : tensor<i1> -> tensor<i1>
  return
}

// CHECK-LABEL: func.func @select
func.func @select(%c: tensor<4xi1>, %x: tensor<4xbf16>, %y: tensor<4xbf16>) {
  // CHECK: dynamo.select %arg0, %arg1, %arg2 : tensor<4xi1>, tensor<4xbf16>
  dynamo.select %c, %x, %y : tensor<4xi1>, tensor<4xbf16>
  return
}

// Every element type converts to every other; a bitcast keeps the width.
// CHECK-LABEL: func.func @conversions
func.func @conversions(%x: tensor<4xf32>, %b: tensor<4xi1>, %u: tensor<4xui8>) {
  // CHECK: dynamo.convert %arg0 : tensor<4xf32> -> tensor<4xbf16>
  dynamo.convert %x : tensor<4xf32> -> tensor<4xbf16>
  // CHECK: dynamo.convert %arg0 : tensor<4xf32> -> tensor<4xi1>
  dynamo.convert %x : tensor<4xf32> -> tensor<4xi1>
  // CHECK: dynamo.convert %arg1 : tensor<4xi1> -> tensor<4xi64>
  dynamo.convert %b : tensor<4xi1> -> tensor<4xi64>
  // CHECK: dynamo.bitcast %arg0 : tensor<4xf32> -> tensor<4xi32>
  dynamo.bitcast %x : tensor<4xf32> -> tensor<4xi32>
  // CHECK: dynamo.bitcast %arg2 : tensor<4xui8> -> tensor<4xi8>
  dynamo.bitcast %u : tensor<4xui8> -> tensor<4xi8>
  return
}

// Attributes that passes put on an op are kept.
// CHECK-LABEL: func.func @attributes
func.func @attributes(%x: tensor<4xf32>) {
  // CHECK: dynamo.exp %arg0 {note = "kept"} : tensor<4xf32>
  dynamo.exp %x {note = "kept"} : tensor<4xf32>
  // CHECK: dynamo.compare ge %arg0, %arg0 {note} : tensor<4xf32> -> tensor<4xi1>
  dynamo.compare ge %x, %x {note} : tensor<4xf32> -> tensor<4xi1>
  return
}
