// Products of bounded factors f = 1 + b tanh(a) with |b| < 1, of floats. They are positive and not small, so that some
// of them can be multiplied without an exponent, and nothing is lost in a division by one of them.
//
// With e = exp(-2|a|), the factor is f = n / d for d = 1 + e and n = d + sign(a) b (1 - e). A product of factors is one
// product of n divided by one of d. The slope of log f is 4 b e / (n d).
#pragma once

#include "edge_product.h"
#include "vectors.h"

namespace {

constexpr int kWide = kVectorBytes / int(sizeof(double));  // lanes of a vector of double
constexpr double kMaxBound = 0.99;
constexpr Index kUnscaled = 64;   // a product of 64 factors lies in 2^-430 .. 2^64
constexpr Index kInRange = 128;   // a product of 128 factors, also times a float, does not overflow or underflow in double
constexpr Index kKeptEdges = 256;  // rows with more edges compute their factors twice instead of keeping the slopes

template <class T>
bool is_bounded(const EdgeProduct<T>& op) {
  return sizeof(T) == sizeof(float) && op.activation == kBounded && std::fabs(op.bound) <= kMaxBound && !op.scale &&
         !op.shift && !op.gate;
}

// exp(-2x) = 2^-k exp(-2t) with x = k log(2) / 2 + t, for x >= 0. Beyond 350 it is exp(-700). The polynomial is that of
// Chebyshev interpolation, with a relative error below 1e-12.
template <int L>
inline Vector<double, L> decay_of(Vector<double, L> x) {
  using Wide = Vector<double, L>;
  using Bits = Vector<uint64_t, L>;
  const Wide inside = x > 350.0 ? Wide{} + 350.0 : x;  // NaN stays NaN
  const Wide shifted = inside * 2.8853900817779268 + scaled::Float<double>::kShifter;
  const Wide t = inside - (shifted - scaled::Float<double>::kShifter) * 0.34657359027997264;
  Wide p = (0.0063683018135258914 * t - 0.025492328795386925) * t + 0.08888845856459322;
  p = ((p * t - 0.26666451427271853) * t + 0.6666666702574672) * t - 1.3333333512944436;
  p = ((p * t + 1.999999999991911) * t - 1.999999999959538) * t + 1.0;
  return (Wide)((1023 - (Bits)shifted) << 52) * p;  // the low bits of `shifted` hold k
}

constexpr uint64_t kSignBit = uint64_t(1) << 63;

template <int L>
struct BoundedFactor {
  using Wide = Vector<double, L>;
  using Bits = Vector<uint64_t, L>;
  Wide e, d, n;

  BoundedFactor(Wide a, double bound) {
    e = decay_of<L>((Wide)((Bits)a & ~kSignBit));
    d = 1.0 + e;
    n = d + (Wide)((Bits)(Wide{} + bound) ^ ((Bits)a & kSignBit)) * (1.0 - e);
  }
  Wide slope_of_log(double bound) const { return 4.0 * bound * e / (n * d); }
};

// The sums of the terms of the edges for a group of columns.
template <class Group>
struct WideTerms {
  using Wide = Vector<double, Group::L>;
  const EdgeProduct<float>& op;
  const Group columns;
  const Rows<float> src, dst, edge;

  WideTerms(const EdgeProduct<float>& op, Group columns)
      : op(op),
        columns(columns),
        src(op.terms.src, op.terms.rank, columns.first),
        dst(op.terms.dst, op.terms.rank, columns.first),
        edge(op.terms.edge, op.terms.rank, columns.first) {}

  __attribute__((always_inline)) void prefetch(const CompressedEdges& by, Index k) const {
    columns.prefetch(edge[op.terms.edge_row(by.edge_at(ahead(by, k)))]);
  }

