#include "testsuite/operators/Tape.h"

/// pdc.SelectedRows and pdc.SelectedPlaces: the first row that is selected stands for each that is
/// not, unless the mask is known.
namespace pdc::test {

static Case of(const char *op, std::vector<Tensor> inputs) {
  return {op, {}, std::move(inputs), {0}};
}

/// The tape knows the values of flags, and not those of numbers.
static Tensor unknown(const Tensor &mask) { return {{ElementType::f32, mask.type.shape}, mask.data}; }

TEST(SelectedRows, OthersAreTheFirstOne) {
  Draw draw;
  const Tensor data = draw.reals({2, 3, 2});
  auto rows = [&](const std::vector<size_t> &chosen) {
    std::vector<double> values;
    for (size_t i : chosen)
      values.insert(values.end(), {data.data[2 * i], data.data[2 * i + 1]});
    return values;
  };
  const Tensor some = flags({2, 3}, {0, 1, 0, 1, 1, 0}), all = flags({2, 3}, {1, 1, 1, 1, 1, 1});
  const Tensor found = tapeValue(of("pdc.SelectedRows", {data, unknown(some)}));
  EXPECT_EQ(found.type.shape, (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(found.data, rows({1, 1, 1, 3, 4, 1}));
  EXPECT_EQ(tapeValue(of("pdc.SelectedRows", {data, some})).data, rows({1, 3, 4}));
  // Differences would see the copies of the first row, which have no gradient.
  EXPECT_EQ(tapeValue(of("pdc.SelectedRows", {data, unknown(all)})).data, data.data);
  checkComposedGradient(of("pdc.SelectedRows", {data, unknown(all)}));
  checkComposedGradient(of("pdc.SelectedRows", {data, some}));
  // A mask of fewer dimensions, and one of all.
  EXPECT_EQ(tapeValue(of("pdc.SelectedRows", {data, unknown(flags({2}, {0, 1}))})).data,
            rows({3, 4, 5, 3, 4, 5}));
  const Tensor each = unknown(flags({2, 3, 2}, {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(tapeValue(of("pdc.SelectedRows", {data, each})).type.shape,
            (std::vector<int64_t>{12}));
  EXPECT_THROW(tapeValue(of("pdc.SelectedRows", {data, flags({3}, {0, 1, 0})})), Error);
}

TEST(SelectedRows, PlacesAreThoseOfElements) {
  const Tensor mask = flags({2, 3}, {0, 0, 1, 0, 1, 0});
  auto places = [](const Tensor &mask) {
    return tapeValue(Case{"pdc.SelectedPlaces", {}, {mask}, {}});
  };
  EXPECT_EQ(places(unknown(mask)).type, (TensorType{ElementType::i64, {2, 6}}));
  EXPECT_EQ(places(unknown(mask)).data,
            (std::vector<double>{0, 0, 0, 0, 1, 0, 2, 2, 2, 2, 1, 2}));
  EXPECT_EQ(places(mask).data, (std::vector<double>{0, 1, 2, 1}));
}

} // namespace pdc::test
