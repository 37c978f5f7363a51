#include "runtime/Dataset.h"

#include "runtime/Error.h"
#include "runtime/NamedNumbers.h"
#include "runtime/ShapeText.h"
#include "runtime/SmallFloats.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

namespace pdc::runtime {

DataSpec parseDataSpec(const std::string &text) {
  DataSpec spec;
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error("found '", text, "', expected INPUT=FILE[,mean=M][,std=S]");
  spec.input = text.substr(0, equals);
  spec.file = text.substr(equals + 1);
  // A file name may hold commas: only what looks like a field is one.
  while (true) {
    size_t comma = spec.file.rfind(',');
    std::string field = comma == std::string::npos ? "" : spec.file.substr(comma + 1);
    bool mean = field.starts_with("mean="), deviation = field.starts_with("std=");
    if (!mean && !deviation)
      return spec;
    const char *begin = field.data() + field.find('=') + 1, *end = field.data() + field.size();
    float value = 0;
    auto [stop, problem] = std::from_chars(begin, end, value);
    if (problem != std::errc() || stop != end || !std::isfinite(value) || (deviation && value <= 0))
      throw Error("found '", text, "', expected in '", field, "' a finite number",
                  deviation ? " above 0" : "");
    (mean ? spec.mean : spec.deviation) = value;
    spec.file.resize(comma);
  }
}

static uint64_t mix(uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

/// A Feistel network permutes the next larger power of four; positions that leave 0..samples-1 are
/// sent through it again.
int64_t shuffled(uint64_t seed, int64_t epoch, int64_t samples, int64_t position) {
  int half = (std::bit_width(uint64_t(samples > 1 ? samples - 1 : 1)) + 1) / 2;
  uint64_t mask = (uint64_t(1) << half) - 1, key = mix(mix(seed) ^ uint64_t(epoch));
  uint64_t value = uint64_t(position);
  do {
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      uint64_t next = left ^ (mix(key ^ (round << 56) ^ right) & mask);
      left = right;
      right = next;
    }
    value = left << half | right;
  } while (value >= uint64_t(samples));
  return int64_t(value);
}

template <class T> static T load(const std::byte *from, bool bigEndian) {
  std::byte bytes[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes[i] = from[bigEndian ? sizeof(T) - 1 - i : i];
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

static float scaledValue(float value, float unit, bool scaled, float mean, float deviation) {
  if (unit != 1)
    value /= unit;
  return scaled ? (value - mean) / deviation : value;
}

/// Numbers in the machine's own order that nothing scales: a loop that compilers turn into vector
/// code. Returns the first element that is no number, or -1.
template <class From>
static int64_t copyNumbers(const std::byte *from, float *to, int64_t elements) {
  int nan = 0;
  for (int64_t i = 0; i < elements; ++i) {
    From value;
    std::memcpy(&value, from + i * int64_t(sizeof(From)), sizeof(From));
    to[i] = float(value);
    nan |= to[i] != to[i];
  }
  if (!nan)
    return -1;
  return std::find_if(to, to + elements, [](float value) { return std::isnan(value); }) - to;
}

template <class From> Dataset::Convert Dataset::conversionFrom(ElementType to) {
  if (to == ElementType::f32 && sizeof(From) == 1 && std::is_unsigned_v<From>)
    return [](const Source &source, const std::byte *from, std::byte *to, int64_t elements) {
      auto *target = reinterpret_cast<float *>(to);
      for (int64_t i = 0; i < elements; ++i)
        target[i] = source.byteValues[size_t(from[i])];
      return int64_t(-1);
    };
  if (to == ElementType::f32)
    return [](const Source &source, const std::byte *from, std::byte *to, int64_t elements) {
      auto *target = reinterpret_cast<float *>(to);
      if (!source.data.tensor.bigEndian && !source.scaled && source.unit == 1)
        return copyNumbers<From>(from, target, elements);
      int nan = 0;
      for (int64_t i = 0; i < elements; ++i) {
        float value = float(load<From>(from + i * sizeof(From), source.data.tensor.bigEndian));
        target[i] = scaledValue(value, source.unit, source.scaled, source.mean, source.deviation);
        nan |= value != value;
      }
      return nan ? std::find_if(target, target + elements,
                                [](float value) { return std::isnan(value); }) -
                       target
                 : int64_t(-1);
    };
  if constexpr (std::is_integral_v<From>) {
    auto integers = []<class To>(To) -> Convert {
      return [](const Source &source, const std::byte *from, std::byte *to, int64_t elements) {
        auto *target = reinterpret_cast<To *>(to);
        for (int64_t i = 0; i < elements; ++i) {
          From value = load<From>(from + i * sizeof(From), source.data.tensor.bigEndian);
          if (!std::in_range<To>(value))
            return i;
          target[i] = To(value);
        }
        return int64_t(-1);
      };
    };
    if (to == ElementType::i64)
      return integers(int64_t());
    if (to == ElementType::i32)
      return integers(int32_t());
    if (to == ElementType::u8)
      return integers(uint8_t());
  }
  return nullptr;
}

Dataset::Convert Dataset::conversion(Scalar from, ElementType to) {
  switch (from) {
  case Scalar::flag:
  case Scalar::u8:
    return conversionFrom<uint8_t>(to);
  case Scalar::i8:
    return conversionFrom<int8_t>(to);
  case Scalar::i16:
    return conversionFrom<int16_t>(to);
  case Scalar::i32:
    return conversionFrom<int32_t>(to);
  case Scalar::i64:
    return conversionFrom<int64_t>(to);
  case Scalar::f32:
    return conversionFrom<float>(to);
  case Scalar::f64:
    return conversionFrom<double>(to);
  case Scalar::f16:
    return conversionFrom<Float16>(to);
  case Scalar::bf16:
    return conversionFrom<BFloat16>(to);
  }
  return nullptr;
}

bool isGiven(const Memory &memory) {
  return memory.role == Role::input && !std::string_view(memory.name).starts_with("pdc.");
}

Dataset::Dataset(const Program &program, const std::vector<DataSpec> &specs, bool evaluation,
                 Control &control)
    : program(program), evaluation(evaluation) {
  auto openIn = [&](int region) {
    for (const Memory &memory : program.memories) {
      bool known = false;
      for (const Source &source : sources)
        known = known || std::strcmp(source.memory->name, memory.name) == 0;
      if (isGiven(memory) && memory.place.region == region && !known)
        open(memory, specs);
    }
  };
  for (const StageInfo &stage : program.stages) {
    size_t before = sources.size();
    if (evaluation)
      openIn(stage.evaluationRegion);
    if (sources.size() == before)
      openIn(stage.slotRegion);
  }
  // An evaluation's are those of training.
  if (!evaluation)
    for (const Memory &memory : program.memories)
      if (isShared(memory))
        open(memory, specs);
  agree(specs, control);
}

bool Dataset::isShared(const Memory &memory) const {
  auto isOfMicrobatches = [&](const StageInfo &stage) {
    return memory.place.region == stage.slotRegion || memory.place.region == stage.evaluationRegion;
  };
  return isGiven(memory) && std::ranges::none_of(program.stages, isOfMicrobatches);
}

void Dataset::open(const Memory &memory, const std::vector<DataSpec> &specs) {
  const char *option = evaluation ? "--eval-data" : "--data";
  const DataSpec *spec = nullptr;
  for (const DataSpec &candidate : specs)
    if (candidate.input == memory.name)
      spec = &candidate;
  std::vector<int64_t> wanted(memory.shape.begin(), memory.shape.end());
  if (!spec)
    throw Error("input '", memory.name, "' ", shapeText(wanted), " has no data",
                othersWithout(specs, memory.name), "; give ", option, " ", memory.name, "=FILE");
  Source source{&memory,
                openData(spec->file, spec->input),
                nullptr,
                isShared(memory),
                1,
                false,
                1,
                spec->mean,
                spec->deviation,
                {}};
  requireShape(source);
  const TensorView &tensor = source.data.tensor;
  if (memory.element == ElementType::f16 || memory.element == ElementType::bf16)
    throw Error("input '", memory.name, "' ", shapeText(wanted),
                " is stored in 16-bit floating point, which no data are converted to; run pdc "
                "again with --precision fp32");
  source.convert = conversion(tensor.type, memory.element);
  if (!source.convert)
    throw Error(spec->file, ": holds floating-point numbers and input '", memory.name,
                "' takes integers");
  source.scaled = spec->mean != 0 || spec->deviation != 1;
  source.unit = tensor.type == Scalar::u8 && memory.element == ElementType::f32 ? 255 : 1;
  for (int byte = 0; byte < 256; ++byte)
    source.byteValues.push_back(scaledValue(tensor.type == Scalar::flag ? byte != 0 : float(byte),
                                            source.unit, source.scaled, source.mean,
                                            source.deviation));
  source.elements = elementCount(wanted) / (source.shared ? 1 : program.microbatchSize);
  sources.push_back(std::move(source));
}

/// Which samples of a microbatch are no padding, for losses that ignore no label.
static bool saysWhatIsPresent(const Memory &memory) {
  return std::strcmp(memory.name, "pdc.present_samples") == 0;
}

/// A padded sample is given the ignored label, which the program says.
static bool isLabel(const Memory &memory) { return memory.initial == Initial::fill; }

void Dataset::agree(const std::vector<DataSpec> &specs, Control &control) {
  const char *option = evaluation ? "--eval-data" : "--data";
  // Behind the letter that says whether it is labels or shared, each input's name.
  std::string mine;
  for (const Source &source : sources)
    if (!source.shared)
      mine += namedNumber((isLabel(*source.memory) ? "l" : "d") + std::string(source.memory->name),
                          source.data.tensor.shape[0]);
  for (const Memory &memory : program.memories)
    if (isShared(memory))
      mine += namedNumber("s" + std::string(memory.name), 0);
  std::vector<std::string> all, names;
  std::set<std::string> shared;
  control.gather(mine, all);
  double masking = std::ranges::count_if(program.memories, saysWhatIsPresent);
  control.sum({&masking, 1});
  bool labelled = masking > 0;
  for (int rank = 0; rank < int(all.size()); ++rank)
    for (const auto &[told, here] : namedNumbers(all[rank], rank)) {
      std::string name = told.substr(1);
      if (told.starts_with("s")) {
        shared.insert(name);
        continue;
      }
      if (!names.empty() && here != count)
        throw Error(option, ": '", names[0], "' has ", count, " samples and '", name, "' has ",
                    here, "; give each input the same number of samples");
      count = here;
      if (std::ranges::count(names, name) == 0)
        names.push_back(name);
      labelled = labelled || told.starts_with("l");
    }
  requireInputs(specs, names, shared);
  perEpoch = count / program.microbatchSize;
  // Without a label that the loss ignores, or an input that says so, each sample counts.
  if (evaluation && labelled)
    perEpoch = (count + program.microbatchSize - 1) / program.microbatchSize;
  if (perEpoch == 0 && !names.empty())
    throw Error(option, ": the files hold ", count,
                " samples, expected at least one microbatch of ", program.microbatchSize,
                "; give more data or plan smaller microbatches");
}

std::string Dataset::describe(int64_t microbatch) const {
  if (perEpoch == 0)
    return Inputs::describe(microbatch);
  int64_t stream = first + microbatch;
  return "microbatch " + std::to_string(stream % perEpoch) + " of " + std::to_string(perEpoch) +
         " of epoch " + std::to_string(stream / perEpoch);
}

int64_t Dataset::sampleAt(int64_t microbatch, int64_t index) const {
  int64_t stream = first + microbatch;
  int64_t epoch = perEpoch > 0 ? stream / perEpoch : 0;
  int64_t position = (stream - epoch * perEpoch) * program.microbatchSize + index;
  // An epoch of one microbatch has the same samples in any order; what all share, as the edges of a
  // graph, may name their places.
  const bool isWhole = count == program.microbatchSize;
  if (evaluation || !shuffle || count == 0 || isWhole)
    return position;
  return shuffled(seed, epoch, count, position);
}

/// In pieces, so that a large sample, or what all share, is not in memory twice.
void Dataset::read(const Source &source, int64_t sample, std::byte *to) {
  constexpr int64_t kMostElements = 1 << 18;
  const int64_t each = scalarBytes(source.data.tensor.type);
  for (int64_t first = 0; first < source.elements; first += kMostElements) {
    const int64_t elements = std::min(kMostElements, source.elements - first);
    const std::byte *place = source.data.tensor.data + (sample * source.elements + first) * each;
    const std::byte *from = source.data.file->read(place, size_t(elements * each), sampleBytes);
    const int64_t refused =
        source.convert(source, from, to + first * elementBytes(source.memory->element), elements);
    if (refused >= 0)
      refuse(source, sample, first + refused);
  }
}

void Dataset::loadShared(const Executor &executor) {
  for (const Source &source : sources)
    if (source.shared)
      executor.memory().put(executor.newest(*source.memory), source.memory->bytes,
                            [&](std::byte *to) { read(source, 0, to); });
}

void Dataset::fill(const Memory &memory, std::byte *to, int64_t microbatch) {
  for (const Source &source : sources) {
    if (std::strcmp(source.memory->name, memory.name) != 0)
      continue;
    int64_t stride = source.elements * elementBytes(memory.element);
    for (int64_t i = 0; i < program.microbatchSize; ++i) {
      int64_t sample = sampleAt(microbatch, i);
      if (sample >= count) {
        pad(source, to + i * stride);
        continue;
      }
      read(source, sample, to + i * stride);
    }
    return;
  }
  if (std::strcmp(memory.name, "pdc.random") == 0)
    fillRandom(memory, to, microbatch);
  if (saysWhatIsPresent(memory))
    for (int64_t i = 0; i < program.microbatchSize; ++i)
      reinterpret_cast<int64_t *>(to)[i] = sampleAt(microbatch, i) < count;
}

int64_t Dataset::heldBytes() const {
  int64_t bytes = 0;
  for (const Source &source : sources)
    bytes += source.data.file->heldBytes();
  return bytes;
}


/// Labels of a padded sample are the one that the loss ignores; others hold zeros.
void Dataset::pad(const Source &source, std::byte *to) const {
  const Memory &memory = *source.memory;
  std::memset(to, 0, size_t(source.elements * elementBytes(memory.element)));
  for (int64_t i = 0; isLabel(memory) && i < source.elements; ++i)
    if (memory.element == ElementType::i64)
      reinterpret_cast<int64_t *>(to)[i] = int64_t(memory.fill);
    else if (memory.element == ElementType::i32)
      reinterpret_cast<int32_t *>(to)[i] = int32_t(memory.fill);
}

/// i64[2 + N]: seed, step, then the number of each sample in its file.
void Dataset::fillRandom(const Memory &memory, std::byte *to, int64_t microbatch) {
  auto *values = reinterpret_cast<int64_t *>(to);
  values[0] = int64_t(seed);
  values[1] = firstStep + (program.asynchronous ? microbatch / program.microbatches : 0);
  for (int64_t i = 0; i + 2 < memory.shape[0]; ++i)
    values[2 + i] = sampleAt(microbatch, i);
}

} // namespace pdc::runtime
