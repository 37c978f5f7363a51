#include "runtime/Dataset.h"

#include "runtime/Error.h"
#include "runtime/NamedNumbers.h"
#include "runtime/ShapeText.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

namespace pdc::runtime {

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
  if (!evaluation)
    gatherFiles(control);
}

static std::vector<int64_t> shapeOf(const Memory &memory) {
  return {memory.shape.begin(), memory.shape.end()};
}

bool Dataset::isShared(const Memory &memory) const {
  auto isOfMicrobatches = [&](const StageInfo &stage) {
    return memory.place.region == stage.slotRegion || memory.place.region == stage.evaluationRegion;
  };
  return isGiven(memory) && std::ranges::none_of(program.stages, isOfMicrobatches);
}

void Dataset::open(const Memory &memory, const std::vector<DataSpec> &specs) {
  const DataSpec *spec = nullptr;
  for (const DataSpec &candidate : specs)
    if (candidate.input == memory.name)
      spec = &candidate;
  if (!spec)
    throw Error("input '", memory.name, "' ", shapeText(shapeOf(memory)), " has no data",
                othersWithout(specs, memory.name), "; give ", option(), " ", memory.name, "=FILE");
  const bool shared = isShared(memory);
  Source source{.memory = &memory,
                .data = openFile(*spec, memory),
                .convert = nullptr,
                .shared = shared,
                .bare = spec->type.has_value(),
                .elements = elementCount(shapeOf(memory)) / (shared ? 1 : program.microbatchSize),
                .scaled = spec->scales,
                .mean = spec->mean,
                .deviation = spec->deviation};
  requireShape(source);
  requireType(source);
  source.convert = conversion(source.data.tensor.type, memory.element);
  source.unit =
      source.data.tensor.type == Scalar::u8 && memory.element == ElementType::f32 ? 255 : 1;
  fillByteValues(source);
  // One call for each of many small samples takes longer than what is done with them.
  constexpr int64_t kSmallSample = 512, kMostHeld = int64_t(1) << 26;
  TensorView &tensor = source.data.tensor;
  const bool isSmall = source.elements * scalarBytes(tensor.type) <= kSmallSample;
  if (isSmall && tensor.bytes <= kMostHeld - heldBytes()) // of all inputs together
    tensor.data = source.data.file->keep(tensor.data, size_t(tensor.bytes));
  sources.push_back(std::move(source));
}

DataFile Dataset::openFile(const DataSpec &spec, const Memory &memory) const {
  if (!spec.type)
    return openData(spec.file, spec.input);
  std::vector<int64_t> shape = shapeOf(memory);
  // Of what all samples share a file holds one.
  shape.insert(shape.begin(), 1);
  if (!isShared(memory))
    shape.erase(shape.begin() + 1);
  return openNumbers(spec.file, *spec.type, spec.skipped, shape);
}

/// Which samples of a microbatch are no padding, for losses that ignore no label.
static bool saysWhatIsPresent(const Memory &memory) {
  return std::strcmp(memory.name, "pdc.present_samples") == 0;
}

/// A padded sample is given the ignored label, which the program says.
static bool isLabel(const Memory &memory) { return memory.initial == Initial::fill; }

void Dataset::agree(const std::vector<DataSpec> &specs, Control &control) {
  // Behind letters that say whether it is labels or shared, and of bare numbers, each input's name.
  std::string mine;
  for (const Source &source : sources)
    if (!source.shared)
      mine += namedNumber(std::string(isLabel(*source.memory) ? "l" : "d") +
                              (source.bare ? "b" : "f") + source.memory->name,
                          source.data.tensor.shape[0]);
  for (const Memory &memory : program.memories)
    if (isShared(memory))
      mine += namedNumber("s " + std::string(memory.name), 0);
  std::vector<std::string> all;
  std::vector<InputRows> rows;
  std::set<std::string> shared;
  control.gather(mine, all);
  double masking = std::ranges::count_if(program.memories, saysWhatIsPresent);
  control.sum({&masking, 1});
  saysPresence = masking > 0;
  bool labelled = saysPresence;
  for (int rank = 0; rank < int(all.size()); ++rank)
    for (const auto &[told, here] : namedNumbers(all[rank], rank)) {
      const std::string name = told.substr(2);
      if (told[0] == 's')
        shared.insert(name);
      else
        rows.push_back({name, here, told[1] == 'b'});
      labelled = labelled || told[0] == 'l';
    }
  count = samplesOf(rows);
  requireInputs(specs, rows, shared);
  perEpoch = count / program.microbatchSize;
  // Without a label that the loss ignores, or an input that says so, each sample counts.
  if (evaluation && labelled)
    perEpoch = (count + program.microbatchSize - 1) / program.microbatchSize;
  if (perEpoch == 0 && !rows.empty())
    throw Error(option(), ": the files hold ", count,
                " samples, expected at least one microbatch of ", program.microbatchSize,
                "; give more data or plan smaller microbatches");
}

