// RUN: dynamlir-opt %s --verify-diagnostics --dynamo-test-panic
// RUN: not dynamlir-opt %s --dynamo-test-panic 2>&1 | FileCheck %s
// RUN: sh -c 'dynamlir-opt %s --dynamo-test-panic 2> /dev/null; test $? -eq 1'
// RUN: not mlir-opt --load-pass-plugin=%plugin %s --dynamo-test-panic 2>&1 | FileCheck %s --check-prefix=PLUGIN

// A panic in a pass is a diagnostic at the module, and exit code 1: nothing aborts.

// CHECK: panic.mlir:12:1: error: internal error in dynamo-test-panic: on purpose
// The plugin does not have the pass that panics.
// PLUGIN: Unknown command line argument '--dynamo-test-panic'
// expected-error @+1 {{internal error in dynamo-test-panic: on purpose}}
module {
}
