// Products and sums over the other edges into the same destination: one row per edge, in linear time.
//
// The product of all factors but f_k is (f_0 ... f_{k-1}) (f_{k+1} ... f_{n-1}). Its derivatives are the slopes of the
// same products of dual numbers f_k + epsilon G_k. Nothing is divided, so both are exact at zeros.
#pragma once

#include "edge_product.h"

namespace {

// Numbers of a row that stays within 2^+-kNarrow need no exponent. Only rows of floats are treated so: a slope of tanh
// that underflows in double gives 0 in float.
constexpr double kNarrow = 300.0;

inline void assign(double& x, double f, int64_t) { x = f; }
inline void assign(Number& x, double f, int64_t extra) { x = Number::of(f, extra); }
inline double value_of(double x) { return x; }
inline double value_of(const Number& x) { return x.value(); }
inline double scaled_down(double x) { return x * scaled::power_of_two(-kDown); }
inline double scaled_down(const Number& x) { return scaled::join(x.mantissa, x.exponent - kDown); }
inline void set_product(double& x, double mantissa, int64_t e) { x = scaled::join(mantissa, e); }
inline void set_product(Number& x, double mantissa, int64_t e) { x = Number::of(mantissa, e); }
inline Number as_number(double x) { return Number::of(x); }
inline Number as_number(const Number& x) { return x; }
inline double slope_of_tanh(double x) {
  double slope;
  int64_t e = 0;
  scaled::slope_of_tanh(x, slope, e);
  return scaled::join(slope, e);
}
inline Number slope_of_tanh(const Number& x) {
  double slope;
  int64_t e = 0;
  scaled::slope_of_tanh(x.value(), slope, e);
  return Number::of(slope, e);
}

// Replaces products x by y = sign(x) |x|^q. Writes the slope q y / x, which is defined as 0 at x = 0.
template <class N>
void raise_products(double q, int width, N* x, N* slope) {
  alignas(64) double mantissa[kBlock], base[kBlock];
  alignas(64) int64_t exponent[kBlock], base_exponent[kBlock];
  for (int j = 0; j < width; ++j) {
    const Number number = as_number(x[j]);
    mantissa[j] = base[j] = number.mantissa;
    exponent[j] = base_exponent[j] = number.exponent;
  }
  signed_powers(q, width, mantissa, exponent);
  for (int j = 0; j < width; ++j) {
    set_product(x[j], mantissa[j], exponent[j]);
    const double divisor = base[j] == 0.0 ? 1.0 : base[j];
    set_product(slope[j], q * mantissa[j] / divisor, exponent[j] - base_exponent[j]);
  }
}

// Factors of one row, [degree, width], and the products before each of them.
template <class N>
struct Scan {
  std::vector<N> f, before, of_grad, sum_before;

  void set(const double* factors, const int64_t* extra, Index count) {
    f.resize(count);
    before.resize(count);
    for (Index i = 0; i < count; ++i) assign(f[i], factors[i], extra ? extra[i] : 0);
  }

  void multiply_before(Index degree, int width) {
    alignas(64) N running[kBlock];
    for (int j = 0; j < width; ++j) assign(running[j], 1.0, 0);
    for (Index k = 0; k < degree; ++k) {
      N *const at = before.data() + k * width, *const factor = f.data() + k * width;
      SIMD for (int j = 0; j < width; ++j) {
        at[j] = running[j];
        running[j] = running[j] * factor[j];
      }
    }
  }

  // Calls use(k, products of the other factors) for all edges, the last one first. `use` may change the products.
  template <class F>
  void exclusive(Index degree, int width, const F& use) {
    alignas(64) N after[kBlock], others[kBlock];
    for (int j = 0; j < width; ++j) assign(after[j], 1.0, 0);
    for (Index k = degree - 1; k >= 0; --k) {
      N *const at = before.data() + k * width, *const factor = f.data() + k * width;
      SIMD for (int j = 0; j < width; ++j) {
        others[j] = at[j] * after[j];
        after[j] = after[j] * factor[j];
      }
      use(k, others);
    }
  }

  // Calls use(k, slopes) with the sum over the other edges e of of_grad_e times the factors of all edges but e and k.
  template <class F>
  void exclusive_slopes(Index degree, int width, const F& use) {
    alignas(64) N running[kBlock], after[kBlock], sum_after[kBlock], slopes[kBlock];
    sum_before.resize(degree * width);
    for (int j = 0; j < width; ++j) {
      assign(running[j], 0.0, 0);
      assign(after[j], 1.0, 0);
      assign(sum_after[j], 0.0, 0);
    }
    for (Index k = 0; k < degree; ++k) {
      const Index i = k * width;
      SIMD for (int j = 0; j < width; ++j) {
        sum_before[i + j] = running[j];
        running[j] = running[j] * f[i + j] + of_grad[i + j] * before[i + j];
      }
    }
    for (Index k = degree - 1; k >= 0; --k) {
      const Index i = k * width;
      SIMD for (int j = 0; j < width; ++j) {
        slopes[j] = sum_before[i + j] * after[j] + before[i + j] * sum_after[j];
        sum_after[j] = sum_after[j] * f[i + j] + of_grad[i + j] * after[j];
        after[j] = after[j] * f[i + j];
      }
      use(k, slopes);
    }
  }
};

// The factors of one row with all steps, for one block of columns.
template <class T>
struct ExclusiveRow {
  std::vector<double> factors;
  std::vector<int64_t> extra;
  std::vector<FactorRow> kept = std::vector<FactorRow>(kKept);
  Scan<double> narrow;
  Scan<Number> wide;

