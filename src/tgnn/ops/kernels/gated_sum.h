// Gated sums: out_v = sum of eta_e x_u over the edges e = (u, v), with eta_e = w_e sigmoid(a_e) per channel.
#pragma once

#include "edge_gradients.h"
#include "vectors.h"

namespace {

template <class T>
struct GatedSum {
  EdgeTerms<T> terms;
  const T *x, *weight;  // [N_src, rank], [E] or null
  Index normalize;
  double eps;

  T weight_of(Index e) const { return weight ? weight[e] : T(1); }
};

// sigmoid(a), and 1 - sigmoid(a), from exp(-a) without cancellation. They are 0 where they would be subnormal.
template <class T, int L>
struct Gate {
  Vector<T, L> open, closed;

  explicit Gate(Vector<T, L> a) {
    constexpr T most = sizeof(T) == sizeof(float) ? T(87) : T(700);
    const auto above = a < -most ? Vector<T, L>{} - most : a;  // NaN stays NaN
    const auto decay = exp_of<T, L>(above > most ? Vector<T, L>{} - most : -above);
    const auto inverse = T(1) / (T(1) + decay);
    open = a < -most ? Vector<T, L>{} : inverse;
    closed = a > most ? Vector<T, L>{} : decay * inverse;
  }
};

template <class T>
constexpr int kLanes = kVectorBytes / int(sizeof(T));

template <class T>
void gated_sum(const GatedSum<T>& op, const CompressedEdges& by_dst, T* out, T* total) {
  const Index rank = op.terms.rank;
  for_ranges(by_dst, rank, [&](Index first, Index last) {
    for (Index v = first; v < last; ++v)
      for_each_columns<T, kLanes<T>>(0, rank, [&](auto columns) {
        using Group = decltype(columns);
        constexpr int C = Group::C;
        typename Group::V sum[C] = {}, gates[C] = {};
        const Rows<T> src(op.terms.src, rank, columns.first), edge(op.terms.edge, rank, columns.first);
        const Rows<T> x(op.x, rank, columns.first);
        const T* const dst = Rows<T>(op.terms.dst, rank, columns.first)[v];
        for (Index k = by_dst.ptr[v]; k < by_dst.ptr[v + 1]; ++k) {
          const Index u = by_dst.other[k], e = by_dst.edge_at(k);
          columns.prefetch(edge[op.terms.edge_row(by_dst.edge_at(ahead(by_dst, k)))]);
          const T *const of_src = src[u], *const of_edge = edge[op.terms.edge_row(e)], *const of_x = x[u];
          const T w = op.weight_of(e);
          UNROLL for (int c = 0; c < C; ++c) {
            const auto a = (columns.load(of_src, c) + columns.load(dst, c)) + columns.load(of_edge, c);
            const auto eta = w * Gate<T, Group::L>(a).open;
            sum[c] += eta * columns.load(of_x, c);
            gates[c] += eta;
          }
        }
        UNROLL for (int c = 0; c < C; ++c) {
          const auto divisor = gates[c] + T(op.eps);
          if (op.normalize) columns.store(divisor, total + v * rank + columns.first, c);
          columns.store(op.normalize ? sum[c] / divisor : sum[c], out + v * rank + columns.first, c);
        }
      });
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
  if (out.edge && !of_table) expect_to_fill(out.edge, edges * rank * Index(sizeof(T)));
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
  const T* const mean = op.normalize ? result : nullptr;
  const Index threads = threads_for(by_dst, rank);
  const bool of_edges = out.dst || out.edge || out.weight;
  for (Index panel = 0; panel < rank; panel += kBlock) {
    const Index end_of_panel = std::min(panel + kBlock, rank), panel_width = end_of_panel - panel;
    if (of_edges) {
      const Index parts = of_table ? Parts::number_of(edges * panel_width, op.terms.types * panel_width) : threads;
      TableSums table(of_table ? parts : 0, op.terms.types, panel_width);
      for_parts(by_dst, parts, threads > 1, [&](Index part, Index first, Index last) {
        for (Index v = first; v < last; ++v)
          for_each_columns<T, kLanes<T>>(panel, end_of_panel, [&](auto columns) {
            using Group = decltype(columns);
            constexpr int C = Group::C;
            const Index column = columns.first;
            const Rows<T> src(op.terms.src, rank, column), edge(op.terms.edge, rank, column), x(op.x, rank, column);
            const T *const dst = Rows<T>(op.terms.dst, rank, column)[v], *const y = Rows<T>(mean, rank, column)[v];
            const T* const g = of_sum + v * rank + column;
            typename Group::V sum[C] = {};
            for (Index k = by_dst.ptr[v]; k < by_dst.ptr[v + 1]; ++k) {
              const Index u = by_dst.other[k], e = by_dst.edge_at(k);
              const Index later = by_dst.edge_at(ahead(by_dst, k));
              columns.prefetch(edge[op.terms.edge_row(later)]);
              if (out.edge && !of_table) columns.prefetch_to_write(out.edge + later * rank + column);
              const T *const of_src = src[u], *const of_edge = edge[op.terms.edge_row(e)], *const of_x = x[u];
              const T w = op.weight_of(e);
              typename Group::V of_a[C], of_weight = {};
              UNROLL for (int c = 0; c < C; ++c) {
                const auto a = (columns.load(of_src, c) + columns.load(dst, c)) + columns.load(of_edge, c);
                const Gate<T, Group::L> gate(a);
                const auto of_eta = columns.load(g, c) * (columns.load(of_x, c) - columns.load(y, c));
                const auto of_gate = gate.open * of_eta;
                of_weight += of_gate;
                of_a[c] = w * (gate.closed * of_gate);
                sum[c] += of_a[c];
              }
              if (of_table) {
                alignas(64) T row[Group::L * C];
                UNROLL for (int c = 0; c < C; ++c) columns.store(of_a[c], row, c);
                table.add(part, op.terms.type[e], column - panel, row, columns.count);
              } else if (out.edge) {
                UNROLL for (int c = 0; c < C; ++c) columns.store(of_a[c], out.edge + e * rank + column, c);
              }
              if (out.weight) {
                T total_of_weight = column ? out.weight[e] : T(0);
                for (int j = 0; j < Group::L; ++j) total_of_weight += of_weight[j];
                out.weight[e] = total_of_weight;
              }
            }
            if (out.dst) UNROLL for (int c = 0; c < C; ++c) columns.store(sum[c], out.dst + v * rank + column, c);
          });
      });
      if (of_table) table.store(parts, op.terms.types, rank, panel, int(panel_width), out.edge);
    }
    if (!out.src && !out.x) continue;
    for_ranges(by_src, rank, [&](Index first, Index last) {
      for (Index u = first; u < last; ++u)
        for_each_columns<T, kLanes<T>>(panel, end_of_panel, [&](auto columns) {
          using Group = decltype(columns);
          constexpr int C = Group::C;
          const Index column = columns.first;
          const Rows<T> dst(op.terms.dst, rank, column), edge(op.terms.edge, rank, column), y(mean, rank, column);
          const Rows<T> gradient(of_sum, rank, column);
          const T *const src = Rows<T>(op.terms.src, rank, column)[u], *const x = op.x + u * rank + column;
          typename Group::V sum[C] = {}, sum_x[C] = {};
          for (Index k = by_src.ptr[u]; k < by_src.ptr[u + 1]; ++k) {
            const Index v = by_src.other[k], e = by_src.edge_at(k);
            columns.prefetch(edge[op.terms.edge_row(by_src.edge_at(ahead(by_src, k)))]);
            const T *const of_dst = dst[v], *const of_edge = edge[op.terms.edge_row(e)], *const g = gradient[v];
            const T* const of_y = y[v];
            const T w = op.weight_of(e);
            UNROLL for (int c = 0; c < C; ++c) {
              const auto a = (columns.load(src, c) + columns.load(of_dst, c)) + columns.load(of_edge, c);
              const Gate<T, Group::L> gate(a);
              const auto of_x = w * gate.open * columns.load(g, c);
              sum_x[c] += of_x;
              sum[c] += of_x * gate.closed * (columns.load(x, c) - columns.load(of_y, c));
            }
          }
          UNROLL for (int c = 0; c < C; ++c) {
            if (out.src) columns.store(sum[c], out.src + u * rank + column, c);
            if (out.x) columns.store(sum_x[c], out.x + u * rank + column, c);
          }
        });
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
