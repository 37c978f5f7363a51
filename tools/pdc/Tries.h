#pragma once

#include "compiler/Error.h"

#include <functional>
#include <string>

namespace pdc {

/// Of several tries any may be refused; where all are, the first refusal says why.
class Tries {
public:
  /// False where it was refused.
  bool make(const std::function<void()> &attempt) {
    try {
      attempt();
      return true;
    } catch (const Error &error) {
      refusal = refusal.empty() ? error.what() : refusal;
      return false;
    }
  }
  void throwRefusal() const {
    if (!refusal.empty())
      throw Error(refusal);
  }

private:
  std::string refusal;
};

} // namespace pdc
