// Weighted sums of rows: the sum branch of a layer, and products of sparse features with a dense matrix.
#pragma once

#include "rows.h"

namespace {

// out[i] = sum over the edges of group i of weight * row of the other endpoint, with weight 1 by default.
template <class T>
void weighted_sum(const T* x, const T* weight, Index rank, const CompressedEdges& by, T* out) {
  expect_to_fill(out, by.groups * rank * Index(sizeof(T)));
  for_ranges(by, rank, [&](Index first, Index last) {
    for_each_block<T>(0, rank, [&](Index column, auto constant, int width) {
      constexpr int W = decltype(constant)::value;
      const int w = W ? W : width;
      for (Index i = first; i < last; ++i) {
        const Index begin = by.ptr[i], end = by.ptr[i + 1];
        alignas(64) T sum[kBlock];
        if (begin == end) std::fill(sum, sum + w, T(0));
        for_each_six_rows<W>(by, i, x + column, rank, Filler<T>::rows().zeros,
                          [&](const SixRows<T>& rows, Index k) {
                            std::array<T, 6> c = {1, 1, 1, 1, 1, 1};
                            if (weight)
                              for (int j = 0; j < 6; ++j) c[j] = k + j < end ? weight[by.edge_at(k + j)] : T(0);
                            const T *p = rows[0], *q = rows[1], *r = rows[2], *s = rows[3], *t = rows[4], *u = rows[5];
                            if (k == begin) {
                              SIMD for (int j = 0; j < w; ++j)
                                sum[j] = (c[0] * p[j] + c[1] * q[j]) + (c[2] * r[j] + c[3] * s[j]) +
                                         (c[4] * t[j] + c[5] * u[j]);
                            } else {
                              SIMD for (int j = 0; j < w; ++j)
                                sum[j] += (c[0] * p[j] + c[1] * q[j]) + (c[2] * r[j] + c[3] * s[j]) +
                                          (c[4] * t[j] + c[5] * u[j]);
                            }
                          });
        std::copy(sum, sum + w, out + i * rank + column);
      }
    });
  });
}

}  // namespace
