// RUN: dynamlir-opt %s --dynamo-bools-as-bytes | FileCheck %s

// CHECK-LABEL: func.func @any
// CHECK: %[[ANY:.*]] = memref.alloca() : memref<64xi8>
// CHECK: %[[PART:.*]] = memref.subview %[[ANY]]{{.*}} : memref<64xi8> to memref<16xi8, strided<[1], offset: ?>>
// CHECK: scf.for
// CHECK: %[[BYTE:.*]] = memref.load %[[PART]]
// CHECK: %[[OLD:.*]] = arith.trunci %[[BYTE]] : i8 to i1
// CHECK: %[[NEW:.*]] = arith.ori %[[OLD]], %{{.*}} : i1
// CHECK: %[[WIDE:.*]] = arith.extui %[[NEW]] : i1 to i8
// CHECK: memref.store %[[WIDE]], %[[PART]]
func.func @any(%x: memref<16xi64>, %at: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c3 = arith.constant 3 : i64
  %any = memref.alloca() : memref<64xi1>
  %part = memref.subview %any[%at] [16] [1] : memref<64xi1> to memref<16xi1, strided<[1], offset: ?>>
  scf.for %i = %c0 to %c16 step %c1 {
    %0 = memref.load %x[%i] : memref<16xi64>
    %1 = arith.cmpi sgt, %0, %c3 : i64
    %2 = memref.load %part[%i] : memref<16xi1, strided<[1], offset: ?>>
    %3 = arith.ori %2, %1 : i1
    memref.store %3, %part[%i] : memref<16xi1, strided<[1], offset: ?>>
  }
  return
}

// Other operations on such memory keep it as it is.
// CHECK-LABEL: func.func @other
// CHECK: memref.alloca() : memref<64xi1>
func.func @other(%at: index) -> vector<16xi1> {
  %any = memref.alloca() : memref<64xi1>
  %0 = vector.load %any[%at] : memref<64xi1>, vector<16xi1>
  return %0 : vector<16xi1>
}
