#include "runtime/Dataset.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>
#include <utility>

/// What is said of data that cannot be used: file, sample, input and number.
namespace pdc::runtime {

static int64_t integerAt(const std::byte *values, ElementType type, int64_t index) {
  if (type == ElementType::i64)
    return reinterpret_cast<const int64_t *>(values)[index];
  if (type == ElementType::i32)
    return reinterpret_cast<const int32_t *>(values)[index];
  return std::to_integer<int64_t>(values[index]);
}

/// As in ", nor have 'b', 'c'"; empty where there are none.
std::string Dataset::othersWithout(const std::vector<DataSpec> &specs,
                                   const std::string &name) const {
  std::set<std::string> names;
  for (const Memory &memory : program.memories)
    if (memory.role == Role::input && std::strncmp(memory.name, "pdc.", 4) != 0 &&
        memory.name != name &&
        std::ranges::find(specs, memory.name, &DataSpec::input) == specs.end())
      names.insert(memory.name);
  std::string text;
  for (const std::string &other : names)
    text += (text.empty() ? ", nor have '" : ", '") + other + "'";
  return text;
}

void Dataset::refuse(const Source &source, int64_t sample, int64_t element) const {
  bool isFloat = source.memory->element == ElementType::f32;
  throw Error(source.data.file->path(), ": sample ", sample, " (counted from 0) of input '",
              source.memory->name, "' holds at element ", element,
              isFloat ? " nan, expected a number" : " a number that the input's type cannot hold",
              "; correct the file");
}

/// A kernel knows the value and at most its place, not the input: it is one of those that hold the
/// value there.
std::string Dataset::locate(int64_t microbatch, const DataError &error) const {
  const int64_t size = program.microbatchSize,
                begin = error.parts ? error.part * size / error.parts : 0,
                end = error.parts ? begin + 1 : size;
  std::ostringstream text;
  const char *before = "";
  for (const Source &source : sources)
    for (int64_t i = begin; i < end; ++i) {
      const int64_t sample = sampleAt(microbatch, i);
      if (source.memory->element == ElementType::f32 || sample >= count ||
          !holds(source, sample, error.value))
        continue;
      text << std::exchange(before, ", or ") << source.data.file->path() << ": sample " << sample
           << " (counted from 0) of input '" << source.memory->name << "'";
      break;
    }
  const bool isFound = *before;
  text << (isFound ? "" : "what is computed from the data") << " holds " << error.value
       << ", expected " << error.expected;
  // A kernel without a place has an index that is computed, perhaps from this.
  if (isFound)
    text << (error.parts ? "; " : " where it is one; ") << error.remedy;
  else
    text << "; check the data of whole numbers";
  return text.str();
}

bool Dataset::holds(const Source &source, int64_t sample, int64_t value) const {
  const ElementType element = source.memory->element;
  std::vector<std::byte> bytes(size_t(source.elements * elementBytes(element)));
  source.convert(source,
                 source.data.tensor.data +
                     sample * source.elements * scalarBytes(source.data.tensor.type),
                 bytes.data());
  for (int64_t i = 0; i < source.elements; ++i)
    if (integerAt(bytes.data(), element, i) == value)
      return true;
  return false;
}

} // namespace pdc::runtime
