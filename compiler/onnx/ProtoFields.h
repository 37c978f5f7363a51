#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pdc {

/// Fields of messages by their numbers, for those that the classes of an installed libonnx may be too
/// old to know.

/// The elements of a repeated field of messages, as bytes.
std::vector<std::string> messagesOf(const google::protobuf::Message &message, int number);

/// The last text (or number) of a field of the message that these bytes are, as protobuf reads a field
/// that is there twice. Broken bytes have no fields.
std::string stringOf(const std::string &message, int number);
std::optional<int64_t> integerOf(const std::string &message, int number);

/// Changes a message by its fields.
void editFields(google::protobuf::Message &message,
                const std::function<void(google::protobuf::UnknownFieldSet &)> &edit);

} // namespace pdc