  // Calls use(c, sum) for all vectors of the edge e = (u, v).
  template <class F>
  __attribute__((always_inline)) void sums(Index u, Index v, Index e, const F& use) const {
    const float *const of_src = src[u], *const of_dst = dst[v], *const of_edge = edge[op.terms.edge_row(e)];
    UNROLL for (int c = 0; c < Group::C; ++c) use(c, (wide(of_src, c) + wide(of_dst, c)) + wide(of_edge, c));
  }

  Wide wide(const float* row, int c) const { return to_double<float, Group::L>(columns.load(row, c)); }
};

// The factors of the edges for a group of columns.
template <class Group>
struct BoundedFactors : WideTerms<Group> {
  using WideTerms<Group>::WideTerms;

  // Calls use(c, factor) for all vectors of the edge e = (u, v).
  template <class F>
  __attribute__((always_inline)) void compute(Index u, Index v, Index e, const F& use) const {
    this->sums(u, v, e, [&](int c, const auto& a) { use(c, BoundedFactor<Group::L>(a, this->op.bound)); });
  }
};

// A positive number mantissa * 2^exponent in each lane.
template <int L>
struct WideNumber {
  using Wide = Vector<double, L>;
  using Bits = Vector<uint64_t, L>;
  using Integers = Vector<int64_t, L>;
  Wide mantissa = Wide{} + 1.0, exponent = {};

  void operator*=(Wide x) {  // x is neither 0 nor subnormal; NaN stays NaN
    mantissa *= x;
    const Bits biased = ((Bits)mantissa >> 52) & 0x7ff;
    mantissa *= (Wide)((2046 - biased) << 52);
    exponent += __builtin_convertvector((Integers)biased, Wide) - 1023.0;
  }

  static Wide rounded(Wide x) { return (x + scaled::Float<double>::kShifter) - scaled::Float<double>::kShifter; }
  static Wide power_of_two(Wide e) {  // |e| <= 1000
    return (Wide)(((Bits)(e + scaled::Float<double>::kShifter) + 1023) << 52);
  }

  // The power q: log2 of the mantissa is a series in (m - 1) / (m + 1), with a relative error below 1e-12.
  void raise(double q) {
    const Wide upper = mantissa > 1.4142135623730951 ? Wide{} + 1.0 : Wide{};
    const Wide m = mantissa - 0.5 * upper * mantissa, s = (m - 1.0) / (m + 1.0), t = s * s;
    Wide series = (t * (1.0 / 17) + 1.0 / 15) * t + 1.0 / 13;
    series = ((series * t + 1.0 / 11) * t + 1.0 / 9) * t + 1.0 / 7;
    series = (series * t + 1.0 / 5) * t + 1.0 / 3;
    const Wide power = q * (2.8853900817779268 * (s + s * t * series) + (exponent + upper));
    exponent = rounded(power);
    mantissa = exp_of<double, L, true>((power - exponent) * 0.6931471805599453);
  }

  // The number is mantissa * 2^exponent = (mantissa * first) * second, for exponents that matter in float.
  void scales(Wide& first, Wide& second) const {
    const Wide below = exponent > 2000.0 ? Wide{} + 2000.0 : exponent, e = below < -2000.0 ? Wide{} - 2000.0 : below;
    const Wide half = rounded(0.5 * e);
    first = power_of_two(half);
    second = power_of_two(e - half);
  }
  Wide value() const {
    Wide first, second;
    scales(first, second);
    return mantissa * first * second;
  }
};

// tanh(y) and its slope times y, for y > 0 and results in float.
template <class Wide, int L>
inline void tanh_of_positive(Wide y, Wide& value, Wide& slope_times_y) {
  const Wide inside = y > 350.0 ? Wide{} + 350.0 : y;  // the slope is 0 in float beyond 60
  const Wide e = exp_of<double, L, true>(-2.0 * inside), inverse = 1.0 / (1.0 + e);
  value = y < 1e-3 ? y - y * y * y * (1.0 / 3) : (1.0 - e) * inverse;
  slope_times_y = inside * 4.0 * e * (inverse * inverse);
}

// y^q for y > 0 that is neither subnormal nor inf.
template <class Wide, int L>
inline Wide power_of_positive(Wide y, double q) {
  WideNumber<L> number;
  number *= y;
  number.raise(q);
  return number.value();
}

// The product of a row for a group of columns.
template <class Group>
struct BoundedProduct {
  using Wide = Vector<double, Group::L>;
  Wide n[Group::C], d[Group::C];
  WideNumber<Group::L> total[Group::C];

