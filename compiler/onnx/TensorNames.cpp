#include "compiler/onnx/TensorNames.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <vector>

namespace pdc {

namespace {

/// What a network calls a tensor itself, and the module that holds it, of scoped names: mask and
/// attn of layers.attn.mask.0 and of attn/mask:0.
struct OwnName {
  std::string_view module, tensor;

  explicit OwnName(std::string_view name) {
    tensor = lastOf(name);
    module = lastOf(name);
  }

private:
  /// Takes the last part from the name, with the numbers behind it.
  static std::string_view lastOf(std::string_view &name) {
    for (;;) {
      const size_t end = name.find_last_of("./:");
      const std::string_view last = name.substr(end + 1); // the whole where there is none
      const bool isNumber =
          std::ranges::all_of(last, [](unsigned char c) { return std::isdigit(c); });
      name = end == name.npos ? std::string_view() : name.substr(0, end);
      if (name.empty() || !isNumber)
        return last;
    }
  }
};

/// The words of a name that underscores part, without numbers behind them.
std::vector<std::string_view> wordsOf(std::string_view name) {
  std::vector<std::string_view> words;
  for (size_t end = 0; end != name.npos; name = name.substr(std::min(name.size(), end + 1))) {
    end = name.find('_');
    words.push_back(name.substr(0, end));
  }
  while (words.size() > 1 && words.back().find_first_not_of("0123456789") == std::string_view::npos)
    words.pop_back();
  return words;
}

bool isOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

} // namespace

bool isWeightName(std::string_view name) {
  const std::vector<std::string_view> words = wordsOf(OwnName(name).tensor);
  return isOneOf(words.front(), {"weight", "bias"}) ||
         isOneOf(words.back(), {"weight", "bias", "kernel"});
}

bool isScaleName(std::string_view name) {
  return isOneOf(wordsOf(OwnName(name).tensor).back(), {"beta", "gamma", "scale"});
}

/// What stands in for what a mask hides is learned, and a layer that makes masks may be called so.
bool isBufferName(std::string_view name) {
  const OwnName own(name);
  const std::string_view last = wordsOf(own.tensor).back();
  auto has = [&](std::string_view part) { return own.tensor.find(part) != own.tensor.npos; };
  // Pruning multiplies weight_orig by weight_mask.
  if (isOneOf(last, {"mask", "masks"}) || own.tensor.ends_with("mask_bias") ||
      isOneOf(own.tensor, {"masked_bias", "final_logits_bias"}))
    return true;
  if (isWeightName(name) || isOneOf(last, {"token", "tokens", "embed", "emb", "embedding",
                                           "embeddings", "query", "queries"}))
    return isOneOf(own.tensor, {"rotary_emb", "rotary_pos_emb"});
  return (has("mask") && !isScaleName(name)) || has("inv_freq") || has("cos_cached") ||
         has("sin_cached") || has("rotary") || own.module.find("rotary") != own.module.npos;
}

bool isConstantName(const std::string &name) {
  const std::string own = name.substr(name.rfind('/') + 1); // the whole where there is none
  auto matches = [&](const char *pattern) { return fnmatch(pattern, own.c_str(), 0) == 0; };
  // A number follows where branches or bodies have equal names.
  return matches("ConstantOfShape_output_[0-9]") ||
         matches("ConstantOfShape_[0-9]*_output_[0-9]") || matches("Constant_output_[0-9]") ||
         matches("Constant_[0-9]*_output_[0-9]") || matches("Constant_output_[0-9]_[0-9]*") ||
         matches("Constant_[0-9]*_output_[0-9]_[0-9]*");
}

} // namespace pdc
