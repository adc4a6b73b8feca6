// Products of bounded factors over the other edges.
#pragma once

#include "bounded.h"
#include "exclusive.h"

namespace {

// Vectors of the edges of one row: scratch space of a thread.
template <class Group>
using EdgeVectors = Vector<double, Group::L> (*)[Group::C];

inline void* aligned_scratch(Index arrays) {
  constexpr size_t kRow = 4 * kVectorBytes;
  thread_local std::unique_ptr<char[]> memory;
  thread_local Index size = 0;
  if (size < arrays) memory.reset(new char[size_t(arrays) * kInRange * kRow + 64]);
  size = std::max(size, arrays);
  return reinterpret_cast<void*>((uintptr_t(memory.get()) + 63) / 64 * 64);
}

// The products of the other factors are P / f. Returns false if a factor is NaN or there are too many edges.
inline bool bounded_exclusive_row(const EdgeProduct<float>& op, const CompressedEdges& by_dst, Index v, float* out) {
  const Index rank = op.terms.rank, begin = by_dst.ptr[v], degree = by_dst.ptr[v + 1] - begin;
  if (degree > kInRange) return false;
  const double q = power_of_row(op.exponent, degree - 1);
  bool is_finite = true;
  for_each_columns<float, kWide>(0, rank, [&](auto columns) {
    using Group = decltype(columns);
    using Wide = Vector<double, Group::L>;
    const auto inverse = static_cast<EdgeVectors<Group>>(aligned_scratch(1));
    const BoundedFactors<Group> factors(op, columns);
    Wide n[Group::C], d[Group::C];
    UNROLL for (int c = 0; c < Group::C; ++c) n[c] = d[c] = Wide{} + 1.0;
    for (Index k = 0; k < degree; ++k) {
      factors.prefetch(by_dst, begin + k);
      columns.prefetch_to_write(out + by_dst.edge_at(ahead(by_dst, begin + k)) * rank + columns.first);
      factors.compute(by_dst.other[begin + k], v, by_dst.edge_at(begin + k), [&](int c, const auto& factor) {
        n[c] *= factor.n;
        d[c] *= factor.d;
        inverse[k][c] = factor.d / factor.n;
      });
    }
    UNROLL for (int c = 0; c < Group::C; ++c) {
      n[c] /= d[c];
      for (int j = 0; j < Group::L; ++j) is_finite &= n[c][j] == n[c][j];
    }
    for (Index k = 0; k < degree; ++k) {
      float* const target = out + by_dst.edge_at(begin + k) * rank + columns.first;
      UNROLL for (int c = 0; c < Group::C; ++c) {
        Wide y = n[c] * inverse[k][c], slope;
        if (q != 1.0) y = power_of_positive<Wide, Group::L>(y, q);
        if (op.tanh) tanh_of_positive<Wide, Group::L>(y, y, slope);
        columns.store(to_float<Group::L>(y), target, c);
      }
    }
  });
  return is_finite;
}

// With the powers E of the products of the other factors, d loss / d log f_j = sum of h_k over the other edges k, with
// h_k = g_k act'(E_k) q E_k. The sums before and after j are added, because a difference would cancel.
inline bool bounded_exclusive_row_backward(const EdgeProduct<float>& op, const CompressedEdges& by_dst, Index v,
                                           const float* grad, double* of_terms, float* of_edge, float* of_dst) {
  const Index rank = op.terms.rank, begin = by_dst.ptr[v], degree = by_dst.ptr[v + 1] - begin;
  if (degree > kInRange) return false;
  const double q = power_of_row(op.exponent, degree - 1);
  bool is_finite = true;
  for_each_columns<float, kWide>(0, rank, [&](auto columns) {
    using Group = decltype(columns);
    using Wide = Vector<double, Group::L>;
    const auto inverse = static_cast<EdgeVectors<Group>>(aligned_scratch(3));
    const auto slopes = inverse + kInRange, before = slopes + kInRange, h = inverse;
    const BoundedFactors<Group> factors(op, columns);
    const Columns<double, Group::L, Group::C, Group::kPartial> doubles{columns.first, columns.count};
    Wide n[Group::C], d[Group::C], sum[Group::C] = {}, after[Group::C] = {}, total[Group::C] = {};
    UNROLL for (int c = 0; c < Group::C; ++c) n[c] = d[c] = Wide{} + 1.0;
    for (Index k = 0; k < degree; ++k) {
      const Index later = by_dst.edge_at(ahead(by_dst, begin + k)) * rank + columns.first;
      factors.prefetch(by_dst, begin + k);
      columns.prefetch(grad + later);
      if (of_terms) doubles.prefetch_to_write(of_terms + later);
      if (of_edge) columns.prefetch_to_write(of_edge + later);
      factors.compute(by_dst.other[begin + k], v, by_dst.edge_at(begin + k), [&](int c, const auto& factor) {
        n[c] *= factor.n;
        d[c] *= factor.d;
        const Wide ratio = 1.0 / (factor.n * factor.d);
        inverse[k][c] = factor.d * factor.d * ratio;
        slopes[k][c] = 4.0 * op.bound * factor.e * ratio;
      });
    }
    UNROLL for (int c = 0; c < Group::C; ++c) {
      n[c] /= d[c];
      for (int j = 0; j < Group::L; ++j) is_finite &= n[c][j] == n[c][j];
    }
    for (Index k = 0; k < degree; ++k) {
      const float* const g = grad + by_dst.edge_at(begin + k) * rank + columns.first;
      UNROLL for (int c = 0; c < Group::C; ++c) {
        Wide y = n[c] * inverse[k][c], unused;
        if (q != 1.0) y = power_of_positive<Wide, Group::L>(y, q);
        if (op.tanh) tanh_of_positive<Wide, Group::L>(y, unused, y);
        before[k][c] = total[c];
        h[k][c] = q * y * factors.wide(g, c);
        total[c] += h[k][c];
      }
    }
    for (Index k = degree - 1; k >= 0; --k) {
      const Index target = by_dst.edge_at(begin + k) * rank + columns.first;
      UNROLL for (int c = 0; c < Group::C; ++c) {
        const Wide of_a = (before[k][c] + after[c]) * slopes[k][c];
        after[c] += h[k][c];
        sum[c] += of_a;
        if (of_terms) doubles.store(of_a, of_terms + target, c);
        if (of_edge) store_gradient(columns, of_a, of_edge + target, c);
      }
    }
    if (of_dst)
      UNROLL for (int c = 0; c < Group::C; ++c) store_gradient(columns, sum[c], of_dst + v * rank + columns.first, c);
  });
  return is_finite;
}

}  // namespace