  BoundedProduct() {
    UNROLL for (int c = 0; c < Group::C; ++c) n[c] = d[c] = Wide{} + 1.0;
  }

  void times(int c, const BoundedFactor<Group::L>& factor) {
    n[c] *= factor.n;
    d[c] *= factor.d;
  }

  // Extracts the exponent after every kUnscaled-th of the factors.
  void after(Index factors) {
    if (factors % kUnscaled) return;
    finish();
    UNROLL for (int c = 0; c < Group::C; ++c) n[c] = d[c] = Wide{} + 1.0;
  }

  void finish() {
    UNROLL for (int c = 0; c < Group::C; ++c) total[c] *= n[c] / d[c];
  }
};

// Multiplies the factors of row v. If `kKeep`, stores the slopes of their logarithms for each edge.
template <bool kKeep, class Group>
inline BoundedProduct<Group> multiply(const BoundedFactors<Group>& factors, const CompressedEdges& by_dst, Index v,
                                      Vector<double, Group::L>* slopes) {
  BoundedProduct<Group> product;
  const Index begin = by_dst.ptr[v], end = by_dst.ptr[v + 1];
  for (Index k = begin; k < end; ++k) {
    factors.prefetch(by_dst, k);
    factors.compute(by_dst.other[k], v, by_dst.edge_at(k), [&](int c, const auto& factor) {
      product.times(c, factor);
      if constexpr (kKeep) slopes[(k - begin) * Group::C + c] = factor.slope_of_log(factors.op.bound);
    });
    product.after(k + 1 - begin);
  }
  product.finish();
  return product;
}

inline void bounded_product(const EdgeProduct<float>& op, const CompressedEdges& by_dst, float* out) {
  const Index rank = op.terms.rank;
  for_ranges(by_dst, rank, [&](Index first, Index last) {
    for (Index v = first; v < last; ++v) {
      const double q = power_of_row(op.exponent, by_dst.ptr[v + 1] - by_dst.ptr[v]);
      for_each_columns<float, kWide>(0, rank, [&](auto columns) {
        using Group = decltype(columns);
        const BoundedFactors<Group> factors(op, columns);
        BoundedProduct<Group> product = multiply<false>(factors, by_dst, v, nullptr);
        UNROLL for (int c = 0; c < Group::C; ++c) {
          if (q != 1.0) product.total[c].raise(q);
          Vector<double, Group::L> y = product.total[c].value(), slope;
          if (op.tanh) tanh_of_positive<Vector<double, Group::L>, Group::L>(y, y, slope);
          columns.store(to_float<Group::L>(y), out + v * rank + columns.first, c);
        }
      });
    }
  });
}

// Writes gradients as store() does. Only large ones must be clamped.
template <bool kLarge = true, class Group>
inline void store_gradient(const Group& columns, Vector<double, Group::L> x, float* row, int c) {
  using Wide = Vector<double, Group::L>;
  constexpr double most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::min();
  if constexpr (kLarge) {
    x = x > most ? Wide{} + most : x;
    x = x < -most ? Wide{} - most : x;
  }
  const Wide size = (Wide)((Vector<uint64_t, Group::L>)x & ~(uint64_t(1) << 63));
  columns.store(to_float<Group::L>(size < least ? Wide{} : x), row, c);
}

// d loss / d log P = g act'(y) q y with y = P^q, as value * scale. The scale is a power of two, because the value alone
// may leave the range of double. In most rows, the scale is 1.
template <class Group>
struct BoundedGradient {
  using Wide = Vector<double, Group::L>;
  Wide value[Group::C], scale[Group::C];
  bool is_large = false;  // whether a scale is not 1, or a gradient may leave the range of float

