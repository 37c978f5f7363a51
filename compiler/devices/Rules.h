#pragma once

#include "compiler/devices/UnitReader.h"
#include "runtime/kernels/AttentionFields.h"

namespace pdc {

/// A row of a device's pattern table: what its kernels for an operator compute with it.
struct Rule {
  std::string_view op; ///< of the hero
  KernelChoice (*choose)(const UnitReader &reader);
  /// Elementwise operators that the hero's kernel computes on its result 0. A Cast: from 16 bits to
  /// f32, of sums that it would round.
  std::vector<std::string_view> epilogues = {};
  /// Operators that the hero's kernel computes on one of its inputs. A Cast: from 16 bits to f32. A
  /// Conv: one whose result the kernel writes, too. A Sum: of at most `mostTerms` tensors of one
  /// type.
  std::vector<std::string_view> prologues = {};
  bool rounds = false; ///< the Cast among its epilogues is from f32 to 16 bits
  /// The Add among its epilogues is of an image, not of a bias.
  bool addsImages = false;
  int prologueInput = 0;
  size_t mostTerms = 0;
};

/// The rules of one kind of device stand before those that all kinds share.
const std::vector<Rule> &processorRules();
const std::vector<Rule> &cudaRules();
const std::vector<Rule> &sharedRules();

/// Whether the operator has no kernel but a loop of its expression.
bool isLoop(std::string_view op, const DeviceOptions &options);
bool isLoopOverParts(const UnitReader &reader);
KernelChoice chooseLoopOverParts(const UnitReader &reader);

/// Whether a GPU's kernel may make the sums that a normalisation wants while it convolves.
bool canSumChannels(const UnitView &unit, const UnitNode &convolution,
                    const UnitNode &normalisation, const DeviceOptions &options);

/// Throws Error where a node of the unit has a tensor of 16 bits that its kernel does not take.
void checkNarrow(const UnitReader &reader);

/// What the masks of an attention depend on, of the fields of its kernel.
runtime::AttentionFields attentionMaskFields(const Attributes &fields);
/// What the CUDA kernel of a choice takes of the workspace at most.
int64_t cudaWorkspaceBytes(const KernelChoice &choice);
/// Of these, an attention's mask, which is whole where its samples and heads are divided.
int64_t cudaMaskBytes(const Attributes &fields);

} // namespace pdc
