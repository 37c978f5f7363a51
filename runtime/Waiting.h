#pragma once

#include "runtime/Control.h"
#include "runtime/Transport.h"

#include <atomic>
#include <string_view>

namespace pdc::runtime {

/// Posts messages as one group.
void post(Transport &transport, std::span<Message> messages);

/// Waits for posted messages: never longer than the timeout, never after a failure, and not when
/// `stopping` is set. `who` waits for a peer in errors: ", a replica of stage 1".
void await(Transport &transport, Control &control, std::span<const Message> messages,
           Seconds timeout, std::string_view who, const std::atomic<bool> *stopping = nullptr);

/// Posts messages and waits for them.
void meet(Transport &transport, Control &control, std::span<Message> messages, Seconds timeout,
          std::string_view who);

} // namespace pdc::runtime
