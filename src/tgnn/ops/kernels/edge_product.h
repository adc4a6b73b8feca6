// Products of edge factors over the edges into each destination, with a degree exponent and an activation.
#pragma once

#include "edge_gradients.h"
#include "forward.h"

namespace {

// The product of a row over its nonzero factors, and the number of zeros.
struct RowProduct {
  alignas(64) double mantissa[kBlock];
  alignas(64) int64_t exponent[kBlock];
  alignas(64) int64_t zeros[kBlock];

  explicit RowProduct(int width) {
    std::fill(mantissa, mantissa + width, 1.0);
    std::fill(exponent, exponent + width, 0);
    std::fill(zeros, zeros + width, 0);
  }

  void normalize(int width) {
    SIMD for (int j = 0; j < width; ++j) {
      double m = mantissa[j];
      int64_t e = exponent[j];
      scaled::normalize(m, e);
      mantissa[j] = m;
      exponent[j] = e;
    }
  }

  // Multiplies by the factors of the k-th edge. Three factors that are computed from floats stay in the range of
  // double, except small values of a sigmoid, so the exponent is extracted after every third one.
  template <class T>
  void times(const FactorRow& row, int width, Index k, bool is_sigmoid) {
    if constexpr (sizeof(T) == sizeof(float)) {
      SIMD for (int j = 0; j < width; ++j) {
        mantissa[j] *= row.f[j] == 0.0 ? 1.0 : row.f[j];
        zeros[j] += row.f[j] == 0.0;
      }
      if (k % 3 == 2 || is_sigmoid) normalize(width);
    } else {
      multiply_nonzero(row.f, width, mantissa, exponent, zeros);
      if (row.has_extra)
        for (int j = 0; j < width; ++j) exponent[j] += row.f[j] == 0.0 ? 0 : row.extra[j];
    }
  }
};

template <class T>
void edge_product(const EdgeProduct<T>& op, const CompressedEdges& by_dst, T* out) {
  const Index rank = op.terms.rank;
  for_ranges(by_dst, rank, [&](Index first, Index last) {
    FactorRow row;
    for (Index column = 0; column < rank; column += kBlock) {
      const int width = int(std::min<Index>(kBlock, rank - column));
      for (Index v = first; v < last; ++v) {
        RowProduct product(width);
        for (Index k = by_dst.ptr[v]; k < by_dst.ptr[v + 1]; ++k) {
          edge_factors(op, by_dst.other[k], v, by_dst.edge_at(k), column, width, row);
          product.times<T>(row, width, k - by_dst.ptr[v], op.activation == kSigmoid);
        }
        product.normalize(width);
        double* const y = product.mantissa;
        SIMD for (int j = 0; j < width; ++j) y[j] = product.zeros[j] ? y[j] * 0.0 : y[j];  // NaN stays NaN
        const double q = power_of_row(op.exponent, by_dst.ptr[v + 1] - by_dst.ptr[v]);
        if (q != 1.0) signed_powers(q, width, y, product.exponent);
        SIMD for (int j = 0; j < width; ++j) y[j] = scaled::join(y[j], product.exponent[j]);
        if (op.tanh) activate_factors(kTanh, 1.0, y, width, y, row.slope);
        T* const target = out + v * rank + column;
        SIMD for (int j = 0; j < width; ++j) target[j] = T(y[j]);
      }
    }
  });
}

// d loss / d f of the edges into each destination, as WideRows describes it, for one block of columns.
struct RowValues {
  std::vector<double> mantissa;
  std::vector<int32_t> code;

  RowValues(Index rows, int width) : mantissa(rows * width), code(rows * width) {}

  // g act'(y) q y / f, with y = sign(P) |P|^q. With a zero factor: see backend_reference.py.
  template <class T>
  void set(Index v, int width, RowProduct& product, double q, bool tanh, const T* g) {
    double* const m = product.mantissa;
    int64_t* const e = product.exponent;
    alignas(64) double y[kBlock], slope[kBlock];
    if (q != 1.0) signed_powers(q, width, m, e);
    if (tanh) {
      SIMD for (int j = 0; j < width; ++j) {
        const double value = scaled::join(m[j], e[j]);
        y[j] = product.zeros[j] ? m[j] * 0.0 : value;  // times 0: NaN stays NaN
      }
      SIMD for (int j = 0; j < width; ++j) scaled::slope_of_tanh(y[j], slope[j], e[j]);
      SIMD for (int j = 0; j < width; ++j) m[j] *= slope[j];
    }
    for (int j = 0; j < width; ++j) {
      double outer = double(g[j]);
      scaled::normalize(outer, e[j]);
      const bool vanishes = product.zeros[j] > 1 || (product.zeros[j] == 1 && q != 1.0);
      mantissa[v * width + j] = m[j] * outer * q * (vanishes ? 0.0 : 1.0);
      code[v * width + j] = WideRows::encode(e[j], product.zeros[j] == 1);
    }
  }

