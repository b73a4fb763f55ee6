// RUN: dynamlir-opt %s -split-input-file -verify-diagnostics

// A text of another format is rejected before its operations are read: this version may not know them, or read them as something else.
// expected-error-re @+1 {{the text has format 2 and was written by dynamlir 9.0.1, but this is dynamlir {{[0-9.]+}}, which reads format 1: use that version, or write the text again with this one}}
module attributes {dynamo.format = #dynamo.format<2, "9.0.1">} {
  dynamo.in_the_future
}

// -----

// expected-error-re @+1 {{the text has format 0 and was written by dynamlir 0.0.1, but this is dynamlir {{[0-9.]+}}, which reads format 1}}
module attributes {dynamo.format = #dynamo.format<0, "0.0.1">} {
}

// -----

// expected-error @+1 {{'dynamo.format' must be a #dynamo.format of a module, got 1}}
module attributes {dynamo.format = 1} {
}

// -----

// expected-error @+1 {{'dynamo.format' must be a #dynamo.format of a module, got #dynamo.format<1, "0.1.0">}}
func.func private @f() attributes {dynamo.format = #dynamo.format<1, "0.1.0">}

// -----

// An unknown attribute is an error, which names the version that wrote it.
module attributes {dynamo.format = #dynamo.format<1, "0.0.1">} {
  // expected-error-re @+1 {{has the attribute 'dynamo.writen', which dynamlir {{[0-9.]+}} does not know; the text was written by dynamlir 0.0.1}}
  func.func private @f() attributes {dynamo.writen}
}

// -----

// A text without a format may be of any version.
// expected-error-re @+1 {{has the attribute 'dynamo.writen', which dynamlir {{[0-9.]+}} does not know; the text may be of another version}}
module attributes {dynamo.writen} {
}

// -----

// On an operation of a function's body.
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error-re @+1 {{has the attribute 'dynamo.writen', which dynamlir {{[0-9.]+}} does not know}}
  %y = dynamo.exp %x {dynamo.writen} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// On an argument.
// expected-error-re @+1 {{has the attribute 'dynamo.writen', which dynamlir {{[0-9.]+}} does not know}}
func.func private @f(tensor<4xf32> {dynamo.writen})

// -----

// On a result.
// expected-error-re @+1 {{has the attribute 'dynamo.writen', which dynamlir {{[0-9.]+}} does not know}}
func.func private @f() -> (tensor<4xf32> {dynamo.writen})

// -----

// A name of an older form: the error gives what replaced it.
// expected-error @+1 {{has 'dynamo.arg_versions', which is of an older version of dynamlir: arguments have 'dynamo.version_bumps' now}}
func.func private @f() attributes {dynamo.arg_versions = array<i64: 1>}

// -----

// expected-error @+1 {{has 'dynamo.chip', which is of an older version of dynamlir: the chip is a part of '#dynamo.target' now}}
module attributes {dynamo.chip = "sm_90"} {
}

// -----

// An unknown operation.
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error-re @+1 {{'dynamo.expo' is an operation, which dynamlir {{[0-9.]+}} does not know; the text may be of another version}}
  %y = dynamo.expo %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
