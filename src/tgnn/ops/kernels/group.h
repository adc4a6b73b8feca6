// Group edges by one endpoint (CSR or CSC).
#pragma once

#include "rows.h"

namespace {

// Stable counting sort.
template <class I>
void group(const I* key, const I* other, Index edges, Index groups, Index* ptr, Node* sorted, Index* edge) {
  std::fill(ptr, ptr + groups + 1, 0);
  for (Index e = 0; e < edges; ++e) ++ptr[key[e] + 1];
  for (Index i = 0; i < groups; ++i) ptr[i + 1] += ptr[i];
  std::unique_ptr<Index[]> next(new Index[groups]);
  std::copy(ptr, ptr + groups, next.get());
  for (Index e = 0; e < edges; ++e) {
    const Index place = next[key[e]]++;
    sorted[place] = other ? Node(other[e]) : Node(e);
    if (edge) edge[place] = e;
  }
}

// Checks the indices of an edge_index [2, edges] and groups its edges by destination and by source. `edge_dst` and
// `edge_src` receive the positions of the edges. Writes to `found` the smallest and largest source and destination, and
// whether the edges are sorted by destination and by source. If an index is out of range, nothing else is written.
template <class I>
void group_both(const I* edge_index, Index edges, Index n_src, Index n_dst, Index* ptr_dst, Node* other_dst,
                Index* edge_dst, Index* ptr_src, Node* other_src, Index* edge_src, Index* found) {
  const I *src = edge_index, *dst = edge_index + edges;
  I least[2] = {0, 0}, most[2] = {-1, -1};
  bool sorted[2] = {true, true};
  for (int end = 0; end < 2; ++end) {
    const I* const index = end ? dst : src;
    if (edges) least[end] = most[end] = index[0];
    for (Index e = 1; e < edges; ++e) {
      least[end] = std::min(least[end], index[e]);
      most[end] = std::max(most[end], index[e]);
      sorted[end] &= index[e] >= index[e - 1];
    }
    found[2 * end] = least[end];
    found[2 * end + 1] = most[end];
    found[4 + end] = sorted[end];
  }
  if (least[0] < 0 || least[1] < 0 || most[0] >= n_src || most[1] >= n_dst) return;
  group(dst, src, edges, n_dst, ptr_dst, other_dst, sorted[1] ? nullptr : edge_dst);
  group(src, dst, edges, n_src, ptr_src, other_src, sorted[0] ? nullptr : edge_src);
}

}  // namespace
