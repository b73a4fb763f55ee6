//===- PassTimes.cpp - The time that each pass of a pipeline takes --------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's own timing prints to stderr at process exit; a compilation's report
// needs numbers. This instrumentation passes each pass's name and seconds to a
// callback, for pass managers of contexts without threads.
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "mlir/CAPI/Pass.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"

#include <chrono>
#include <vector>

using namespace mlir;

namespace {
using Clock = std::chrono::steady_clock;

class PassTimes : public PassInstrumentation {
public:
  PassTimes(DynamoPassTimeCallback note, void *userData) : note(note), userData(userData) {}

  void runBeforePass(Pass *, Operation *) final { started.push_back(Clock::now()); }
  void runAfterPass(Pass *pass, Operation *) final { finish(pass); }
  void runAfterPassFailed(Pass *pass, Operation *) final { finish(pass); }

private:
  /// A pass that only runs others on nested operations has no argument: only those others are counted.
  void finish(Pass *pass) {
    std::chrono::duration<double> seconds = Clock::now() - started.back();
    started.pop_back();
    if (!pass->getArgument().empty())
      note(wrap(pass->getArgument()), seconds.count(), userData);
  }

  DynamoPassTimeCallback note;
  void *userData;
  std::vector<Clock::time_point> started;
};
} // namespace

void dynamoPassManagerNoteTimes(MlirPassManager manager, DynamoPassTimeCallback note, void *userData) {
  unwrap(manager)->addInstrumentation(std::make_unique<PassTimes>(note, userData));
}
