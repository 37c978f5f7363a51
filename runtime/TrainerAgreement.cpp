#include "runtime/Error.h"
#include "runtime/NamedNumbers.h"
#include "runtime/Trainer.h"

#include <limits>

/// What all ranks of a run must have alike.
namespace pdc::runtime {

namespace {

/// Without spaces; of what is not given the text is empty.
struct CommonOption {
  const char *name;
  std::string text;
};

std::string exactText(double value) {
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << value;
  return text.str();
}

/// Files may have other names on other hosts.
std::vector<CommonOption> commonOptions(const Options &options) {
  auto number = [](auto value) { return value > 0 ? std::to_string(value) : ""; };
  auto given = [](bool is) { return is ? "given" : ""; };
  return {{"--eval-data", given(!options.evaluationData.empty())},
          {"--resume", given(!options.resume.empty())},
          {"--save", given(!options.save.empty())},
          {"--save-every", number(options.saveEvery)},
          {"--epochs", number(options.epochs)},
          {"--steps", number(options.steps)},
          {"--seed", options.seed ? std::to_string(*options.seed) : ""},
          {"--lr", options.learningRate ? exactText(*options.learningRate) : ""},
          {"--lr-schedule", options.schedule},
          {"--clip-norm", exactText(options.clipNorm)},
          {"--order", options.order},
          {"--trace", given(!options.trace.empty())},
          {"--record", given(!options.record.empty())}};
}

std::string describe(const CommonOption &option) {
  if (option.text.empty())
    return std::string("without ") + option.name;
  return std::string("with ") + option.name + (option.text == "given" ? "" : " " + option.text);
}

/// What a rank tells: its plan, then a line for each option.
std::string agreementText(const Program &program, const std::vector<CommonOption> &options) {
  std::ostringstream text;
  text << "plan " << program.planHash << ", " << program.ranks << " ranks, contract "
       << program.contractVersion << "\n";
  for (const CommonOption &option : options)
    text << option.text << "\n";
  return text.str();
}

} // namespace

const Options &agreedOptions(const Program &program, const Options &given, Control &control) {
  const std::vector<CommonOption> options = commonOptions(given);
  std::vector<std::string> all;
  control.gather(agreementText(program, options), all);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    std::istringstream first(all[0]), other(all[rank]);
    std::string mine, theirs;
    std::getline(first, mine), std::getline(other, theirs);
    if (mine != theirs)
      throw Error("rank ", rank, " and rank 0 are not of one run: (", theirs, ") and (", mine,
                  "); start all ranks from the same build");
    for (const CommonOption &option : options) {
      std::getline(first, mine), std::getline(other, theirs);
      if (mine != theirs)
        throw Error("rank ", rank, " was started ", describe({option.name, theirs}), " and rank 0 ",
                    describe({option.name, mine}), "; start all ranks with the same options");
    }
  }
  return given;
}

/// The same state on every rank, and what a checkpoint has told of options.
void Trainer::agree() {
  std::ostringstream mine;
  mine << "step " << state.step << " of " << totalSteps << ", epoch " << state.epoch
       << ", microbatch " << state.cursor << " of " << perEpoch << ", seed " << state.seed << ", "
       << options.order << ", clip " << options.clipNorm << ", lr "
       << options.learningRate.value_or(program.learningRate) << " " << options.schedule;
  std::vector<std::string> all;
  control.gather(mine.str(), all);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw Error("rank ", rank, " and rank 0 are not of one run: (", all[rank], ") and (", all[0],
                  "); start all ranks with the same options and files");
  agreeOnFiles();
}

/// Ranks may have copies of their own, and not all of them.
void Trainer::agreeOnFiles() {
  gatherAlike(control, loaded, [](const std::string &name, int one, int other) {
    throw Error("ranks ", one, " and ", other, " have read different files '", name,
                "'; give all ranks the same --weights and --resume");
  });
}

} // namespace pdc::runtime
