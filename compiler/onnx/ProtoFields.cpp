#include "compiler/onnx/ProtoFields.h"

namespace pdc {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

std::vector<std::string> messagesOf(const google::protobuf::Message &message, int number) {
  std::vector<std::string> found;
  if (const auto *field = message.GetDescriptor()->FindFieldByNumber(number)) {
    const auto *reflection = message.GetReflection();
    for (int i = 0; i < reflection->FieldSize(message, field); ++i)
      found.push_back(reflection->GetRepeatedMessage(message, field, i).SerializePartialAsString());
    return found;
  }
  const UnknownFieldSet &fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i)
    if (fields.field(i).number() == number &&
        fields.field(i).type() == UnknownField::TYPE_LENGTH_DELIMITED)
      found.push_back(fields.field(i).length_delimited());
  return found;
}

/// Of the fields with that number and kind the last one.
static std::optional<UnknownField> lastField(const UnknownFieldSet &fields, int number,
                                             UnknownField::Type type) {
  for (int i = fields.field_count() - 1; i >= 0; --i)
    if (fields.field(i).number() == number && fields.field(i).type() == type)
      return fields.field(i);
  return std::nullopt;
}

std::string stringOf(const std::string &message, int number) {
  UnknownFieldSet fields;
  if (!fields.ParseFromString(message))
    return "";
  auto found = lastField(fields, number, UnknownField::TYPE_LENGTH_DELIMITED);
  return found ? found->length_delimited() : "";
}

std::optional<int64_t> integerOf(const std::string &message, int number) {
  UnknownFieldSet fields;
  if (!fields.ParseFromString(message))
    return std::nullopt;
  auto found = lastField(fields, number, UnknownField::TYPE_VARINT);
  return found ? std::optional(static_cast<int64_t>(found->varint())) : std::nullopt;
}

void editFields(google::protobuf::Message &message,
                const std::function<void(UnknownFieldSet &)> &edit) {
  UnknownFieldSet fields;
  fields.ParseFromString(message.SerializePartialAsString());
  edit(fields);
  std::string bytes;
  fields.SerializeToString(&bytes);
  message.ParsePartialFromString(bytes);
}

} // namespace pdc
