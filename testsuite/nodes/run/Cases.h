#pragma once

#include "runtime/Program.h"

#include <span>

/// A test's name and its program.
struct Case {
  const char *name;
  pdc::runtime::Programs (*programs)();
};

/// Adds a batch to what is run.
bool addCases(std::span<const Case> cases);
