// Gradients of the operands of edge factors, shared by products over all edges and over the other edges.
#pragma once

#include "backward.h"
#include "edge_factors.h"
#include "vectors.h"

namespace {

// Null pointers mark gradients that are not needed.
template <class T>
struct EdgeGradients {
  T *src, *dst, *edge;
  T *scale, *shift, *gate;
};

// Sums over all edges of a part. Their number depends on the problem only, not on the number of threads, and they are
// added in order, so the result does not depend on the number of threads either.
struct Parts {
  Index count;

  static Index number_of(Index work, Index entries_of_sum) {
    constexpr Index kWork = 65536, kMemory = Index(1) << 23;
    const Index wanted = std::min<Index>(64, work / kWork);
    return std::max<Index>(1, std::min(wanted, kMemory / std::max<Index>(1, entries_of_sum)));
  }
};

// Calls f(part, first, last) for ranges of groups with about the same number of edges each.
template <class F>
void for_parts(const CompressedEdges& by, Index parts, bool parallel, const F& f) {
  const Index work = by.ptr[by.groups] + by.groups;
  const auto first_of = [&](Index part) {
    Index low = 0, high = by.groups;
    while (low < high) {
      const Index middle = (low + high) / 2;
      if (by.ptr[middle] + middle < work / parts * part)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  parallel_for(0, parts, parallel ? 1 : parts, [&](Index begin, Index end) {
    for (Index part = begin; part < end; ++part)
      f(part, first_of(part), part + 1 == parts ? by.groups : first_of(part + 1));
  });
}

inline Index threads_for(const CompressedEdges& by, Index rank) {
  return (by.ptr[by.groups] + by.groups) * rank < 32768 ? 1 : Index(num_threads());
}

// Sums of the gradient of a table over the edges of each type, one for each part.
class TableSums {
 public:
  TableSums(Index parts, Index types, Index width) : size_(types * width), width_(width), sums_(parts * size_, 0.0) {}

  template <class T>
  void add(Index part, Index type, Index column, const T* x, int width) {
    double* const row = sums_.data() + part * size_ + type * width_ + column;
    SIMD for (int j = 0; j < width; ++j) row[j] += double(x[j]) * 0x1p-64;  // scaled down, so that it does not overflow
  }

  template <class T>
  void store(Index parts, Index types, Index rank, Index column, int width, T* out) const {
    alignas(64) double total[kBlock];
    for (Index type = 0; type < types; ++type) {
      std::fill(total, total + width, 0.0);
      for (Index part = 0; part < parts; ++part) {
        const double* const row = sums_.data() + part * size_ + type * width_;
        SIMD for (int j = 0; j < width; ++j) total[j] += row[j];
      }
      SIMD for (int j = 0; j < width; ++j) total[j] *= 0x1p64;
      ::store<T, 0>(total, width, out + type * rank + column);
    }
  }

 private:
  Index size_, width_;
  std::vector<double> sums_;
};

// The gradient of a coefficient [E]: sums over the columns, which may be in several blocks.
template <class T>
class ColumnSums {
 public:
  ColumnSums(const Coefficient<T>& coefficient, const T* out, Index edges)
      : plain_(coefficient && out && !coefficient.by_column ? edges : 0, 0.0), scaled_(plain_.size(), 0.0) {}

  void add(Index e, const double* x, int width) {
    double plain = 0.0, down = 0.0;
#pragma omp simd reduction(+ : plain, down)
    for (int j = 0; j < width; ++j) {
      plain += x[j];
      down += x[j] * 0x1p-64;
    }
    plain_[e] += plain;
    scaled_[e] += down;
  }

  void store(T* out) const {
    for (size_t e = 0; e < plain_.size(); ++e) {
      const bool finite = std::fabs(plain_[e]) <= std::numeric_limits<double>::max();
      out[e] = T(scaled::saturate<T>(finite ? plain_[e] : scaled_[e] * 0x1p64));
    }
  }

 private:
  std::vector<double> plain_, scaled_;
};

// Writes the gradients of the coefficients of one edge.
template <class T>
struct CoefficientGradients {
  const EdgeProduct<T>& op;
  const EdgeGradients<T>& out;
  ColumnSums<T> scale, shift, gate;

  CoefficientGradients(const EdgeProduct<T>& op, const EdgeGradients<T>& out, Index edges)
      : op(op),
        out(out),
        scale(op.scale, out.scale, edges),
        shift(op.shift, out.shift, edges),
        gate(op.gate, out.gate, edges) {}

  void add(Index e, Index column, int width, GradientRow& row) {
    write(op.scale, out.scale, scale, row.scale, e, column, width);
    write(op.shift, out.shift, shift, row.shift, e, column, width);
    write(op.gate, out.gate, gate, row.gate, e, column, width);
  }

  void store() const {
    scale.store(out.scale);
    shift.store(out.shift);
    gate.store(out.gate);
  }

 private:
  void write(const Coefficient<T>& coefficient, T* target, ColumnSums<T>& sums, double* x, Index e, Index column,
             int width) {
    if (!coefficient || !target) return;
    if (coefficient.by_column)
      ::store<T, 0>(x, width, target + e * op.terms.rank + column);
    else
      sums.add(e, x, width);
  }
};

inline bool all_finite(const double* x, int width) {
  int64_t beyond = 0;
#pragma omp simd reduction(| : beyond)
  for (int j = 0; j < width; ++j) beyond |= int64_t(!(std::fabs(x[j]) <= std::numeric_limits<double>::max()));
  return !beyond;
}

// Returns whether a gradient is too large for T. Gradients of sources must then not be sums of stored ones.
template <class T>
bool overflows(const double* x, int width) {
  if constexpr (sizeof(T) == sizeof(double)) return false;
  int64_t beyond = 0;
#pragma omp simd reduction(| : beyond)
  for (int j = 0; j < width; ++j) beyond |= int64_t(std::fabs(x[j]) > std::numeric_limits<T>::max());
  return beyond != 0;
}

// out[i] = sum of the rows of x [E, rank] over the edges of group i.
template <class X, class T>
void sum_edge_rows(const X* x, Index rank, const CompressedEdges& by, T* out) {
  for_ranges(by, rank, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i)
      for_each_columns<X, kVectorBytes / 8>(0, rank, [&](auto columns) {
        using Group = decltype(columns);
        using Wide = Vector<double, Group::L>;
        const Rows<X> rows(x, rank, columns.first);
        const auto sum_of = [&](double scale, double* sum) {
          Wide total[Group::C] = {};
          for (Index k = by.ptr[i]; k < by.ptr[i + 1]; ++k) {
            columns.prefetch(rows[by.edge_at(ahead(by, k))]);
            const X* const row = rows[by.edge_at(k)];
            UNROLL for (int c = 0; c < Group::C; ++c)
              total[c] += to_double<X, Group::L>(columns.load(row, c)) * scale;
          }
          std::memcpy(sum, total, sizeof total);
        };
        alignas(64) double sum[Group::L * Group::C];
        sum_of(1.0, sum);
        if (sizeof(X) == sizeof(double) && !all_finite(sum, columns.count)) {  // scaled sums do not give inf - inf
          alignas(64) double scaled_sum[Group::L * Group::C];
          sum_of(0x1p-64, scaled_sum);
          for (int j = 0; j < columns.count; ++j)
            if (!std::isfinite(sum[j])) sum[j] = scaled_sum[j] * 0x1p64;
        }
        store<T, 0>(sum, columns.count, out + i * rank + columns.first);
      });
  });
}

// out[t] = sum of the rows of x [E, rank] over the edges of type t.
template <class X, class T>
void sum_by_type(const X* x, const EdgeTerms<T>& terms, const CompressedEdges& by_dst, T* out) {
  const Index rank = terms.rank, edges = by_dst.ptr[by_dst.groups];
  for (Index column = 0; column < rank; column += kBlock) {
    const int width = int(std::min<Index>(kBlock, rank - column));
    const Index parts = Parts::number_of(edges * width, terms.types * width);
    TableSums table(parts, terms.types, width);
    for_parts(by_dst, parts, threads_for(by_dst, rank) > 1, [&](Index part, Index first, Index last) {
      for (Index k = by_dst.ptr[first]; k < by_dst.ptr[last]; ++k) {
        const Index e = by_dst.edge_at(k);
        table.add(part, terms.type[e], 0, x + e * rank + column, width);
      }
    });
    table.store(parts, terms.types, rank, column, width, out);
  }
}

}  // namespace
