#include "testsuite/operators/Tape.h"

/// pdc.MaskedScatter against a plain walk.
namespace pdc::test {

/// By a plain walk over all elements, which takes the source's as it goes.
static std::vector<double> masked(const Tensor &data, const Tensor &mask, const Tensor &source) {
  std::vector<double> found = data.data;
  const size_t inner = found.size() / mask.data.size();
  for (size_t i = 0, next = 0; i < found.size(); ++i)
    if (mask.data[i / inner])
      found[i] = source.data.at(next++);
  return found;
}

TEST(MaskedScatter, TakesTheSourceAsItGoes) {
  Draw draw;
  const Tensor data = draw.reals({2, 3, 2}), source = draw.reals({9, 2});
  const Tensor rows = flags({2, 3}, {0, 1, 1, 1, 0, 1});
  const Tensor all = flags({2, 3, 2}, {0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 1, 0});
  const Tensor spread = flags({2, 3, 2}, {0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1});
  auto of = [&](const char *kind, std::vector<Tensor> inputs) {
    return Case{"pdc.MaskedScatter", {{"kind", std::string(kind)}}, std::move(inputs), {0, 2}};
  };
  for (const Tensor &mask :
       {rows, all, spread, flags({2}, {1, 0}), flags({2, 3}, {0, 0, 0, 0, 0, 0})})
    EXPECT_EQ(tapeValue(of("rows", {data, mask, source})).data, masked(data, mask, source));
  // What the mask was before it was repeated for the rows' elements, and a source of no rows.
  const Tensor compact = flags({2, 3, 1}, rows.data), odd = draw.reals({11});
  EXPECT_EQ(tapeValue(of("rows", {data, spread, source, compact})).data,
            masked(data, spread, source));
  EXPECT_EQ(tapeValue(of("rows", {data, spread, odd, compact})).data, masked(data, spread, odd));
  EXPECT_EQ(tapeValue(of("repeated", {data, spread, source, compact})).data,
            masked(data, spread, source));
  // One for all samples, for all rows of each, or for all of both: their places count as often.
  const std::pair<Tensor, Tensor> repetitions[] = {
      {flags({1, 3, 1}, {1, 0, 1}), flags({2, 3, 2}, {1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1})},
      {flags({2, 1, 2}, {1, 0, 0, 1}), flags({2, 3, 2}, {1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1})},
      {flags({2, 1, 1}, {0, 1}), flags({2, 3, 2}, {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1})},
      {flags({1, 1, 2}, {0, 1}), flags({2, 3, 2}, {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1})},
      {flags({1, 1, 1}, {1}), flags({2, 3, 2}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})}};
  for (const auto &[once, repeated] : repetitions)
    EXPECT_EQ(tapeValue(of("rows", {data, repeated, source, once})).data,
              masked(data, repeated, source));
  EXPECT_EQ(tapeValue(of("chosen", {data, all, draw.reals({2, 3, 2})})).type, data.type);
  const Tensor row = draw.reals({2});
  std::vector<double> repeated;
  for (int i = 0; i < 6; ++i)
    repeated.insert(repeated.end(), row.data.begin(), row.data.end());
  EXPECT_EQ(tapeValue(of("repeated", {data, spread, row, compact})).data,
            masked(data, spread, Tensor{{ElementType::f32, {12}}, repeated}));
  // One number for each row.
  const Tensor column = draw.reals({4, 1});
  std::vector<double> spreadColumn;
  for (double value : column.data)
    spreadColumn.insert(spreadColumn.end(), 2, value);
  EXPECT_EQ(tapeValue(of("repeated", {data, spread, column, compact})).data,
            masked(data, spread, Tensor{{ElementType::f32, {8}}, spreadColumn}));

  checkComposedGradient(of("rows", {data, all, draw.reals({8})}));
  checkComposedGradient(of("rows", {data, spread, source, compact}));
  checkComposedGradient(of("repeated", {data, spread, row, compact}));
  checkComposedGradient(of("chosen", {data, all, draw.reals({2, 3, 2})}));
}

} // namespace pdc::test
