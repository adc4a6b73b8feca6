// Gated sums: out_v = sum of eta_e x_u over the edges e = (u, v), with eta_e = w_e sigmoid(a_e) per channel.
#pragma once

#include "edge_gradients.h"

namespace {

template <class T>
struct GatedSum {
  EdgeTerms<T> terms;
  const T *x, *weight;  // [N_src, rank], [E] or null
  Index normalize;
  double eps;
};

// sigmoid(a) and its slope, both from exp(-|a|) without cancellation. They are 0 if the exponential is subnormal.
template <class T>
inline void sigmoid_and_slope(T a, T& value, T& slope) {
  using F = scaled::Float<T>;
  constexpr T least = sizeof(T) == sizeof(float) ? T(-87) : T(-708);
  const T y = -std::fabs(a), inside = y < least ? least : y;
  const T shifted = inside * T(1.4426950408889634) + F::kShifter;
  const T k = shifted - F::kShifter;
  const T r = (inside - k * F::kLn2High) - k * F::kLn2Low;
  T p = 0;  // exp(r) - 1
  if (sizeof(T) == sizeof(double)) {
    p = scaled::expm1_series(r);
  } else {
    p = ((T(1.0 / 40320) * r + T(1.0 / 5040)) * r + T(1.0 / 720)) * r + T(1.0 / 120);
    p = ((p * r + T(1.0 / 24)) * r + T(1.0 / 6)) * r + T(1.0 / 2);
    p = p * r * r + r;
  }
  const T power = scaled::exp2_of_shifted<T>(shifted, 0), exponential = power + power * p;
  const T decay = y < least ? T(0) : exponential, inverse = T(1) / (T(1) + decay);
  value = a < T(0) ? decay * inverse : inverse;
  slope = decay * inverse * inverse;
}

// The gates of one edge.
template <class T>
struct GateRow {
  alignas(64) T a[kBlock], value[kBlock], slope[kBlock];

