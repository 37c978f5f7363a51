#pragma once

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace pdc {

/// A C++ identifier made of a name that may hold anything: what is no letter, digit or underscore
/// becomes an underscore, runs of them become one, and it starts with a letter.
std::string legalName(llvm::StringRef name);

/// What a reader would call a tensor or node. Exporters write paths that end in the operator and
/// repeat themselves: `/layer1/layer1.0/conv1/Conv` is `layer1.0/conv1`, the backward node
/// `/conv1/Conv/grad/ConvInputGrad` is `conv1/input/grad`, and `saved_mean` of
/// `/norm/BatchNormalization` is `norm_saved_mean`. An operator that its module has several of, as
/// `/attention/MatMul_1`, stays; so do all operators with `all`. Names without `/` stay as they
/// are.
std::string shortName(llvm::StringRef name, bool all = false);

/// Hands out identifiers that are neither keywords nor taken.
class LegalNames {
public:
  LegalNames();
  /// Names that are expected first are told apart by their operators where the short ones are
  /// equal.
  void expect(llvm::StringRef wanted);
  /// `wanted` made short and legal, with a number behind it when it is taken.
  std::string unique(llvm::StringRef wanted);
  bool isTaken(llvm::StringRef legal) const { return taken.contains(legal); }

private:
  llvm::StringSet<> taken, contested;
  llvm::StringMap<std::string> expected; ///< by the short name
};

} // namespace pdc
