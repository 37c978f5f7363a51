#include "runtime/Dataset.h"

#include "runtime/Error.h"
#include "runtime/ShapeText.h"

#include <algorithm>
#include <cstring>
#include <iterator>
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
    if (isGiven(memory) && memory.name != name &&
        std::ranges::find(specs, memory.name, &DataSpec::input) == specs.end())
      names.insert(memory.name);
  std::string text;
  for (const std::string &other : names)
    text += (text.empty() ? ", nor have '" : ", '") + other + "'";
  return text;
}

static std::vector<int64_t> withoutOnes(std::span<const int64_t> shape) {
  std::vector<int64_t> kept;
  std::ranges::copy_if(shape, std::back_inserter(kept), [](int64_t size) { return size != 1; });
  return kept;
}

void Dataset::requireShape(const Source &source) const {
  const std::string &path = source.data.file->path();
  const std::span<const int64_t> found = source.data.tensor.shape, wanted = source.memory->shape;
  if (source.shared) {
    if (withoutOnes(found) != withoutOnes(wanted))
      throw Error(path, ": holds ", shapeText(found), " and input '", source.memory->name,
                  "', which is the same for all samples, takes ", shapeText(wanted),
                  "; only dimensions of size 1 may differ");
    return;
  }
  if (found.empty())
    throw Error(path, ": holds one number; expected a tensor whose first dimension counts samples");
  if (withoutOnes(found.subspan(1)) != withoutOnes(wanted.subspan(1)))
    throw Error(path, ": holds samples in ", shapeText(found), " and input '", source.memory->name,
                "' takes ", shapeText(wanted),
                "; only dimensions of size 1 may differ behind the first");
}

/// Each of the specs names one.
void Dataset::requireInputs(const std::vector<DataSpec> &specs, const std::vector<InputRows> &rows,
                            const std::set<std::string> &shared) const {
  for (const DataSpec &spec : specs) {
    if (std::ranges::count(rows, spec.input, &InputRows::input) ||
        (!evaluation && shared.contains(spec.input)))
      continue;
    if (shared.contains(spec.input))
      throw Error(option(), " ", spec.input, "=", spec.file, ": input '", spec.input,
                  "' is the same for all samples, and --data gives it; leave it out here");
    std::set<std::string> names;
    for (const InputRows &input : rows)
      names.insert(input.input);
    std::string list;
    for (const std::string &name : names)
      list += " " + name;
    for (const std::string &name : shared)
      list += evaluation ? "" : " " + name;
    throw Error(option(), " ", spec.input, "=", spec.file, ": the model has no input '", spec.input,
                "', or nothing reads it; its inputs are", list);
  }
}

std::string Dataset::place(const Source &source, int64_t sample) {
  const std::string of =
      source.shared ? "" : "sample " + std::to_string(sample) + " (counted from 0) of ";
  return source.data.file->path() + ": " + of + "input '" + source.memory->name + "'";
}

/// Labels are whole numbers, and what is computed from scaled ones would be none.
void Dataset::requireType(const Source &source) const {
  const Memory &memory = *source.memory;
  const std::string input = std::string("input '") + memory.name + "'";
  if (memory.element == ElementType::f16 || memory.element == ElementType::bf16)
    throw Error(input, " ", shapeText({memory.shape.begin(), memory.shape.end()}),
                " is stored in 16-bit floating point, which no data are converted to; run pdc "
                "again with --precision fp32");
  if (memory.element == ElementType::f32)
    return;
  if (!conversion(source.data.tensor.type, memory.element))
    throw Error(source.data.file->path(), ": holds floating-point numbers and ", input,
                " takes integers");
  if (source.scaled)
    throw Error(option(), " ", memory.name, "=", source.data.file->path(), ": ", input,
                " takes integers, which mean= and std= do not scale; leave them out");
}

/// `value`: that element in the file.
void Dataset::refuse(const Source &source, int64_t element, const std::byte *value) const {
  const bool isFloat = source.memory->element == ElementType::f32;
  const std::string number = numberText(source.data.tensor, value);
  throw Error(place(source, element / source.elements), " holds at element ",
              element % source.elements, " ", number, ", ",
              !isFloat          ? "a number that the input's type cannot hold"
              : number == "nan" ? "expected a number"
                                : "which is none of f32",
              !isFloat || !source.scaled || number == "nan" ? "" : " once mean= and std= scale it",
              "; correct the file");
}

/// Of a source, those that a kernel may have refused.
std::vector<int64_t> Dataset::samplesRead(const Source &source, int64_t microbatch,
                                          const DataError &error) const {
  if (source.shared)
    return {0};
  const int64_t size = microbatch < 0 ? 0 : program.microbatchSize,
                begin = error.parts ? error.part * size / error.parts : 0,
                end = error.parts ? std::min(begin + 1, size) : size;
  std::vector<int64_t> samples;
  for (int64_t i = begin; i < end; ++i)
    if (const int64_t sample = sampleAt(microbatch, i); sample < count)
      samples.push_back(sample);
  return samples;
}

/// A kernel knows the value and at most its place, not the input: it is one of those that hold the
/// value there.
std::string Dataset::locate(int64_t microbatch, const DataError &error) const {
  std::ostringstream text;
  const char *before = "";
  for (const Source &source : sources) {
    if (source.memory->element == ElementType::f32)
      continue;
    const std::vector<int64_t> samples = samplesRead(source, microbatch, error);
    auto holdsValue = [&](int64_t sample) { return holds(source, sample, error.value); };
    if (auto sample = std::ranges::find_if(samples, holdsValue); sample != samples.end())
      text << std::exchange(before, ", or ") << place(source, *sample);
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
  const int64_t stride = source.elements * scalarBytes(source.data.tensor.type);
  std::vector<std::byte> bytes(size_t(source.elements * elementBytes(element))), buffer;
  const std::byte *from =
      source.data.file->read(source.data.tensor.data + sample * stride, size_t(stride), buffer);
  source.convert(source, from, bytes.data(), source.elements);
  for (int64_t i = 0; i < source.elements; ++i)
    if (integerAt(bytes.data(), element, i) == value)
      return true;
  return false;
}

} // namespace pdc::runtime
