//===- OlderLibc.cpp - Functions that older C libraries lack --------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM's archives are linked into the wheel as a distribution built them, with
// the newest functions of its libc. This file defines the one function that is
// newer than the others (glibc 2.36, while the others exist since 2.34), so
// that the wheel runs on systems that are years older.
//
//===----------------------------------------------------------------------===//

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <sys/random.h>

/// A random number, for the names of temporary files. Only our own extension uses it.
extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  // The fallback if the kernel refuses.
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint32_t number = now.tv_nsec;
  while (getrandom(&number, sizeof number, 0) < 0 && errno == EINTR) {
  }
  return number;
}
