#pragma once

#include "compiler/Error.h"

#include <exception>
#include <functional>

namespace pdc {

/// Of several tries any may be refused; where all are, the first refusal says why.
class Tries {
public:
  /// False where it was refused.
  bool make(const std::function<void()> &attempt) {
    try {
      attempt();
      return true;
    } catch (const Error &) {
      refusal = refusal ? refusal : std::current_exception();
      return false;
    }
  }
  void throwRefusal() const {
    if (refusal)
      std::rethrow_exception(refusal);
  }

private:
  std::exception_ptr refusal;
};

} // namespace pdc