  void compute(const GatedSum<T>& op, Index u, Index v, Index e, Index column, int width) {
    op.terms.sums(u, v, e, column, width, a);
    SIMD for (int j = 0; j < width; ++j) sigmoid_and_slope(a[j], value[j], slope[j]);
  }
};

template <class T>
void gated_sum(const GatedSum<T>& op, const CompressedEdges& by_dst, T* out, T* total) {
  const Index rank = op.terms.rank;
  for_ranges(by_dst, rank, [&](Index first, Index last) {
    GateRow<T> gate;
    alignas(64) T sum[kBlock], gates[kBlock];
    for (Index column = 0; column < rank; column += kBlock) {
      const int width = int(std::min<Index>(kBlock, rank - column));
      for (Index v = first; v < last; ++v) {
        std::fill(sum, sum + width, T(0));
        std::fill(gates, gates + width, T(0));
        for (Index k = by_dst.ptr[v]; k < by_dst.ptr[v + 1]; ++k) {
          const Index u = by_dst.other[k], e = by_dst.edge_at(k);
          gate.compute(op, u, v, e, column, width);
          const T* const x = op.x + u * rank + column;
          const T w = op.weight ? op.weight[e] : T(1);
          SIMD for (int j = 0; j < width; ++j) {
            const T eta = w * gate.value[j];
            sum[j] += eta * x[j];
            gates[j] += eta;
          }
        }
        T* const target = out + v * rank + column;
        if (op.normalize) {
          T* const divisor = total + v * rank + column;
          SIMD for (int j = 0; j < width; ++j) divisor[j] = gates[j] + T(op.eps);
          SIMD for (int j = 0; j < width; ++j) target[j] = sum[j] / divisor[j];
        } else {
          std::copy(sum, sum + width, target);
        }
      }
    }
  });
}

template <class T>
struct GatedGradients {
  T *src, *dst, *edge, *x, *weight;
};

template <class T>
void gated_sum_backward(const GatedSum<T>& op, const CompressedEdges& by_dst, const CompressedEdges& by_src,
                        const T* grad, const T* result, const T* total, const GatedGradients<T>& out) {
  const Index rank = op.terms.rank, edges = by_dst.ptr[by_dst.groups];
  const bool of_table = out.edge && op.terms.type;
  // d loss / d sum: the gradient of the result, divided by the sum of the gates if they are normalized
  std::unique_ptr<T[]> scratch;
  const T* of_sum = grad;
  if (op.normalize) {
    scratch.reset(new T[by_dst.groups * rank]);
    parallel_for(0, by_dst.groups * rank, 32768, [&](Index begin, Index end) {
      SIMD for (Index i = begin; i < end; ++i) scratch[i] = grad[i] / total[i];
    });
    of_sum = scratch.get();
  }
  // Calls use(gate, d loss / d eta, d loss / d a, w) for an edge.
  const auto edge_gradient = [&](GateRow<T>& gate, Index u, Index v, Index e, Index column, int width, T* of_eta,
                                 T* of_a) {
    gate.compute(op, u, v, e, column, width);
    const T *x = op.x + u * rank + column, *g = of_sum + v * rank + column, *y = result + v * rank + column;
    const T w = op.weight ? op.weight[e] : T(1);
    if (op.normalize)
      SIMD for (int j = 0; j < width; ++j) of_eta[j] = g[j] * (x[j] - y[j]);
    else
      SIMD for (int j = 0; j < width; ++j) of_eta[j] = g[j] * x[j];
    SIMD for (int j = 0; j < width; ++j) of_a[j] = w * gate.slope[j] * of_eta[j];
    return w;
  };
  const Index threads = threads_for(by_dst, rank);
  const bool of_edges = out.dst || out.edge || out.weight;
  for (Index column = 0; column < rank; column += kBlock) {
    const int width = int(std::min<Index>(kBlock, rank - column));
    if (of_edges) {
      const Index parts = of_table ? Parts::number_of(edges * width, op.terms.types * width) : threads;
      TableSums table(of_table ? parts : 0, op.terms.types, width);
      for_parts(by_dst, parts, threads > 1, [&](Index part, Index first, Index last) {
        GateRow<T> gate;
        alignas(64) T of_eta[kBlock], of_a[kBlock], sum[kBlock];
        alignas(64) double wide[kBlock];
        for (Index v = first; v < last; ++v) {
          std::fill(sum, sum + width, T(0));
          for (Index k = by_dst.ptr[v]; k < by_dst.ptr[v + 1]; ++k) {
            const Index e = by_dst.edge_at(k);
            edge_gradient(gate, by_dst.other[k], v, e, column, width, of_eta, of_a);
            SIMD for (int j = 0; j < width; ++j) sum[j] += of_a[j];
            if (of_table) {
              SIMD for (int j = 0; j < width; ++j) wide[j] = double(of_a[j]);
              table.add(part, op.terms.type[e], wide, width);
            } else if (out.edge) {
              std::copy(of_a, of_a + width, out.edge + e * rank + column);
            }
            if (out.weight) {
              T of_weight = column ? out.weight[e] : T(0);
#pragma omp simd reduction(+ : of_weight)
              for (int j = 0; j < width; ++j) of_weight += gate.value[j] * of_eta[j];
              out.weight[e] = of_weight;
            }
          }
          if (out.dst) std::copy(sum, sum + width, out.dst + v * rank + column);
        }
      });
      if (of_table) table.store(parts, op.terms.types, rank, column, width, out.edge);
    }
    if (!out.src && !out.x) continue;
    for_ranges(by_src, rank, [&](Index first, Index last) {
      GateRow<T> gate;
      alignas(64) T of_eta[kBlock], of_a[kBlock], sum[kBlock], sum_x[kBlock];
      for (Index u = first; u < last; ++u) {
        std::fill(sum, sum + width, T(0));
        std::fill(sum_x, sum_x + width, T(0));
        for (Index k = by_src.ptr[u]; k < by_src.ptr[u + 1]; ++k) {
          const Index v = by_src.other[k], e = by_src.edge_at(k);
          const T w = edge_gradient(gate, u, v, e, column, width, of_eta, of_a);
          const T* const g = of_sum + v * rank + column;
          SIMD for (int j = 0; j < width; ++j) sum[j] += of_a[j];
          SIMD for (int j = 0; j < width; ++j) sum_x[j] += w * gate.value[j] * g[j];
        }
        if (out.src) std::copy(sum, sum + width, out.src + u * rank + column);
        if (out.x) std::copy(sum_x, sum_x + width, out.x + u * rank + column);
      }
    });
  }
}

// out[e] = src_u + dst_v + edge_e.
template <class T>
void edge_rows(const EdgeTerms<T>& terms, const CompressedEdges& by_dst, T* out) {
  for_ranges(by_dst, terms.rank, [&](Index first, Index last) {
    for (Index v = first; v < last; ++v)
      for (Index k = by_dst.ptr[v]; k < by_dst.ptr[v + 1]; ++k) {
        const Index e = by_dst.edge_at(k);
        terms.sums(by_dst.other[k], v, e, 0, int(terms.rank), out + e * terms.rank);
      }
  });
}

template <class T>
void edge_rows_backward(const EdgeTerms<T>& terms, const CompressedEdges& by_dst, const CompressedEdges& by_src,
                        const T* grad, T* src, T* dst, T* edge) {
  if (src) sum_edge_rows(grad, terms.rank, by_src, src);
  if (dst) sum_edge_rows(grad, terms.rank, by_dst, dst);
  if (edge) sum_by_type(grad, terms, by_dst, edge);  // without types, the gradient of the edges is `grad`
}

}  // namespace
