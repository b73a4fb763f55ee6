//===- Dynamo.td - All definitions of the dialect ---------*- tablegen -*-===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

include "dynamo/DynamoPrims.td"
include "dynamo/DynamoOps.td"