  // Computes the gradients of the steps of the factors of one edge.
  template <class T>
  void gradients(const EdgeProduct<T>& op, Index v, Index e, Index column, int width, const FactorRow& row,
                 Divisors& by, GradientRow& out) const {
    const double* const m = mantissa.data() + v * width;
    const int32_t* const c = code.data() + v * width;
    alignas(64) double d[kBlock], down[kBlock];
    by.set(row.f, width);
    if (row.has_extra)
      for (int j = 0; j < width; ++j) by.exponent[j] += row.f[j] == 0.0 ? 0 : row.extra[j];
    exact_slopes(m, c, by, width, d);
    chain_rule(op, row, e, column, width, d, out);
    if (!is_huge<T>(d, width)) return;
    for (int j = 0; j < width; ++j) by.exponent[j] += kDown;
    exact_slopes(m, c, by, width, down);
    chain_rule_of_huge(op, row, e, column, width, d, down, out);
  }
};

constexpr Index kKept = 24;  // rows with at most this many edges keep their factors instead of computing them twice

template <class T>
void edge_product_backward(const EdgeProduct<T>& op, const CompressedEdges& by_dst, const CompressedEdges& by_src,
                           const T* grad, const EdgeGradients<T>& out) {
  const Index rank = op.terms.rank, edges = by_dst.ptr[by_dst.groups];
  const bool of_table = out.edge && op.terms.type;
  const bool of_edges = out.dst || out.edge || out.scale || out.shift || out.gate;
  // If the gradients of all edges are stored anyway and fit into T, those of the sources are sums of them.
  const bool from_edges = out.src && out.edge && !of_table;
  std::atomic<bool> overflow{false};
  CoefficientGradients<T> coefficients(op, out, edges);
  const Index threads = threads_for(by_dst, rank);
  for (Index column = 0; column < rank; column += kBlock) {
    const int width = int(std::min<Index>(kBlock, rank - column));
    RowValues values(by_dst.groups, width);
    const Index parts = of_table ? Parts::number_of(edges * width, op.terms.types * width) : threads;
    TableSums table(of_table ? parts : 0, op.terms.types, width);
    for_parts(by_dst, parts, threads > 1, [&](Index part, Index first, Index last) {
      std::vector<FactorRow> kept(of_edges ? kKept : 1);
      alignas(64) double sum[kBlock];
      Divisors by;
      GradientRow gradient;
      for (Index v = first; v < last; ++v) {
        const Index begin = by_dst.ptr[v], end = by_dst.ptr[v + 1];
        const bool keep = of_edges && end - begin <= kKept;
        RowProduct product(width);
        for (Index k = begin; k < end; ++k) {
          FactorRow& row = kept[keep ? k - begin : 0];
          edge_factors(op, by_dst.other[k], v, by_dst.edge_at(k), column, width, row);
          product.times<T>(row, width, k - begin, op.activation == kSigmoid);
        }
        product.normalize(width);
        values.set(v, width, product, power_of_row(op.exponent, end - begin), op.tanh != 0, grad + v * rank + column);
        if (!of_edges) continue;
        FiniteSum of_dst(width);
        for (Index k = begin; k < end; ++k) {
          const Index e = by_dst.edge_at(k);
          FactorRow& row = kept[keep ? k - begin : 0];
          if (!keep) edge_factors(op, by_dst.other[k], v, e, column, width, row);
          values.gradients(op, v, e, column, width, row, by, gradient);
          coefficients.add(e, column, width, gradient);
          if (out.dst) of_dst.add(gradient.a, width);
          if (of_table) table.add(part, op.terms.type[e], 0, gradient.a, width);
          if (from_edges && overflows<T>(gradient.a, width)) overflow = true;
          if (out.edge && !of_table) store<T, 0>(gradient.a, width, out.edge + e * rank + column);
        }
        if (out.dst) {
          std::fill(sum, sum + width, 0.0);
          of_dst.finish(width, sum);
          store<T, 0>(sum, width, out.dst + v * rank + column);
        }
      }
    });
    if (of_table) table.store(parts, op.terms.types, rank, column, width, out.edge);
    if (!out.src || from_edges) continue;
    for_ranges(by_src, rank, [&](Index first, Index last) {
      FactorRow row;
      GradientRow gradient;
      Divisors by;
      alignas(64) double sum[kBlock];
      for (Index u = first; u < last; ++u) {
        FiniteSum of_src(width);
        for (Index k = by_src.ptr[u]; k < by_src.ptr[u + 1]; ++k) {
          const Index v = by_src.other[k], e = by_src.edge_at(k);
          edge_factors(op, u, v, e, column, width, row);
          values.gradients(op, v, e, column, width, row, by, gradient);
          of_src.add(gradient.a, width);
        }
        std::fill(sum, sum + width, 0.0);
        of_src.finish(width, sum);
        store<T, 0>(sum, width, out.src + u * rank + column);
      }
    });
  }
  coefficients.store();
  if (from_edges && overflow)
    edge_product_backward(op, by_dst, by_src, grad, EdgeGradients<T>{out.src});
  else if (from_edges)
    sum_edge_rows(out.edge, rank, by_src, out.src);
}

}  // namespace
