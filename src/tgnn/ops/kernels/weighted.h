// Products of weighted factors, f = w z_u + (1 - w) with one weight in [0, 1] per edge, for floats.
//
// S is saved as for a plain product, but every edge has its own factor to divide by. w z is exact in double, and |f| is
// 0 or between 2^-149 and 2^128, so a product of a mantissa and six factors stays in the range of double.
#pragma once

#include "backward.h"
#include "forward.h"

namespace {

// Multiplies the factors of a row. Returns the smallest |f|, at most 1 if a block of six edges is not full.
template <int W>
inline double multiply_weighted(const Inputs<float>& in, const CompressedEdges& by_dst, Index v, Index column, int width,
                                Product& product) {
  const int w = W ? W : width;
  const Index end = by_dst.ptr[v + 1];
  double least = std::numeric_limits<float>::max();
  for_each_six_rows<W>(
      by_dst, v, in.z + column, in.rank, Filler<float>::rows().ones, [&](const SixRows<float>& rows, Index k) {
        std::array<double, 6> x, y;  // f = x z + y
        for (int i = 0; i < 6; ++i) {
          x[i] = k + i < end ? double(in.weight[by_dst.edge_at(k + i)]) : 0.0;
          y[i] = 1.0 - x[i];
        }
        const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4], *f = rows[5];
        if (product.empty) product.finish(w);
        double* const m = product.mantissa;
        double low = least;
#pragma omp simd reduction(min : low)
        for (int j = 0; j < w; ++j) {
          const double p = x[0] * double(a[j]) + y[0], q = x[1] * double(b[j]) + y[1];
          const double r = x[2] * double(c[j]) + y[2], s = x[3] * double(d[j]) + y[3];
          const double t = x[4] * double(e[j]) + y[4], u = x[5] * double(f[j]) + y[5];
          m[j] = m[j] * p * q * r * s * t * u;
          low = std::min(low, std::fabs(p));
          low = std::min(low, std::fabs(q));
          low = std::min(low, std::fabs(r));
          low = std::min(low, std::fabs(s));
          low = std::min(low, std::fabs(t));
          low = std::min(low, std::fabs(u));
        }
        least = low;
        if (k + 6 < end) product.extract_exponent(w);
      });
  product.finish(w);
  return least;
}

void weighted_forward(const Inputs<float>& in, const CompressedEdges& by_dst, float* out, float* state, float* least) {
  const Index bytes = by_dst.groups * in.rank * Index(sizeof(float));
  expect_to_fill(out, bytes);
  expect_to_fill(state, bytes);
  for_ranges(by_dst, in.rank, [&](Index first, Index last) {
    if (state) std::fill(least + first, least + last, std::numeric_limits<float>::max());
    for_each_block<float>(0, in.rank, [&](Index column, auto constant, int width) {
      constexpr int W = decltype(constant)::value;
      for (Index v = first; v < last; ++v) {
        Product product;
        const Index at = v * in.rank + column;
        double smallest = multiply_weighted<W>(in, by_dst, v, column, width, product);
        if (state) smallest = std::min(smallest, double(least[v]));
        const double q = power_of_row(in.exponent, by_dst.ptr[v + 1] - by_dst.ptr[v]);
        const bool lost =
            activate<float, W>(product, q, in.tanh, width, smallest, out + at, state ? state + at : nullptr);
        if (state) least[v] = lost ? 0.0f : float(smallest);  // 0: the row is wide
      }
    });
  });
}

// Sums over the columns of the gradients of the weights. Large gradients, in wide rows, are summed times 2^-64.
class WeightSums {
 public:
  WeightSums(const Inputs<float>& in, float* out, Index edges)
      : in_(in), out_(out), total_(out ? new double[edges] : nullptr) {}

  void add(Index u, Index edge, Index column, int width, bool wide, const double* d) {
    if (!out_) return;
    const float* const z = in_.z + u * in_.rank + column;
    double total = column ? total_[edge] : 0.0;
    if (wide) {
      for (int j = 0; j < width; ++j) total += scaled::saturate<double>(d[j] * (double(z[j]) - 1.0)) * 0x1p-64;
    } else {
#pragma omp simd reduction(+ : total)
      for (int j = 0; j < width; ++j) total += scaled::saturate<double>(d[j] * (double(z[j]) - 1.0));
    }
    total_[edge] = total;
    if (column + width == in_.rank) out_[edge] = float(scaled::saturate<float>(wide ? total * 0x1p64 : total));
  }

 private:
  const Inputs<float>& in_;
  float* const out_;
  std::unique_ptr<double[]> total_;
};

// The thread of its source computes the gradient of an edge, so each output has one writer.
void weighted_gradients(const Inputs<float>& in, const CompressedEdges& by_src, const Backward<float>& back, Index u,
                        Index column, int width, float* grad_z, WeightSums& weights) {
  const double unscale = 1.0 / saved_scale<float>(in.tanh);
  const float* const z = in.z + u * in.rank + column;
  alignas(64) double d[kBlock], sum[kBlock];
  FiniteSum of_wide(back.wide.count ? width : 0);
  std::fill(sum, sum + width, 0.0);
  for (Index k = by_src.ptr[u]; k < by_src.ptr[u + 1]; ++k) {
    const Index v = by_src.other[k], edge = by_src.edge_at(k), slot = back.wide.slot[v];
    const double w = double(in.weight[edge]), rest = 1.0 - w;
    if (slot < 0) {  // no factor of this row is 0
      const float* const q = back.q_block(column) + v * width;
      SIMD for (int j = 0; j < width; ++j) d[j] = double(q[j]) * unscale / (w * double(z[j]) + rest);
    } else {
      alignas(64) double f[kBlock];
      Divisors by;
      in.factors(u, edge, column, width, f);
      by.set(f, width);
      const Index at = back.wide.at(slot, column);
      exact_slopes(back.wide.mantissa.get() + at, back.wide.code.get() + at, by, width, d);
    }
    weights.add(u, edge, column, width, slot >= 0, d);
    SIMD for (int j = 0; j < width; ++j) d[j] *= w;
    if (back.wide.count)
      of_wide.add(d, width);
    else
      SIMD for (int j = 0; j < width; ++j) sum[j] += d[j];
  }
  if (back.wide.count) of_wide.finish(width, sum);
  if (grad_z) store<float, 0>(sum, width, grad_z + u * in.rank + column);
}

void weighted_backward(const Inputs<float>& in, const CompressedEdges& by_dst, const CompressedEdges& by_src,
                       const float* grad, const float* state, const float* least, float* grad_z, float* grad_weight) {
  const Scratch<float> q(by_dst.groups * in.rank);
  const Backward<float> back = prepare_backward(in, by_dst, grad, state, least, by_src.groups, 0, in.rank, q);
  expect_to_fill(grad_z, by_src.groups * in.rank * Index(sizeof(float)));
  WeightSums weights(in, grad_weight, by_src.ptr[by_src.groups]);
  for_ranges(by_src, in.rank, [&](Index first, Index last) {
    for_each_block<float>(0, in.rank, [&](Index column, auto, int width) {
      for (Index u = first; u < last; ++u) weighted_gradients(in, by_src, back, u, column, width, grad_z, weights);
    });
  });
}

}  // namespace
