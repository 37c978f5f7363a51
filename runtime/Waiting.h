#pragma once

#include "runtime/Control.h"
#include "runtime/Transport.h"

#include <atomic>
#include <string_view>

namespace pdc::runtime {

/// Posts messages and waits for them: never longer than the timeout, never after a failure, and not
/// when `stopping` is set. `who` waits for a peer in errors: ", a replica of stage 1".
void meet(Transport &transport, Control &control, std::span<Message> messages, Seconds timeout,
          std::string_view who, const std::atomic<bool> *stopping = nullptr);

} // namespace pdc::runtime
