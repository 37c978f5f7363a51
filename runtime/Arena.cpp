#include "runtime/Arena.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace pdc::runtime {

/// Of what is written beside inputs: a learning rate, the number of a step.
static constexpr int64_t kMostNumberBytes = 256;

int64_t elementBytes(ElementType type) {
  switch (type) {
  case ElementType::f32:
  case ElementType::i32:
    return 4;
  case ElementType::i64:
    return 8;
  case ElementType::f16:
  case ElementType::bf16:
    return 2;
  case ElementType::u8:
    return 1;
  }
  return 0;
}

Arena::Arena(const Program &program, Accelerator *accelerator)
    : program(program), accelerator(accelerator) {
  if (program.arenaBytes == 0)
    return;
  if (accelerator) {
    base = accelerator->allocate(program.arenaBytes);
    return;
  }
  void *memory =
      mmap(nullptr, program.arenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error("rank ", program.rank, " needs ", program.arenaBytes,
                " bytes of memory and the system refuses them; use more ranks or smaller "
                "microbatches");
  // Advice only: a kernel without huge pages runs the same program, slower.
  madvise(memory, program.arenaBytes, MADV_HUGEPAGE);
  base = static_cast<std::byte *>(memory);
}

void Arena::populate() const {
  if (accelerator) {
    int64_t most = kMostNumberBytes;
    for (const Memory &memory : program.memories)
      if (memory.role == Role::input)
        most = std::max(most, memory.bytes);
    return accelerator->reserve(most);
  }
  if (!base || madvise(base, program.arenaBytes, MADV_POPULATE_WRITE) == 0)
    return;
  if (errno == ENOMEM || errno == EFAULT)
    throw Error("rank ", program.rank, " needs ", program.arenaBytes,
                " bytes of memory and there are fewer; use more ranks or smaller microbatches");
  // An older kernel: each page is touched and keeps what it holds.
  for (int64_t at = 0; at < program.arenaBytes; at += getpagesize()) {
    volatile auto *page = reinterpret_cast<volatile unsigned char *>(base + at);
    *page = *page;
  }
}

Arena::~Arena() {
  if (base && !accelerator)
    munmap(base, program.arenaBytes);
}

const std::byte *Arena::look(const std::byte *from, int64_t bytes,
                             std::vector<std::byte> &copy) const {
  if (!accelerator)
    return from;
  copy.resize(size_t(bytes));
  accelerator->read(copy.data(), from, bytes);
  return copy.data();
}

void Arena::move(std::byte *to, const std::byte *from, int64_t bytes) const {
  if (accelerator)
    accelerator->move(to, from, bytes);
  else
    std::memcpy(to, from, size_t(bytes));
}

void Arena::add(float *to, const float *from, int64_t count) const {
  if (accelerator)
    return accelerator->add(to, from, count);
  for (int64_t i = 0; i < count; ++i)
    to[i] += from[i];
}

void Arena::divide(float *values, float by, int64_t count) const {
  if (accelerator)
    return accelerator->divide(values, by, count);
  for (int64_t i = 0; i < count; ++i)
    values[i] /= by;
}

const float *Arena::testFinite(std::span<const std::span<const float>> tensors) const {
  if (accelerator)
    return accelerator->testFinite(tensors);
  tested = std::ranges::all_of(tensors, [](std::span<const float> values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  });
  return &tested;
}

/// Eight interleaved sums, then their sum.
static double sumOfSquares(const AddedTensors &tensors) {
  double sums[8] = {};
  for (int64_t i = 0; i < tensors.count; ++i) {
    float sum = 0;
    for (const float *term : tensors.terms)
      sum += term[i];
    sums[i % 8] += double(sum) * double(sum);
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void Arena::sumSquares(std::span<const AddedTensors> tensors, std::span<double> sums) const {
  if (accelerator)
    accelerator->sumSquares(tensors, sums);
  else
    std::ranges::transform(tensors, sums.begin(), sumOfSquares);
}

float *Arena::beside(int64_t count, std::vector<float> &here) const {
  if (accelerator)
    return reinterpret_cast<float *>(accelerator->allocate(count * int64_t(sizeof(float))));
  here.resize(size_t(count));
  return here.data();
}

void Arena::load(std::span<const float *const> from, std::span<float> to) const {
  if (accelerator)
    return accelerator->readNumbers(from, to);
  std::ranges::transform(from, to.begin(),
                         [](const float *number) { return number ? *number : 0; });
}

void Arena::store(float *to, float value) const {
  put(reinterpret_cast<std::byte *>(to), sizeof value,
      [&](std::byte *at) { std::memcpy(at, &value, sizeof value); });
}

int *Arena::makeFlag() const {
  return accelerator ? accelerator->makeFlag() : &flags.emplace_back(0);
}

void Arena::finish() const {
  if (accelerator)
    accelerator->finish();
}

static void checkRegions(const Program &program) {
  for (const Region &region : program.regions)
    if (region.offset < 0 || region.stride < 0 || region.copies < 0 || region.offset % 64 ||
        region.stride % 64 || region.offset + region.stride * region.copies > program.arenaBytes)
      throw Error("rank ", program.rank, ": region '", region.name, "' at ", region.offset,
                  " lies outside the arena of ", program.arenaBytes, " bytes");
}

static void checkPlace(const Program &program, const char *name, Place place, int64_t bytes) {
  int regions = int(program.regions.size());
  if (place.region < 0 || place.region >= regions || place.offset < 0 || bytes < 0 ||
      place.offset + bytes > program.regions[place.region].stride)
    throw Error("rank ", program.rank, ": '", name, "' of ", bytes, " bytes at ", place.offset,
                " lies outside its region");
}

static void checkRows(const Program &program, std::span<const Step> rows) {
  for (const Step &step : rows) {
    bool transfers = step.kind == StepKind::send || step.kind == StepKind::receive;
    if (transfers && (step.transfer < 0 || step.transfer >= int(program.transfers.size())))
      throw Error("rank ", program.rank, ": a row names transfer ", step.transfer,
                  " and there are ", program.transfers.size());
    bool known = step.kind == StepKind::allReduce;
    for (const StageInfo &stage : program.stages)
      known = known || stage.id == step.stage;
    if (!known)
      throw Error("rank ", program.rank, ": a row names stage ", step.stage,
                  ", which another rank holds");
  }
}

static void checkStages(const Program &program) {
  int regions = int(program.regions.size());
  for (const StageInfo &stage : program.stages) {
    bool good = stage.slotRegion >= 0 && stage.slotRegion < regions &&
                stage.evaluationRegion >= -1 && stage.evaluationRegion < regions &&
                stage.versionRegion >= -1 && stage.versionRegion < regions;
    good = good && std::ranges::find(stage.ranks, program.rank) != stage.ranks.end();
    for (std::span<const int> listed : {stage.gradients, stage.states})
      for (int memory : listed)
        good = good && memory >= 0 && memory < int(program.memories.size()) &&
               program.memories[memory].element == ElementType::f32;
    for (int slot : stage.slotTable)
      good = good && slot >= 0 && slot < program.regions[stage.slotRegion].copies;
    if (!good || stage.slotTable.empty())
      throw Error("rank ", program.rank, ": the tables of stage ", stage.id,
                  " point outside the regions, memories or ranks");
  }
}

static void checkMoves(const Program &program) {
  auto isHere = [&](int id) {
    return std::ranges::find(program.stages, id, &StageInfo::id) != program.stages.end();
  };
  for (const Move &move : program.moves) {
    checkPlace(program, move.tensor, move.from, move.bytes);
    checkPlace(program, move.tensor, move.to, move.bytes);
    if (!isHere(move.fromStage) || !isHere(move.toStage))
      throw Error("rank ", program.rank, ": '", move.tensor, "' is handed from stage ",
                  move.fromStage, " to stage ", move.toStage, ", one of which another rank holds");
  }
}

void check(const Program &program) {
  if (program.contractVersion != kContractVersion)
    throw Error("stage sources of contract version ", program.contractVersion,
                " meet a runtime of version ", kContractVersion,
                "; run pdc again and build its sources anew");
  if (program.rank < 0 || program.rank >= program.ranks || program.microbatchSize < 1 ||
      program.microbatches < 1 || (program.asynchronous && program.training.period < 1) ||
      program.evaluation.period < 1)
    throw Error("rank ", program.rank, " of ", program.ranks, ": the program's numbers are wrong");
  int regions = int(program.regions.size());
  if (program.fixedRegion < 0 || program.fixedRegion >= regions || program.scratchRegion < 0 ||
      program.scratchRegion >= regions)
    throw Error("rank ", program.rank, ": the program names no fixed or scratch region");
  checkRegions(program);
  checkStages(program);
  for (const Memory &memory : program.memories)
    checkPlace(program, memory.name, memory.place, memory.bytes);
  for (const Transfer &transfer : program.transfers) {
    checkPlace(program, transfer.tensor, transfer.place, transfer.bytes);
    for (int peer : transfer.peers)
      if (peer < 0 || peer >= program.ranks || peer == program.rank)
        throw Error("rank ", program.rank, ": '", transfer.tensor, "' crosses to rank ", peer,
                    " of ", program.ranks);
    if (transfer.peers.empty())
      throw Error("rank ", program.rank, ": '", transfer.tensor, "' crosses to no rank");
    if (transfer.bytes % elementBytes(transfer.element) != 0)
      throw Error("rank ", program.rank, ": '", transfer.tensor, "' of ", transfer.bytes,
                  " bytes crosses in elements of ", elementBytes(transfer.element));
  }
  checkMoves(program);
  for (const Rows *rows : {&program.training, &program.evaluation}) {
    checkRows(program, rows->step);
    checkRows(program, rows->warmUp);
    checkRows(program, rows->repeat);
    checkRows(program, rows->drain);
  }
}

} // namespace pdc::runtime
