#pragma once

#include "compiler/Error.h"

#include <string>

namespace pdc {

/// What a call is refused with; "accepted" where it is not.
template <class Call> std::string refusal(const Call &call) {
  try {
    call();
  } catch (const Error &error) {
    return error.what();
  }
  return "accepted";
}

} // namespace pdc