void Dataset::gatherFiles(Control &control) {
  std::map<std::string, int64_t> mine;
  for (const Source &source : sources)
    mine[source.memory->name] = fingerprintOf(source.data.file->path());
  fingerprints = gatherAlike(control, mine, [&](const std::string &input, int one, int other) {
    throw Error(option(), ": ranks ", one, " and ", other, " have read different files for input '",
                input, "'; give all ranks copies of the same file");
  });
}

/// What all inputs have. Bare numbers, of which labels are the ones behind, may end in a row that
/// others have not.
int64_t Dataset::samplesOf(const std::vector<InputRows> &rows) const {
  if (rows.empty())
    return 0;
  const InputRows &least = *std::ranges::min_element(rows, {}, &InputRows::count);
  for (const InputRows &other : rows)
    if (other.count > least.count + (other.bare ? 1 : 0))
      throw Error(option(), ": '", least.input, "' has ", least.count, " samples and '",
                  other.input, "' has ", other.count,
                  "; give each input the same number of samples");
  return least.count;
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

/// In pieces, so that what is read is not in memory twice.
void Dataset::read(const Source &source, int64_t sample, int64_t samples, std::byte *to) {
  constexpr int64_t kMostBytes = 1 << 15;
  const TensorView &tensor = source.data.tensor;
  const int64_t each = scalarBytes(tensor.type), made = elementBytes(source.memory->element),
                begin = sample * source.elements, end = begin + samples * source.elements;
  // Numbers of as many bytes are converted where they are read to; none of these is refused that
  // changes.
  const bool isInPlace = each == made && !tensor.bigEndian && !source.scaled;
  for (int64_t first = begin; first < end; first += kMostBytes / each) {
    const int64_t elements = std::min(kMostBytes / each, end - first);
    std::byte *target = to + (first - begin) * made;
    const std::byte *place = tensor.data + first * each;
    const auto bytes = size_t(elements * each);
    const std::byte *from = isInPlace ? source.data.file->read(place, bytes, target)
                                      : source.data.file->read(place, bytes, sampleBytes);
    const int64_t refused = source.convert(source, from, target, elements);
    if (refused >= 0)
      refuse(source, first + refused, from + refused * each);
  }
}

void Dataset::loadShared(const Executor &executor) {
  for (const Source &source : sources)
    if (source.shared)
      executor.memory().put(executor.newest(*source.memory), source.memory->bytes,
                            [&](std::byte *to) { read(source, 0, 1, to); });
}

void Dataset::fill(const Memory &memory, std::byte *to, int64_t microbatch) {
  for (const Source &source : sources) {
    if (std::strcmp(source.memory->name, memory.name) != 0)
      continue;
    fillSamples(source, to, microbatch);
    return;
  }
  if (std::strcmp(memory.name, "pdc.random") == 0)
    fillRandom(memory, to, microbatch);
  if (saysWhatIsPresent(memory))
    for (int64_t i = 0; i < program.microbatchSize; ++i)
      reinterpret_cast<int64_t *>(to)[i] = sampleAt(microbatch, i) < count;
}

/// Samples that are neighbours in the file are read together.
void Dataset::fillSamples(const Source &source, std::byte *to, int64_t microbatch) {
  const int64_t stride = source.elements * elementBytes(source.memory->element);
  for (int64_t begin = 0, sample = sampleAt(microbatch, 0); begin < program.microbatchSize;) {
    int64_t end = begin + 1, next = 0;
    while (end < program.microbatchSize &&
           (next = sampleAt(microbatch, end)) == sample + (end - begin))
      ++end;
    const int64_t present = std::clamp<int64_t>(count - sample, 0, end - begin);
    read(source, sample, present, to + begin * stride);
    for (int64_t i = begin + present; i < end; ++i)
      pad(source, to + i * stride);
    begin = end, sample = next;
  }
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
