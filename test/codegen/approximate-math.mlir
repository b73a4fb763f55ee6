// RUN: dynamlir-opt %s --dynamo-approximate-math | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-approximate-math=keep=true | FileCheck %s --check-prefix=KEEP

// exp(x) = 2^n exp(r): r is what remains of x after n steps of ln 2, and so small that a polynomial suffices. Nothing is
// called. Adding a large number rounds x / ln 2 to n and leaves n in the lowest bits, from where it is moved to the
// exponent. Subnormal results are first computed 2^65 times too large. NaN passes the bounds unchanged: both
// comparisons are false for it.

// CHECK-LABEL: func.func @exp
// CHECK-SAME: (%[[X:.*]]: f32)
// CHECK: %[[BELOW:.*]] = arith.cmpf olt, %[[X]]
// CHECK: %[[LOW:.*]] = arith.select %[[BELOW]], %{{.*}}, %[[X]]
// CHECK: %[[ABOVE:.*]] = arith.cmpf ogt, %[[LOW]]
// CHECK: %[[B:.*]] = arith.select %[[ABOVE]], %{{.*}}, %[[LOW]]
// CHECK: %[[N:.*]] = math.fma %[[B]]
// CHECK-COUNT-8: math.fma
// CHECK: arith.bitcast %[[N]] : f32 to i32
// CHECK: %[[SMALL:.*]] = arith.cmpf olt, %[[B]]
// CHECK: arith.shli
// CHECK: %[[R:.*]] = arith.select %[[SMALL]]
// CHECK: return %[[R]]
// KEEP-LABEL: func.func @exp
// KEEP: math.exp
func.func @exp(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  return %0 : f32
}

// 2^x: the nearest integer is subtracted from x, which is exact.

// CHECK-LABEL: func.func @exp2
// CHECK-SAME: (%[[X:.*]]: f32)
// CHECK: %[[BELOW:.*]] = arith.cmpf olt, %[[X]]
// CHECK: %[[LOW:.*]] = arith.select %[[BELOW]], %{{.*}}, %[[X]]
// CHECK: %[[ABOVE:.*]] = arith.cmpf ogt, %[[LOW]]
// CHECK: %[[B:.*]] = arith.select %[[ABOVE]], %{{.*}}, %[[LOW]]
// CHECK: %[[SHIFTED:.*]] = arith.addf %[[B]], %[[C:.*]] : f32
// CHECK: %[[N:.*]] = arith.subf %[[SHIFTED]], %[[C]]
// CHECK: %[[R:.*]] = arith.subf %[[B]], %[[N]]
// CHECK-COUNT-6: math.fma %{{.*}}, %[[R]]
// CHECK: arith.bitcast %[[SHIFTED]] : f32 to i32
// CHECK: %[[SMALL:.*]] = arith.cmpf olt, %[[B]]
// CHECK: arith.shli
// CHECK: arith.select %[[SMALL]]
// KEEP-LABEL: func.func @exp2
// KEEP: math.exp2
func.func @exp2(%x: f32) -> f32 {
  %0 = math.exp2 %x : f32
  return %0 : f32
}

// The same on a vector: a kernel that the schedule has vectorized.

// CHECK-LABEL: func.func @vectors
// CHECK-NOT: math.exp
// CHECK: arith.cmpf olt, %{{.*}} : vector<16xf32>
// CHECK: math.fma %{{.*}} : vector<16xf32>
// CHECK: arith.shli %{{.*}} : vector<16xi32>
func.func @vectors(%x: vector<16xf32>) -> vector<16xf32> {
  %0 = math.exp %x : vector<16xf32>
  return %0 : vector<16xf32>
}

// erf: an odd polynomial up to 1, and another polynomial beyond, with the sign of x. NaN takes the first path.

// CHECK-LABEL: func.func @erf
// CHECK-SAME: (%[[X:.*]]: f32)
// CHECK-NOT: math.erf
// CHECK: %[[T:.*]] = math.absf %[[X]]
// CHECK: %[[FAR:.*]] = math.copysign %{{.*}}, %[[X]]
// CHECK: arith.mulf %[[X]], %[[X]]
// CHECK: %[[NEAR:.*]] = math.fma %{{.*}}, %[[X]], %[[X]]
// CHECK: %[[IS:.*]] = arith.cmpf ogt, %[[T]]
// CHECK: arith.select %[[IS]], %[[FAR]], %[[NEAR]]
// KEEP-LABEL: func.func @erf
// KEEP: math.erf
func.func @erf(%x: f32) -> f32 {
  %0 = math.erf %x : f32
  return %0 : f32
}

// Logarithms: exponent and mantissa from the bits, and a polynomial for the mantissa. For base 2, nothing is rounded twice.

// CHECK-LABEL: func.func @log2
// CHECK-SAME: (%[[X:.*]]: f32)
// CHECK: arith.shrsi
// CHECK: arith.sitofp
// CHECK: arith.andi
// CHECK-COUNT-7: math.fma
// CHECK: %[[ZERO:.*]] = arith.cmpf oeq, %[[X]]
// CHECK: arith.select %[[ZERO]]
// CHECK: arith.cmpf ogt, %[[X]]
func.func @log2(%x: f32) -> f32 {
  %0 = math.log2 %x : f32
  return %0 : f32
}

// Angles are computed for small arguments; for others, from the complement to a right angle. Tails are exponentials.

// CHECK-LABEL: func.func @more
// CHECK-NOT: math.a{{[a-z]+}}n
// CHECK-NOT: math.acos
// CHECK-NOT: math.tanh
// CHECK-NOT: math.log
// CHECK: return
func.func @more(%x: f32) -> (f32, f32, f32, f32, f32, f32, f32) {
  %0 = math.atan %x : f32
  %1 = math.asin %x : f32
  %2 = math.acos %x : f32
  %3 = math.tanh %x : f32
  %4 = math.erfc %x : f32
  %5 = math.log %x : f32
  %6 = math.log10 %x : f32
  return %0, %1, %2, %3, %4, %5, %6 : f32, f32, f32, f32, f32, f32, f32
}

// Functions in double precision and other functions remain calls.

// CHECK-LABEL: func.func @others
// CHECK-NEXT: math.exp %{{.*}} : f64
// CHECK-NEXT: math.sin %{{.*}} : f32
// CHECK-NEXT: return
func.func @others(%x: f64, %y: f32) -> (f64, f32) {
  %0 = math.exp %x : f64
  %1 = math.sin %y : f32
  return %0, %1 : f64, f32
}
