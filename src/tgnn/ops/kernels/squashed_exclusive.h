// Products over the other edges of factors tanh(a) or sigmoid(a), of floats.
//
// The factors are at most 1 in absolute value, so a product is at most as large as each of its partial products. Where a
// partial product underflows in double, the results and gradients that contain it are 0 in float. So the products need
// no exponent. Nothing is divided by a factor, so zeros are exact.
#pragma once

#include "bounded_exclusive.h"

namespace {

template <class T>
bool is_squashed(const EdgeProduct<T>& op) {
  return sizeof(T) == sizeof(float) && (op.activation == kTanh || op.activation == kSigmoid) && !op.scale &&
         !op.shift && !op.gate && !op.tanh && op.exponent == 0.0;
}

template <int L>
struct SquashedFactor {
  using Wide = Vector<double, L>;
  using Bits = Vector<uint64_t, L>;
  Wide f, slope;

  SquashedFactor(Wide a, bool is_tanh) {
    const Bits sign = (Bits)a & kSignBit;
    const Wide size = (Wide)((Bits)a ^ sign), e = decay_of<L>(is_tanh ? size : 0.5 * size);
    const Wide inverse = 1.0 / (1.0 + e);
    const Wide slope_of_sigmoid = e * (inverse * inverse);
    if (is_tanh) {
      const Wide value = size < 1e-3 ? size - size * size * size * (1.0 / 3) : (1.0 - e) * inverse;
      f = (Wide)((Bits)value | sign);
      slope = 4.0 * slope_of_sigmoid;
    } else {
      f = a < 0.0 ? e * inverse : inverse;
      slope = slope_of_sigmoid;
    }
  }
};

template <class Wide, int C>
inline bool has_nan(const Wide (&x)[C]) {
  bool found = false;
  for (int c = 0; c < C; ++c)
    for (size_t j = 0; j < sizeof(Wide) / sizeof(double); ++j) found |= x[c][j] != x[c][j];
  return found;
}

// Returns false if a factor is NaN or there are too many edges.
inline bool squashed_exclusive_row(const EdgeProduct<float>& op, const CompressedEdges& by_dst, Index v, float* out) {
  const Index rank = op.terms.rank, begin = by_dst.ptr[v], degree = by_dst.ptr[v + 1] - begin;
  if (degree > kInRange) return false;
  const bool is_tanh = op.activation == kTanh;
  bool is_finite = true;
  for_each_columns<float, kWide>(0, rank, [&](auto columns) {
    using Group = decltype(columns);
    using Wide = Vector<double, Group::L>;
    const auto f = static_cast<EdgeVectors<Group>>(aligned_scratch(2)), before = f + kInRange;
    const WideTerms<Group> terms(op, columns);
    Wide product[Group::C], after[Group::C];
    UNROLL for (int c = 0; c < Group::C; ++c) product[c] = after[c] = Wide{} + 1.0;
    for (Index k = 0; k < degree; ++k) {
      terms.prefetch(by_dst, begin + k);
      columns.prefetch_to_write(out + by_dst.edge_at(ahead(by_dst, begin + k)) * rank + columns.first);
      terms.sums(by_dst.other[begin + k], v, by_dst.edge_at(begin + k), [&](int c, const Wide& a) {
        before[k][c] = product[c];
        f[k][c] = SquashedFactor<Group::L>(a, is_tanh).f;
        product[c] *= f[k][c];
      });
    }
    is_finite &= !has_nan(product);
    for (Index k = degree - 1; k >= 0; --k) {
      float* const target = out + by_dst.edge_at(begin + k) * rank + columns.first;
      UNROLL for (int c = 0; c < Group::C; ++c) {
        columns.store(to_float<Group::L>(before[k][c] * after[c]), target, c);
        after[c] *= f[k][c];
      }
    }
  });
  return is_finite;
}

// The gradient of f_j is the sum over the other edges k of g_k times the factors of all edges but j and k. The edges
// before and after j are summed separately, as in Scan::exclusive_slopes().
inline bool squashed_exclusive_row_backward(const EdgeProduct<float>& op, const CompressedEdges& by_dst, Index v,
                                            const float* grad, double* of_terms, float* of_edge, float* of_dst) {
  const Index rank = op.terms.rank, begin = by_dst.ptr[v], degree = by_dst.ptr[v + 1] - begin;
  if (degree > kInRange) return false;
  const bool is_tanh = op.activation == kTanh;
  bool is_finite = true;
  for_each_columns<float, kWide>(0, rank, [&](auto columns) {
    using Group = decltype(columns);
    using Wide = Vector<double, Group::L>;
    const auto f = static_cast<EdgeVectors<Group>>(aligned_scratch(4));
    const auto slopes = f + kInRange, before = slopes + kInRange, sum_before = before + kInRange;
    const WideTerms<Group> terms(op, columns);
    const Columns<double, Group::L, Group::C, Group::kPartial> doubles{columns.first, columns.count};
    Wide product[Group::C], after[Group::C], running[Group::C] = {}, sum_after[Group::C] = {}, sum[Group::C] = {};
    UNROLL for (int c = 0; c < Group::C; ++c) product[c] = after[c] = Wide{} + 1.0;
    for (Index k = 0; k < degree; ++k) {
      const Index later = by_dst.edge_at(ahead(by_dst, begin + k)) * rank + columns.first;
      terms.prefetch(by_dst, begin + k);
      columns.prefetch(grad + later);
      if (of_terms) doubles.prefetch_to_write(of_terms + later);
      if (of_edge) columns.prefetch_to_write(of_edge + later);
      const float* const g = grad + by_dst.edge_at(begin + k) * rank + columns.first;
      terms.sums(by_dst.other[begin + k], v, by_dst.edge_at(begin + k), [&](int c, const Wide& a) {
        const SquashedFactor<Group::L> factor(a, is_tanh);
        f[k][c] = factor.f;
        slopes[k][c] = factor.slope;
        before[k][c] = product[c];
        sum_before[k][c] = running[c];
        running[c] = running[c] * factor.f + terms.wide(g, c) * product[c];
        product[c] *= factor.f;
      });
    }
    is_finite &= !has_nan(product);
    for (Index k = degree - 1; k >= 0; --k) {
      const Index target = by_dst.edge_at(begin + k) * rank + columns.first;
      const float* const g = grad + target;
      UNROLL for (int c = 0; c < Group::C; ++c) {
        const Wide of_f = sum_before[k][c] * after[c] + before[k][c] * sum_after[c], of_a = of_f * slopes[k][c];
        sum_after[c] = sum_after[c] * f[k][c] + terms.wide(g, c) * after[c];
        after[c] *= f[k][c];
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