  // Computes the factors of row v. Returns whether they need no exponent.
  bool read(const EdgeProduct<T>& op, const CompressedEdges& by_dst, Index v, Index column, int width) {
    const Index begin = by_dst.ptr[v], degree = by_dst.ptr[v + 1] - begin;
    factors.resize(degree * width);
    bool has_extra = false;
    double least = 1.0, most = 1.0;
    for (Index k = 0; k < degree; ++k) {
      FactorRow& row = kept[degree <= kKept ? k : 0];
      edge_factors(op, by_dst.other[begin + k], v, by_dst.edge_at(begin + k), column, width, row);
      std::copy(row.f, row.f + width, factors.data() + k * width);
      if (row.has_extra) {
        if (!has_extra) extra.assign(degree * width, 0);
        has_extra = true;
        std::copy(row.extra, row.extra + width, extra.data() + k * width);
      }
#pragma omp simd reduction(min : least) reduction(max : most)
      for (int j = 0; j < width; ++j) {
        const double size = std::fabs(row.f[j]), nonzero = size == 0.0 ? 1.0 : size;
        least = std::min(least, nonzero);
        most = std::max(most, nonzero);
      }
    }
    const double reach = std::max(std::log2(most), -std::log2(least));
    const bool is_narrow = sizeof(T) == sizeof(float) && reach * double(degree) < kNarrow;  // false for NaN
    if (is_narrow)
      narrow.set(factors.data(), nullptr, degree * width);
    else
      wide.set(factors.data(), has_extra ? extra.data() : nullptr, degree * width);
    return is_narrow;
  }
};

// Columns per block: fewer in rows of large degree, so that the scratch space stays small.
inline int exclusive_width(Index degree, Index rest) {
  const Index most = std::max<Index>(8, (Index(1) << 19) / std::max<Index>(1, degree));
  return int(std::min(std::min<Index>(kBlock, most), rest));
}

// `fast(v)` may compute the whole row v, and returns whether it has done so.
template <class T, class Fast>
void exclusive_product(const EdgeProduct<T>& op, const CompressedEdges& by_dst, T* out, const Fast& fast) {
  const Index rank = op.terms.rank;
  for_ranges(by_dst, rank, [&](Index first, Index last) {
    ExclusiveRow<T> row;
    alignas(64) double y[kBlock], slope[kBlock];
    for (Index v = first; v < last; ++v) {
      if (fast(v)) continue;
      const Index begin = by_dst.ptr[v], degree = by_dst.ptr[v + 1] - begin;
      const double q = power_of_row(op.exponent, degree - 1);
      for (Index column = 0; column < rank && degree;) {
        const int width = exclusive_width(degree, rank - column);
        const auto run = [&](auto& scan) {
          scan.multiply_before(degree, width);
          scan.exclusive(degree, width, [&](Index k, auto* others) {
            std::remove_reference_t<decltype(*others)> unused[kBlock];
            if (q != 1.0) raise_products(q, width, others, unused);
            for (int j = 0; j < width; ++j) y[j] = value_of(others[j]);
            if (op.tanh) activate_factors(kTanh, 1.0, y, width, y, slope);
            T* const target = out + by_dst.edge_at(begin + k) * rank + column;
            SIMD for (int j = 0; j < width; ++j) target[j] = T(y[j]);
          });
        };
        if (row.read(op, by_dst, v, column, width))
          run(row.narrow);
        else
          run(row.wide);
        column += width;
      }
    }
  });
}

// The gradients of sources and of types are sums over edges. A gradient of an edge may be too large for T although the
// sum is not, so they are added in double. `fast(v, of_terms, of_edge)` may compute the gradients of the terms of all
// edges into v in double and in T, and the gradient of v.
template <class T, class Fast>
void exclusive_product_backward(const EdgeProduct<T>& op, const CompressedEdges& by_dst, const CompressedEdges& by_src,
                                const T* grad, const EdgeGradients<T>& out, const Fast& fast) {
  const Index rank = op.terms.rank, edges = by_dst.ptr[by_dst.groups];
  const bool of_table = out.edge && op.terms.type;
  CoefficientGradients<T> coefficients(op, out, edges);
  T* const of_edge = of_table ? nullptr : out.edge;
  std::unique_ptr<double[]> scratch(out.src || of_table ? new double[edges * rank] : nullptr);
  double* const of_terms = scratch.get();  // gradient of the terms of each edge, [E, rank]
  expect_to_fill(of_edge, edges * rank * Index(sizeof(T)));
  if (of_terms) expect_to_fill(of_terms, edges * rank * Index(sizeof(double)));
  for_ranges(by_dst, rank, [&](Index first, Index last) {
    ExclusiveRow<T> row;
    GradientRow gradient;
    alignas(64) double d[kBlock], down[kBlock], sum[kBlock];
    for (Index v = first; v < last; ++v) {
      if (fast(v, of_terms, of_edge)) continue;
      const Index begin = by_dst.ptr[v], degree = by_dst.ptr[v + 1] - begin;
      const double q = power_of_row(op.exponent, degree - 1);
      if (!degree && out.dst) std::fill_n(out.dst + v * rank, rank, T(0));
      for (Index column = 0; column < rank && degree;) {
        const int width = exclusive_width(degree, rank - column);
        FiniteSum of_dst(width);
        const auto run = [&](auto& scan) {
          scan.multiply_before(degree, width);
          scan.of_grad.resize(degree * width);
          scan.exclusive(degree, width, [&](Index k, auto* others) {
            std::remove_reference_t<decltype(*others)> slope[kBlock];
            if (q != 1.0) raise_products(q, width, others, slope);
            const T* const g = grad + by_dst.edge_at(begin + k) * rank + column;
            auto* const target = scan.of_grad.data() + k * width;
            for (int j = 0; j < width; ++j) assign(target[j], double(g[j]), 0);
            if (op.tanh)
              SIMD for (int j = 0; j < width; ++j) target[j] = target[j] * slope_of_tanh(others[j]);
            else  // a product that is NaN has gradients that are NaN
              for (int j = 0; j < width; ++j)
                if (std::isnan(value_of(others[j]))) target[j] = others[j];
            if (q != 1.0)
              for (int j = 0; j < width; ++j) target[j] = target[j] * slope[j];
          });
          scan.exclusive_slopes(degree, width, [&](Index k, const auto* slopes) {
            const Index e = by_dst.edge_at(begin + k);
            FactorRow& factors = row.kept[degree <= kKept ? k : 0];
            if (degree > kKept) edge_factors(op, by_dst.other[begin + k], v, e, column, width, factors);
            for (int j = 0; j < width; ++j) d[j] = scaled::saturate<double>(value_of(slopes[j]));
            chain_rule(op, factors, e, column, width, d, gradient);
            if (is_huge<T>(d, width)) {
              for (int j = 0; j < width; ++j) down[j] = scaled::saturate<double>(scaled_down(slopes[j]));
              chain_rule_of_huge(op, factors, e, column, width, d, down, gradient);
            }
            coefficients.add(e, column, width, gradient);
            if (out.dst) of_dst.add(gradient.a, width);
            if (of_terms) store<double, 0>(gradient.a, width, of_terms + e * rank + column);
            if (of_edge) store<T, 0>(gradient.a, width, of_edge + e * rank + column);
          });
        };
        if (row.read(op, by_dst, v, column, width))
          run(row.narrow);
        else
          run(row.wide);
        if (out.dst) {
          std::fill(sum, sum + width, 0.0);
          of_dst.finish(width, sum);
          store<T, 0>(sum, width, out.dst + v * rank + column);
        }
        column += width;
      }
    }
  });
  coefficients.store();
  if (out.src) sum_edge_rows(of_terms, rank, by_src, out.src);
  if (of_table) sum_by_type(of_terms, op.terms, by_dst, out.edge);
}

// out[e] = sum of x over the other edges into the same destination.
template <class T>
void exclusive_sum(const T* x, Index rank, const CompressedEdges& by_dst, T* out) {
  for_ranges(by_dst, rank, [&](Index first, Index last) {
    std::vector<double> before;
    for (Index column = 0; column < rank; column += kBlock) {
      const int width = int(std::min<Index>(kBlock, rank - column));
      alignas(64) double sum[kBlock];
      for (Index v = first; v < last; ++v) {
        const Index begin = by_dst.ptr[v], end = by_dst.ptr[v + 1];
        before.resize((end - begin) * width);
        std::fill(sum, sum + width, 0.0);
        for (Index k = begin; k < end; ++k) {
          const T* const row = x + by_dst.edge_at(k) * rank + column;
          double* const at = before.data() + (k - begin) * width;
          SIMD for (int j = 0; j < width; ++j) at[j] = sum[j];
          SIMD for (int j = 0; j < width; ++j) sum[j] += double(row[j]);
        }
        std::fill(sum, sum + width, 0.0);
        for (Index k = end - 1; k >= begin; --k) {
          const Index e = by_dst.edge_at(k) * rank + column;
          const double* const at = before.data() + (k - begin) * width;
          SIMD for (int j = 0; j < width; ++j) out[e + j] = T(at[j] + sum[j]);
          SIMD for (int j = 0; j < width; ++j) sum[j] += double(x[e + j]);
        }
      }
    }
  });
}

}  // namespace
