// Terms of an edge, a = src_u + dst_v + edge_e, and its factor f = 1 + gate * (scale * phi(a) + shift - 1).
#pragma once

#include "rows.h"
#include "scaled.h"

namespace {

// The fields of these structs have eight bytes each, as the structures in backend_cpp.py have. A null pointer means that
// the operand is absent.
template <class T>
struct EdgeTerms {
  const T *src, *dst, *edge;  // [N_src, rank], [N_dst, rank], [E, rank] or [types, rank]
  const Node* type;           // [E]: row of `edge` of each edge; null: row e
  Index types;                // number of rows of `edge`, if `type` is not null
  Index rank;

  Index edge_row(Index e) const { return type ? Index(type[e]) : e; }

  // Computes the sums of some columns in C.
  template <class C>
  void sums(Index u, Index v, Index e, Index column, int width, C* a) const {
    const T* const x = src ? src + u * rank + column : nullptr;
    const T* const y = dst ? dst + v * rank + column : nullptr;
    const T* const z = edge ? edge + edge_row(e) * rank + column : nullptr;
    if (x && y && z)
      SIMD for (int j = 0; j < width; ++j) a[j] = (C(x[j]) + C(y[j])) + C(z[j]);
    else if (x && y)
      SIMD for (int j = 0; j < width; ++j) a[j] = C(x[j]) + C(y[j]);
    else if (const T* const other = x ? x : y; other && z)
      SIMD for (int j = 0; j < width; ++j) a[j] = C(other[j]) + C(z[j]);
    else {
      const T* const only = other ? other : z;
      SIMD for (int j = 0; j < width; ++j) a[j] = C(only[j]);
    }
  }
};

enum Activation : Index { kIdentity, kTanh, kSigmoid, kBounded };

// A coefficient of the edges, [E] or [E, rank].
template <class T>
struct Coefficient {
  const T* values;
  Index by_column;

  explicit operator bool() const { return values != nullptr; }
  void read(Index e, Index rank, Index column, int width, double* out) const {
    if (by_column) {
      const T* const row = values + e * rank + column;
      SIMD for (int j = 0; j < width; ++j) out[j] = double(row[j]);
    } else {
      std::fill(out, out + width, double(values[e]));
    }
  }
};

template <class T>
struct EdgeProduct {
  EdgeTerms<T> terms;
  Coefficient<T> scale, shift, gate;
  Index activation;
  double bound, exponent;
  Index tanh;
};

// phi(a) and phi'(a). Both are computed from exp(-|a|) without cancellation.
inline void activate_factors(Index activation, double bound, const double* a, int width, double* h, double* slope) {
  if (activation == kIdentity) {
    std::copy(a, a + width, h);
    std::fill(slope, slope + width, 1.0);
  } else if (activation == kSigmoid) {
    SIMD for (int j = 0; j < width; ++j) {
      const double size = std::fabs(a[j]);
      double p;
      int64_t k;
      scaled::split_exp(size > 1100.0 ? -1100.0 : -size, p, k);
      const double decay = scaled::join(1.0 + p, k), inverse = 1.0 / (1.0 + decay);
      h[j] = a[j] < 0.0 ? decay * inverse : inverse;
      slope[j] = decay * inverse * inverse;
    }
  } else {
    const double offset = activation == kBounded ? 1.0 : 0.0, factor = activation == kBounded ? bound : 1.0;
    SIMD for (int j = 0; j < width; ++j) {
      const double size = std::fabs(a[j]);
      double p;
      int64_t k;
      scaled::split_exp(size > 550.0 ? -1100.0 : -2.0 * size, p, k);
      const double power = scaled::power_of_two(k < -64 ? -64 : k);
      const double em1 = power * p + (power - 1.0), inverse = 1.0 / (em1 + 2.0);  // exp(-2|a|) - 1
      h[j] = offset + factor * std::copysign(em1 * inverse, a[j]);
      slope[j] = factor * 4.0 * scaled::join(1.0 + p, k) * (inverse * inverse);
    }
  }
}

// The factors of one edge for some columns, and the steps of their computation.
struct FactorRow {
  alignas(64) double h[kBlock];       // phi(a)
  alignas(64) double slope[kBlock];   // phi'(a)
  alignas(64) double affine[kBlock];  // scale * h + shift
  alignas(64) double f[kBlock];       // the factor is f * 2^extra
  alignas(64) int64_t extra[kBlock];  // not set if has_extra is false
  bool has_extra;
};

// A number with a separate exponent, for factors in double that a double cannot hold.
struct Number {
  double mantissa;
  int64_t exponent;

