// The kernel for a product of edge factors: a fast one for some factors of floats, or the general one.
#pragma once

#include "bounded_exclusive.h"
#include "squashed_exclusive.h"

namespace {

template <class T>
void product_of_edges(const EdgeProduct<T>& op, const CompressedEdges& by_dst, T* out) {
  if constexpr (sizeof(T) == sizeof(float))
    if (is_bounded(op)) return bounded_product(op, by_dst, out);
  edge_product(op, by_dst, out);
}

template <class T>
void product_of_edges_backward(const EdgeProduct<T>& op, const CompressedEdges& by_dst, const CompressedEdges& by_src,
                               const T* grad, const EdgeGradients<T>& out) {
  if constexpr (sizeof(T) == sizeof(float))
    if (is_bounded(op)) return bounded_product_backward(op, by_dst, by_src, grad, out);
  edge_product_backward(op, by_dst, by_src, grad, out);
}

template <class T>
void product_of_other_edges(const EdgeProduct<T>& op, const CompressedEdges& by_dst, T* out) {
  exclusive_product(op, by_dst, out, [&, bounded = is_bounded(op), squashed = is_squashed(op)](Index v) {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (bounded) return bounded_exclusive_row(op, by_dst, v, out);
      if (squashed) return squashed_exclusive_row(op, by_dst, v, out);
    }
    return false;
  });
}

template <class T>
void product_of_other_edges_backward(const EdgeProduct<T>& op, const CompressedEdges& by_dst,
                                     const CompressedEdges& by_src, const T* grad, const EdgeGradients<T>& out) {
  const auto fast = [&, bounded = is_bounded(op), squashed = is_squashed(op)](Index v, double* of_terms, T* of_edge) {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (bounded) return bounded_exclusive_row_backward(op, by_dst, v, grad, of_terms, of_edge, out.dst);
      if (squashed) return squashed_exclusive_row_backward(op, by_dst, v, grad, of_terms, of_edge, out.dst);
    }
    return false;
  };
  exclusive_product_backward(op, by_dst, by_src, grad, out, fast);
}

}  // namespace
