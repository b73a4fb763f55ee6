// RUN: dynamlir-opt %s --dynamo-edge-math | FileCheck %s

// sinh and cosh become infinite only if the result does: beyond the limit, the exponential is computed of x - 1, and
// the factor e/2 makes up for it.

// CHECK-LABEL: func.func @sinh
// CHECK-SAME: (%[[X:.*]]: f32)
// CHECK: %[[T:.*]] = math.absf %[[X]]
// CHECK: %[[LESS:.*]] = arith.subf %[[T]]
// CHECK: %[[FAR:.*]] = arith.cmpf ogt, %[[T]], %{{.*}}
// CHECK: %[[ARGUMENT:.*]] = arith.select %[[FAR]], %[[LESS]], %[[T]]
// CHECK: %[[E:.*]] = math.expm1 %[[ARGUMENT]]
// CHECK: %[[HALF_E:.*]] = arith.constant 1.35914087 : f32
// CHECK: arith.mulf %[[E]], %[[HALF_E]]
// CHECK: %[[R:.*]] = math.copysign %{{.*}}, %[[X]]
// CHECK: return %[[R]]
func.func @sinh(%x: f32) -> f32 {
  %0 = math.sinh %x : f32
  return %0 : f32
}

// CHECK-LABEL: func.func @cosh
// CHECK-NOT: math.cosh
// CHECK: arith.constant 7.090000e+02 : f64
// CHECK: math.exp %{{.*}} : f64
// CHECK: return
func.func @cosh(%x: f64) -> f64 {
  %0 = math.cosh %x : f64
  return %0 : f64
}

// The inverses do not square large arguments: for these they are ln(2x).

// CHECK-LABEL: func.func @asinh
// CHECK-SAME: (%[[X:.*]]: f32)
// CHECK: %[[T:.*]] = math.absf %[[X]]
// CHECK: %[[FAR:.*]] = arith.cmpf ogt, %[[T]], %{{.*}}
// CHECK: %[[ARGUMENT:.*]] = arith.select %[[FAR]]
// CHECK: math.log1p %[[ARGUMENT]]
// CHECK: math.copysign %{{.*}}, %[[X]]
func.func @asinh(%x: f32) -> f32 {
  %0 = math.asinh %x : f32
  return %0 : f32
}

// acosh is NaN below 1, even where the square root has a positive argument.

// CHECK-LABEL: func.func @acosh
// CHECK: math.sqrt
// CHECK: %[[NAN:.*]] = arith.constant 0x7FF8000000000000 : f64
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[NAN]]
// CHECK: math.log1p
// CHECK-NOT: math.acosh
func.func @acosh(%x: f64) -> f64 {
  %0 = math.acosh %x : f64
  return %0 : f64
}

// The tangent of a subnormal double is that double; in single precision the library's variant is right.

// CHECK-LABEL: func.func @tan
// CHECK-SAME: (%[[X:.*]]: f64, %[[Y:.*]]: f32)
// CHECK: %[[LARGE:.*]] = arith.cmpf ogt
// CHECK: arith.select %[[LARGE]], %{{.*}}, %[[X]]
// CHECK: math.tan %[[Y]] : f32
func.func @tan(%x: f64, %y: f32) -> (f64, f32) {
  %0 = math.tan %x : f64
  %1 = math.tan %y : f32
  return %0, %1 : f64, f32
}

// Vectors are handled like their elements; other functions remain unchanged.

// CHECK-LABEL: func.func @others
// CHECK-NOT: math.cosh
// CHECK: math.sin %{{.*}} : f32
func.func @others(%x: vector<8xf32>, %y: f32) -> (vector<8xf32>, f32) {
  %0 = math.cosh %x : vector<8xf32>
  %1 = math.sin %y : f32
  return %0, %1 : vector<8xf32>, f32
}
