// RUN: dynamlir-opt --help | FileCheck %s --check-prefix=HELP
// RUN: dynamlir-opt %s --dynamlir-to-llvm | FileCheck %s

// One step at a time, as between two dumps, and by pass names.
// RUN: dynamlir-opt %s --dynamlir-aten-to-functional -o %t.1 && dynamlir-opt %s --dynamo-functionalize | diff %t.1 -
// RUN: dynamlir-opt %t.1 --dynamlir-functional-to-prims -o %t.2 && dynamlir-opt %t.1 --dynamo-decompose | diff %t.2 -
// RUN: dynamlir-opt %t.2 --dynamlir-prims-to-kernels -o %t.3 && dynamlir-opt %t.2 --dynamo-fuse | diff %t.3 -
// RUN: dynamlir-opt %t.3 --dynamlir-kernels-to-planned -o %t.4 && dynamlir-opt %t.3 --dynamo-plan | diff %t.4 -
// RUN: dynamlir-opt %t.4 --dynamlir-planned-to-linalg --dynamlir-linalg-to-scheduled --dynamlir-scheduled-to-bufferized \
// RUN:   --dynamlir-bufferized-to-llvm -o %t.8

// All steps at once: as a flag, in a pipeline, and in stock mlir-opt.
// RUN: dynamlir-opt %s --dynamlir-to-planned | diff %t.4 -
// RUN: dynamlir-opt %s --dynamlir-to-llvm | diff %t.8 -
// RUN: dynamlir-opt %s --pass-pipeline='builtin.module(dynamlir-to-llvm)' | diff %t.8 -
// RUN: mlir-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin %s --dynamlir-to-llvm | diff %t.8 -
// RUN: mlir-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin %s --pass-pipeline='builtin.module(dynamlir-to-llvm)' \
// RUN:   | diff %t.8 -
// RUN: not dynamlir-opt %s --pass-pipeline='builtin.module(dynamlir-to-llvm{fast=1})' 2>&1 | FileCheck %s --check-prefix=OPTION

// HELP-DAG: --dynamlir-aten-to-functional {{.*}}- One step, 00-aten to 01-functional
// HELP-DAG: --dynamlir-functional-to-prims {{.*}}- One step, 01-functional to 02-prims
// HELP-DAG: --dynamlir-prims-to-kernels {{.*}}- One step, 02-prims to 03-kernels
// HELP-DAG: --dynamlir-kernels-to-planned {{.*}}- One step, 03-kernels to 04-planned
// HELP-DAG: --dynamlir-planned-to-linalg {{.*}}- One step, 04-planned to 05-linalg
// HELP-DAG: --dynamlir-linalg-to-scheduled {{.*}}- One step, 05-linalg to 06-scheduled
// HELP-DAG: --dynamlir-scheduled-to-bufferized {{.*}}- One step, 06-scheduled to 07-bufferized
// HELP-DAG: --dynamlir-bufferized-to-llvm {{.*}}- One step, 07-bufferized to 08-llvm
// HELP-DAG: --dynamlir-to-functional {{.*}}- The way from 00-aten to 01-functional
// HELP-DAG: --dynamlir-to-planned {{.*}}- The way from 00-aten to 04-planned
// HELP-DAG: --dynamlir-to-llvm {{.*}}- The way from 00-aten to 08-llvm

// CHECK: dynamo.launch @kernels::@[[K:[a-z_0-9]*]](
// CHECK: llvm.func @[[K]](
// CHECK: llvm.fadd

// OPTION: no such option

func.func @main(%x: !dynamo.tensor<64xf32, [1]> {dynamo.name = "x"}) -> !dynamo.tensor<64xf32, [1]>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.aten "aten.add.Tensor"(%x, %x) args [#dynamo.operand<0>, #dynamo.operand<1>, 1] {aliases = array<i64: -1>}
    : (!dynamo.tensor<64xf32, [1]>, !dynamo.tensor<64xf32, [1]>) -> !dynamo.tensor<64xf32, [1]>
  return %0 : !dynamo.tensor<64xf32, [1]>
}