  BoundedGradient() = default;
  BoundedGradient(BoundedProduct<Group>& product, double q, bool tanh, const BoundedFactors<Group>& factors,
                  const float* g) {
    Vector<int64_t, Group::L> large = {};
    UNROLL for (int c = 0; c < Group::C; ++c) {
      WideNumber<Group::L>& y = product.total[c];
      const Wide outer = q * factors.wide(g, c), one = Wide{} + 1.0;
      Wide first;
      if (q != 1.0) y.raise(q);
      y.scales(first, scale[c]);
      value[c] = y.mantissa * first;
      if (tanh) {
        Wide unused;
        tanh_of_positive<Wide, Group::L>(value[c] * scale[c], unused, value[c]);
        scale[c] = one;
      }
      value[c] *= outer;
      const Wide whole = value[c] * scale[c];
      const auto fits = (whole < 0x1p100) & (whole > -0x1p100) & (first * scale[c] < 0x1p100) & (scale[c] > 0x1p-500);
      value[c] = fits ? whole : value[c];
      scale[c] = fits ? one : scale[c];
      large |= ~fits;
    }
    for (int j = 0; j < Group::L; ++j) is_large |= large[j] != 0;
  }

  template <bool kLarge>
  Wide times(const Wide& slope, int c) const {
    if constexpr (!kLarge) return slope * value[c];
    const Wide x = slope * value[c] * scale[c], below = x > 0x1p1000 ? Wide{} + 0x1p1000 : x;
    return below < -0x1p1000 ? Wide{} - 0x1p1000 : below;  // so that sums are finite
  }
};

inline void bounded_product_backward(const EdgeProduct<float>& op, const CompressedEdges& by_dst,
                                     const CompressedEdges& by_src, const float* grad,
                                     const EdgeGradients<float>& out) {
  const Index rank = op.terms.rank, edges = by_dst.ptr[by_dst.groups];
  const bool of_table = out.edge && op.terms.type, of_edges = out.dst || out.edge;
  const bool from_edges = out.src && out.edge && !of_table;  // see edge_product_backward()
  std::atomic<bool> overflow{false};
  float* const of_terms = of_table ? nullptr : out.edge;  // gradients of the terms of each edge
  const Index threads = threads_for(by_dst, rank);
  expect_to_fill(of_terms, edges * rank * Index(sizeof(float)));
  for (Index panel = 0; panel < rank; panel += kBlock) {
    const Index end_of_panel = std::min(panel + kBlock, rank), panel_width = end_of_panel - panel;
    // d loss / d log P of all rows, for the sources
    const bool of_sources = out.src && !from_edges;
    std::unique_ptr<double[]> values(of_sources ? new double[by_dst.groups * panel_width] : nullptr);
    std::unique_ptr<double[]> scales(of_sources ? new double[by_dst.groups * panel_width] : nullptr);
    const Index parts = of_table ? Parts::number_of(edges * panel_width, op.terms.types * panel_width) : threads;
    TableSums table(of_table ? parts : 0, op.terms.types, panel_width);
    for_parts(by_dst, parts, threads > 1, [&](Index part, Index first, Index last) {
      std::unique_ptr<char[]> scratch(new char[kKeptEdges * 4 * kVectorBytes + 64]);
      void* const kept = reinterpret_cast<void*>((uintptr_t(scratch.get()) + 63) / 64 * 64);
      for (Index v = first; v < last; ++v) {
        const Index begin = by_dst.ptr[v], end = by_dst.ptr[v + 1];
        const bool keep = of_edges && end - begin <= kKeptEdges;
        for_each_columns<float, kWide>(panel, end_of_panel, [&](auto columns) {
          using Group = decltype(columns);
          using Wide = Vector<double, Group::L>;
          constexpr int C = Group::C;
          Wide* const slopes = static_cast<Wide*>(kept);
          const BoundedFactors<Group> factors(op, columns);
          if (of_terms)
            for (Index k = begin; k < end; ++k)
              columns.prefetch_to_write(of_terms + by_dst.edge_at(ahead(by_dst, k)) * rank + columns.first);
          BoundedProduct<Group> product =
              keep ? multiply<true>(factors, by_dst, v, slopes) : multiply<false>(factors, by_dst, v, nullptr);
          const Index column = columns.first;
          const BoundedGradient<Group> of_row(product, power_of_row(op.exponent, end - begin), op.tanh != 0, factors,
                                              grad + v * rank + column);
          if (of_sources) {
            const Columns<double, Group::L, C, Group::kPartial> doubles{column, columns.count};
            UNROLL for (int c = 0; c < C; ++c) {
              doubles.store(of_row.value[c], values.get() + v * panel_width + column - panel, c);
              doubles.store(of_row.scale[c], scales.get() + v * panel_width + column - panel, c);
            }
          }
          if (!of_edges) return;
          Wide sum[C] = {};
          const auto add_edges = [&](auto constant) {
            constexpr bool kLarge = decltype(constant)::value;
            for (Index k = begin; k < end; ++k) {
              const Index e = by_dst.edge_at(k);
              Wide of_a[C];
              if (keep)
                UNROLL for (int c = 0; c < C; ++c) of_a[c] = slopes[(k - begin) * C + c];
              else
                factors.compute(by_dst.other[k], v, e,
                                [&](int c, const auto& factor) { of_a[c] = factor.slope_of_log(op.bound); });
              UNROLL for (int c = 0; c < C; ++c) {
                of_a[c] = of_row.template times<kLarge>(of_a[c], c);
                sum[c] += of_a[c];
                if (of_terms) store_gradient<kLarge>(columns, of_a[c], of_terms + e * rank + column, c);
              }
              if (of_table) {
                alignas(64) double row[Group::L * C];
                std::memcpy(row, of_a, sizeof of_a);
                table.add(part, op.terms.type[e], column - panel, row, columns.count);
              }
            }
          };
          if (of_row.is_large) {
            overflow = true;
            add_edges(std::true_type());
          } else {
            add_edges(std::false_type());
          }
          if (out.dst)
            UNROLL for (int c = 0; c < C; ++c) store_gradient(columns, sum[c], out.dst + v * rank + column, c);
        });
      }
    });
    if (of_table) table.store(parts, op.terms.types, rank, panel, int(panel_width), out.edge);
    if (!of_sources) continue;
    for_ranges(by_src, rank, [&](Index first, Index last) {
      for (Index u = first; u < last; ++u)
        for_each_columns<float, kWide>(panel, end_of_panel, [&](auto columns) {
          using Group = decltype(columns);
          constexpr int C = Group::C;
          const BoundedFactors<Group> factors(op, columns);
          const Columns<double, Group::L, C, Group::kPartial> doubles{columns.first, columns.count};
          Vector<double, Group::L> sum[C] = {};
          for (Index k = by_src.ptr[u]; k < by_src.ptr[u + 1]; ++k) {
            const Index v = by_src.other[k], at = v * panel_width + columns.first - panel;
            factors.prefetch(by_src, k);
            factors.compute(u, v, by_src.edge_at(k), [&](int c, const auto& factor) {
              BoundedGradient<Group> of_row;
              of_row.value[c] = doubles.load(values.get() + at, c);
              of_row.scale[c] = doubles.load(scales.get() + at, c);
              sum[c] += of_row.template times<true>(factor.slope_of_log(op.bound), c);
            });
          }
          UNROLL for (int c = 0; c < C; ++c) store_gradient(columns, sum[c], out.src + u * rank + columns.first, c);
        });
    });
  }
  if (from_edges && overflow)
    bounded_product_backward(op, by_dst, by_src, grad, {out.src});
  else if (from_edges)
    sum_edge_rows(out.edge, rank, by_src, out.src);
}

}  // namespace
