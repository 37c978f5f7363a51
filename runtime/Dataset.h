#pragma once

#include "runtime/Control.h"
#include "runtime/DataFile.h"
#include "runtime/Executor.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pdc::runtime {

/// --data INPUT=FILE[,mean=M][,std=S][,type=T][,skip=N]
struct DataSpec {
  std::string input, file;
  bool scales = false; ///< mean or deviation is given
  float mean = 0, deviation = 1;
  std::optional<Scalar> type; ///< the file is bare numbers
  int64_t skipped = 0;        ///< of them, before the first sample
};
/// Throws Error that says what was found and what is expected.
DataSpec parseDataSpec(const std::string &text);

/// The sample at `position` of an epoch: a permutation of 0..samples-1 that every rank computes
/// alike, sample by sample, without a table.
int64_t shuffled(uint64_t seed, int64_t epoch, int64_t samples, int64_t position);

/// Whether data give an input; names that begin with "pdc." are the program's own.
bool isGiven(const Memory &memory);

/// The samples behind a program's inputs, as an endless stream of microbatches, epoch after epoch,
/// and the inputs that are the same for all of them.
class Dataset : public Inputs {
public:
  /// Opens the files of this rank's inputs and agrees with the others on the number of samples.
  Dataset(const Program &program, const std::vector<DataSpec> &specs, bool evaluation,
          Control &control);

  uint64_t seed = 0;
  bool shuffle = true;

  /// Gives those that are the same for all samples their values. Training: before its first step.
  void loadShared(const Executor &executor);

  int64_t samples() const { return count; }
  /// Fingerprints of the files of all ranks, by input; of training alone.
  const std::map<std::string, int64_t> &files() const { return fingerprints; }
  /// Whether the loss is of numbers; a loss that the file computes itself does not tell.
  bool hasNoClasses() const { return saysPresence; }
  /// Training: whole microbatches of an epoch. Evaluation: the last one may be padded.
  int64_t microbatches() const { return perEpoch; }
  int64_t remainder() const { return count - perEpoch * program.microbatchSize; }
  /// Data that stays in memory because its file is compressed.
  int64_t heldBytes() const;
  /// The next run starts at this microbatch of the stream, and at this step; in asynchronous
  /// schedules the step advances with each microbatch.
  void startAt(int64_t microbatch, int64_t step) {
    first = microbatch;
    firstStep = step;
  }

  void fill(const Memory &memory, std::byte *to, int64_t microbatch) override;
  int64_t position(int64_t microbatch) const override { return first + microbatch; }
  std::string describe(int64_t microbatch) const override;
  std::string locate(int64_t microbatch, const DataError &error) const override;

private:
  struct Source;
  /// Returns the first element that the input cannot hold, or -1.
  using Convert = int64_t (*)(const Source &source, const std::byte *from, std::byte *to,
                              int64_t elements);
  struct Source {
    const Memory *memory;
    DataFile data;
    Convert convert;
    bool shared;      ///< one for all samples
    bool bare;        ///< numbers without a header
    int64_t elements; ///< per sample, of a shared one all
    bool scaled;      ///< mean and deviation apply
    float unit = 1;   ///< what integers are divided by
    float mean, deviation;
    std::vector<float> byteValues = {}; ///< what each byte becomes, for images fed to floats
  };
  /// The samples that a rank has of an input.
  struct InputRows {
    std::string input;
    int64_t count;
    bool bare;
  };
  const char *option() const { return evaluation ? "--eval-data" : "--data"; }
  std::string othersWithout(const std::vector<DataSpec> &specs, const std::string &name) const;
  bool isShared(const Memory &memory) const;
  void open(const Memory &memory, const std::vector<DataSpec> &specs);
  DataFile openFile(const DataSpec &spec, const Memory &memory) const;
  void requireShape(const Source &source) const;
  void requireType(const Source &source) const;
  void requireInputs(const std::vector<DataSpec> &specs, const std::vector<InputRows> &rows,
                     const std::set<std::string> &shared) const;
  void read(const Source &source, int64_t sample, int64_t samples, std::byte *to);
  void fillSamples(const Source &source, std::byte *to, int64_t microbatch);
  int64_t samplesOf(const std::vector<InputRows> &rows) const;
  void agree(const std::vector<DataSpec> &specs, Control &control);
  void gatherFiles(Control &control);
  int64_t sampleAt(int64_t microbatch, int64_t index) const;
  void fillRandom(const Memory &memory, std::byte *to, int64_t microbatch);
  std::vector<int64_t> samplesRead(const Source &source, int64_t microbatch,
                                   const DataError &error) const;
  bool holds(const Source &source, int64_t sample, int64_t value) const;
  static std::string place(const Source &source, int64_t sample);
  [[noreturn]] void refuse(const Source &source, int64_t element, const std::byte *value) const;
  void pad(const Source &source, std::byte *to) const;
  template <class From> static Convert toFloats();
  template <class From> static Convert conversionFrom(ElementType to);
  /// Null: floating-point numbers do not become integers.
  static Convert conversion(Scalar from, ElementType to);
  void fillByteValues(Source &source) const;
  static std::string numberText(const TensorView &tensor, const std::byte *value);

  const Program &program;
  const bool evaluation;
  std::vector<Source> sources;
  std::vector<std::byte> sampleBytes; ///< of what is being read
  std::map<std::string, int64_t> fingerprints;
  bool saysPresence = false; ///< an input tells padding, since no label does
  int64_t count = 0, perEpoch = 0, first = 0, firstStep = 1;
};

} // namespace pdc::runtime