  static Number of(double x, int64_t e = 0) {
    scaled::normalize(x, e);
    return {x, e};
  }
  Number operator*(const Number& y) const { return of(mantissa * y.mantissa, exponent + y.exponent); }
  Number operator+(const Number& y) const {
    constexpr int64_t none = -(int64_t(1) << 40), least = -scaled::kMaxShift;
    const int64_t a = mantissa == 0.0 ? none : exponent, b = y.mantissa == 0.0 ? none : y.exponent;
    const int64_t top = a > b ? a : b, down = a - top, other_down = b - top;
    return of(mantissa * scaled::power_of_two(down < least ? least : down) +
                  y.mantissa * scaled::power_of_two(other_down < least ? least : other_down),
              top);
  }
  double value() const { return scaled::join(mantissa, exponent); }
};

// Computes factors whose terms or coefficients are so large that a double overflows on the way.
inline void huge_factors(const EdgeProduct<double>& op, Index u, Index v, Index e, Index column, int width,
                         FactorRow& row) {
  const EdgeTerms<double>& terms = op.terms;
  const auto at = [&](const Coefficient<double>& c, int j) {
    return Number::of(c.values[c.by_column ? e * terms.rank + column + j : e]);
  };
  row.has_extra = true;
  for (int j = 0; j < width; ++j) {
    Number a = {0.0, 0};
    if (terms.src) a = a + Number::of(terms.src[u * terms.rank + column + j]);
    if (terms.dst) a = a + Number::of(terms.dst[v * terms.rank + column + j]);
    if (terms.edge) a = a + Number::of(terms.edge[terms.edge_row(e) * terms.rank + column + j]);
    const double bounded = scaled::saturate<double>(a.value());
    activate_factors(op.activation, op.bound, &bounded, 1, row.h + j, row.slope + j);
    Number f = op.activation == kIdentity ? a : Number::of(row.h[j]);
    if (op.scale) f = f * at(op.scale, j);
    if (op.shift) f = f + at(op.shift, j);
    row.affine[j] = scaled::saturate<double>(f.value());
    if (op.gate) f = f * at(op.gate, j) + Number::of(1.0 - at(op.gate, j).value());
    row.f[j] = f.mantissa;
    row.extra[j] = f.exponent;
  }
}

// The coefficients of one edge.
struct CoefficientRow {
  alignas(64) double scale[kBlock], gate[kBlock];
};

template <class T>
void edge_factors(const EdgeProduct<T>& op, Index u, Index v, Index e, Index column, int width, FactorRow& row) {
  alignas(64) double a[kBlock], c[kBlock];
  op.terms.sums(u, v, e, column, width, a);
  activate_factors(op.activation, op.bound, a, width, row.h, row.slope);
  row.has_extra = false;
  std::copy(row.h, row.h + width, row.affine);
  if (op.scale) {
    op.scale.read(e, op.terms.rank, column, width, c);
    SIMD for (int j = 0; j < width; ++j) row.affine[j] *= c[j];
  }
  if (op.shift) {
    op.shift.read(e, op.terms.rank, column, width, c);
    SIMD for (int j = 0; j < width; ++j) row.affine[j] += c[j];
  }
  std::copy(row.affine, row.affine + width, row.f);
  if (op.gate) {
    op.gate.read(e, op.terms.rank, column, width, c);
    SIMD for (int j = 0; j < width; ++j) row.f[j] = c[j] * row.f[j] + (1.0 - c[j]);
  }
  if constexpr (sizeof(T) == sizeof(double)) {
    constexpr double huge = 0x1p1000;
    int64_t overflow = 0;
#pragma omp simd reduction(| : overflow)
    for (int j = 0; j < width; ++j)
      overflow |= int64_t(!(std::fabs(a[j]) <= huge)) | int64_t(!(std::fabs(row.affine[j]) <= huge)) |
                  int64_t(!(std::fabs(row.f[j]) <= huge));
    if (overflow) huge_factors(op, u, v, e, column, width, row);
  }
}

// Gradients of the steps of the factors of one edge, from d = d loss / d f. All are finite.
struct GradientRow {
  alignas(64) double a[kBlock], scale[kBlock], shift[kBlock], gate[kBlock];
};

// Returns whether some d is so large that it may not fit into a double, although d times a coefficient or a slope does.
// The gradients of such columns are computed from d * 2^-kDown, see chain_rule_of_huge().
constexpr int64_t kDown = 128;
constexpr double kHuge = 0x1p1000;

template <class T>
bool is_huge(const double* d, int width) {
  if constexpr (sizeof(T) == sizeof(float)) return false;
  int64_t huge = 0;
#pragma omp simd reduction(| : huge)
  for (int j = 0; j < width; ++j) huge |= int64_t(std::fabs(d[j]) > kHuge);
  return huge != 0;
}

template <class T>
void chain_rule(const EdgeProduct<T>& op, const FactorRow& row, Index e, Index column, int width, const double* d,
                GradientRow& out) {
  alignas(64) double c[kBlock];
  if (op.gate) {
    SIMD for (int j = 0; j < width; ++j) out.gate[j] = scaled::saturate<double>(d[j] * (row.affine[j] - 1.0));
    op.gate.read(e, op.terms.rank, column, width, c);
    SIMD for (int j = 0; j < width; ++j) out.a[j] = d[j] * c[j];
  } else {
    std::copy(d, d + width, out.a);
  }
  if (op.shift) std::copy(out.a, out.a + width, out.shift);
  if (op.scale) {
    SIMD for (int j = 0; j < width; ++j) out.scale[j] = scaled::saturate<double>(out.a[j] * row.h[j]);
    op.scale.read(e, op.terms.rank, column, width, c);
    SIMD for (int j = 0; j < width; ++j) out.a[j] = scaled::saturate<double>(out.a[j] * c[j]);
  }
  if (op.activation != kIdentity)
    SIMD for (int j = 0; j < width; ++j) out.a[j] = scaled::saturate<double>(out.a[j] * row.slope[j]);
}

// Replaces the gradients of the columns in which d is huge by those from `down` = d * 2^-kDown.
template <class T>
void chain_rule_of_huge(const EdgeProduct<T>& op, const FactorRow& row, Index e, Index column, int width,
                        const double* d, const double* down, GradientRow& out) {
  GradientRow other;
  chain_rule(op, row, e, column, width, down, other);
  const auto replace = [&](double* x, const double* y) {
    for (int j = 0; j < width; ++j)
      if (std::fabs(d[j]) > kHuge) x[j] = scaled::saturate<double>(y[j] * scaled::power_of_two(kDown));
  };
  replace(out.a, other.a);
  if (op.scale) replace(out.scale, other.scale);
  if (op.shift) replace(out.shift, other.shift);
  if (op.gate) replace(out.gate, other.gate);
}

}  // namespace
