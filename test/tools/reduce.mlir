// dynamlir-reduce makes a module smaller as long as a program says that it still fails, here: that a tanh is in it.
//
// RUN: dynamlir-reduce %s --test %S/Inputs/has-operation.sh --test-arg aten.tanh -o %t.mlir 2>&1 | FileCheck %s --check-prefix=COUNTS
// RUN: FileCheck %s --input-file %t.mlir
// COUNTS: 1 of 5 operations are left, after {{[0-9]+}} tests
//
// A function is left that passes its argument to the operation. Its results, its attributes and the locations did not matter.
// CHECK:      module {
// CHECK-NEXT:   func.func @main(%arg0: !dynamo.tensor<6xf32, [1]>, %arg1: !dynamo.tensor<6xf32, [1]>) {
// CHECK-NEXT:     dynamo.aten "aten.tanh.default"(%arg0)
// CHECK-NEXT:     return
// CHECK-NEXT:   }
// CHECK-NEXT: }
//
// What is left is valid, and can be reduced no further.
// RUN: dynamlir-opt %t.mlir -o /dev/null
// RUN: dynamlir-reduce %t.mlir --test %S/Inputs/has-operation.sh --test-arg aten.tanh 2>/dev/null | diff %t.mlir -
// RUN: cat %s | dynamlir-reduce - --test %S/Inputs/has-operation.sh --test-arg aten.tanh 2>/dev/null | diff %t.mlir -
//
// Errors are messages and exit status 1.
// RUN: not dynamlir-reduce %s --test %S/Inputs/has-operation.sh --test-arg aten.cosh 2>&1 | FileCheck %s --check-prefix=PASSES
// PASSES: dynamlir-reduce: the module does not fail the test as it is, so there is nothing to reduce
// RUN: not dynamlir-reduce %t.absent --test %S/Inputs/has-operation.sh 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: dynamlir-reduce: {{.*}}.absent: No such file or directory
// RUN: not dynamlir-reduce %s --test %t.absent 2>&1 | FileCheck %s --check-prefix=PROGRAM
// PROGRAM: dynamlir-reduce: cannot run {{.*}}.absent: No such file or directory
// RUN: echo 'module { func.func' | not dynamlir-reduce - --test %S/Inputs/has-operation.sh 2>&1 | FileCheck %s --check-prefix=INVALID
// INVALID: dynamlir-reduce: cannot parse the module:
// RUN: not dynamlir-reduce %s --test %S/Inputs/has-operation.sh --test-arg aten.tanh -o %t.absent/out 2>&1 | FileCheck %s --check-prefix=OUTPUT
// OUTPUT: dynamlir-reduce: {{.*}}.absent/out: No such file or directory

module attributes {some.thing} {
  func.func @other(%x: tensor<6xf32>) -> tensor<6xf32> {
    %0 = dynamo.exp %x : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func @main(%x: !dynamo.tensor<6xf32, [1]>, %y: !dynamo.tensor<6xf32, [1]>) -> (!dynamo.tensor<6xf32, [1]>, !dynamo.tensor<6xf32, [1]>)
      attributes {dynamo.bases = [#dynamo.base<none>, #dynamo.base<none>], dynamo.entry, dynamo.differentiable = array<i64: 0, 1>,
                  dynamo.outputs = [#dynamo.output<result 1>, #dynamo.output<result 0>], dynamo.versions = array<i64: 0, 0>} {
    %0 = dynamo.aten "aten.exp.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>} : (!dynamo.tensor<6xf32, [1]>) -> !dynamo.tensor<6xf32, [1]>
    %1 = dynamo.aten "aten.mul.Tensor"(%0, %y) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: -1>} : (!dynamo.tensor<6xf32, [1]>, !dynamo.tensor<6xf32, [1]>) -> !dynamo.tensor<6xf32, [1]>
    %2 = dynamo.aten "aten.tanh.default"(%1) args [#dynamo.operand<0>] {aliases = array<i64: -1>} : (!dynamo.tensor<6xf32, [1]>) -> !dynamo.tensor<6xf32, [1]>
    %3 = dynamo.aten "aten.neg.default"(%2) args [#dynamo.operand<0>] {aliases = array<i64: -1>} : (!dynamo.tensor<6xf32, [1]>) -> !dynamo.tensor<6xf32, [1]> loc("user.py":3:1)
    return %2, %3 : !dynamo.tensor<6xf32, [1]>, !dynamo.tensor<6xf32, [1]>
  }
}
