#pragma once

#include "compiler/Error.h"

#include <functional>
#include <string>

namespace pdc {

/// Of several tries any may be refused; where all are, the first refusal says why. It is one of
/// memory where any of them was.
class Tries {
public:
  /// False where it was refused.
  bool make(const std::function<void()> &attempt) {
    try {
      attempt();
      return true;
    } catch (const MemoryError &error) {
      keep(error);
      lacksMemory = true;
    } catch (const Error &error) {
      keep(error);
    }
    return false;
  }
  void throwRefusal() const {
    if (lacksMemory)
      throw MemoryError(refusal);
    if (!refusal.empty())
      throw Error(refusal);
  }

private:
  void keep(const Error &error) { refusal = refusal.empty() ? error.what() : refusal; }

  std::string refusal;
  bool lacksMemory = false;
};

} // namespace pdc
