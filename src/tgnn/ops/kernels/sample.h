// Neighbor sampling: samples in-edges of the seed nodes, then of the new nodes of each hop.
// ops/sampling.py documents the result and computes the same in numpy, bit for bit. Change them together.
#pragma once

#include <atomic>
#include <stdexcept>
#include <vector>

#include "rows.h"

namespace {

// Minimum number of edges per thread. The edges of a thousand seeds take one millisecond, of which a second thread
// would save a quarter. On a busy machine, waiting for the second thread costs ten times as much.
constexpr Index kEdgesAtOnce = 32768;
constexpr Index kFar = 16;  // distance of the prefetch, in nodes or edges: most reads of the graph are cache misses

// ---- counter-based random numbers (splitmix64), independent of the number of threads --------------------------------

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

struct Numbers {
  uint64_t state;

  Index below(Index bound) {
    state += kGolden;
    return Index((static_cast<unsigned __int128>(mixed(state)) * uint64_t(bound)) >> 64);
  }
};

// ---- positions of nodes in the sample -----------------------------------------------------------------------------

// Hash table from nodes to positions, filled by one thread. A table that two threads fill is slower. An array over all
// nodes saves a tenth of the time, but every worker would hold one in memory.
class Places {
 public:
  // Clears the table and reserves space for `count` nodes.
  void start(Index count) {
    int bits = 4;
    while ((Index(1) << bits) < 2 * count) ++bits;
    slots_.assign(size_t(1) << bits, Slot{-1, -1});
    shift_ = 64 - bits;
  }

  // Returns the position of a node; a new node gets the position `place`.
  Index place(Index node, Index place) {
    size_t i = home(node);
    while (slots_[i].node != node && slots_[i].node >= 0) i = (i + 1) & (slots_.size() - 1);
    if (slots_[i].node < 0) slots_[i] = {node, place};
    return slots_[i].place;
  }

  void prefetch(Index node) const { __builtin_prefetch(&slots_[home(node)]); }

 private:
  struct Slot {
    Index node, place;
  };

  size_t home(Index node) const { return size_t((uint64_t(node) * kGolden) >> shift_); }

  std::vector<Slot> slots_;
  int shift_ = 0;
};

// ---- selection of edges -------------------------------------------------------------------------------------------

// Edges grouped by destination (CSC): the edges into v have the sources source[ptr[v]] .. source[ptr[v + 1] - 1].
// `edge` is their position in the caller's order (null: the same).
template <class Source>
struct InEdges {
  const Index* ptr;
  const Source* source;
  const Index* edge;
  Index nodes, edges;
};

struct Way {
  uint64_t key;
  bool replace, fill_up, by_node;
};

// Number of in-edges of a node in the sample: all of them `rounds` times, then `drawn` random ones.
struct Share {
  Index rounds, drawn;
};

inline Share share_of(Index degree, Index fan_out, const Way& way) {
  if (degree == 0) return {0, 0};
  if (fan_out < 0) return {1, 0};
  if (way.replace) return {0, fan_out};
  if (way.fill_up) return {fan_out / degree, fan_out % degree};
  return degree <= fan_out ? Share{1, 0} : Share{0, fan_out};
}

// Draws `count` of the numbers `first` to `first + degree - 1`. Without replacement it uses Floyd's algorithm: every
// subset is equally likely, and each draw needs one random number.
inline void draw(Numbers numbers, Index first, Index degree, Index count, bool replace, Index* out) {
  if (replace) {
    for (Index i = 0; i < count; ++i) out[i] = first + numbers.below(degree);
    return;
  }
  const bool few = count <= 64;  // a linear search is faster than a table
  Places taken;
  if (!few) taken.start(count);
  for (Index i = 0; i < count; ++i) {
    const Index last = first + degree - count + i, number = first + numbers.below(degree - count + i + 1);
    bool again = false;
    if (few)
      for (Index j = 0; j < i; ++j) again |= out[j] == number;  // no early exit: the branch would be mispredicted
    else
      again = taken.place(number, i) != i;
    out[i] = again ? last : number;
    if (again && !few) taken.place(last, i);
  }
}

// ---- hops ---------------------------------------------------------------------------------------------------------

// Each thread reuses its buffers for the next sample, because allocation takes a third of the time.
struct Sample {
  std::vector<Index> node, row, col, edge, hop_nodes, hop_edges, offset;
  Places places;
  // Errors in the graph: a node at which ptr decreases, a position whose source is not a node.
  std::atomic<Index> wrong_node{-1}, wrong_place{-1};

  bool wrong() const { return wrong_node >= 0 || wrong_place >= 0; }

  static std::unique_ptr<Sample>& of_this_thread() {
    thread_local std::unique_ptr<Sample> sample;
    return sample;
  }
};

constexpr Index kMostKept = Index(1) << 20;  // edges; about 80 MB with the table

// Computes the offset of the edges of each of the nodes [begin, end), followed by the total.
template <class Source>
void set_offsets(const InEdges<Source>& graph, const Way& way, Index fan_out, Index begin, Index end, Sample& sample) {
  std::vector<Index>& offset = sample.offset;
  offset.assign(end - begin + 1, 0);
  parallel_for(begin, end, kEdgesAtOnce, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      if (i + kFar < last) __builtin_prefetch(graph.ptr + sample.node[i + kFar]);
      const Index v = sample.node[i], low = graph.ptr[v], high = graph.ptr[v + 1];
      if (low < 0 || low > high || high > graph.edges) {
        sample.wrong_node = v;
        continue;
      }
      const Share share = share_of(high - low, fan_out, way);
      offset[i - begin + 1] = share.rounds * (high - low) + share.drawn;
    }
  });
  offset[0] = Index(sample.edge.size());
  for (size_t i = 1; i < offset.size(); ++i) offset[i] += offset[i - 1];
}

// Samples in-edges of the nodes [begin, end). `row` then holds their sources as node indices of the graph.
template <class Source>
void sample_edges(const InEdges<Source>& graph, const Way& way, Index fan_out, uint64_t key, Index begin, Index end,
                  Sample& sample) {
  set_offsets(graph, way, fan_out, begin, end, sample);
  if (sample.wrong()) return;
  const std::vector<Index>& offset = sample.offset;
  for (auto* ends : {&sample.row, &sample.col, &sample.edge}) ends->resize(offset.back());
  Index *row = sample.row.data(), *col = sample.col.data(), *edge = sample.edge.data();
  const Index edges = std::max(offset.back() - offset.front(), Index(1));
  const Index nodes_at_once = kEdgesAtOnce * (end - begin) / edges + 1;
  parallel_for(begin, end, nodes_at_once, [&, row, col, edge](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const Index v = sample.node[i], low = graph.ptr[v], degree = graph.ptr[v + 1] - low;
      const Share share = share_of(degree, fan_out, way);
      Index* out = edge + offset[i - begin];
      for (Index round = 0; round < share.rounds; ++round)
        for (Index j = 0; j < degree; ++j) *out++ = low + j;
      if (share.drawn) draw({mixed(key ^ uint64_t(v))}, low, degree, share.drawn, way.replace, out);
      std::fill(col + offset[i - begin], col + offset[i - begin + 1], i);
    }
    const Index stop = offset[last - begin];
    for (Index k = offset[first - begin]; k < stop; ++k) {
      if (k + kFar < stop) {
        __builtin_prefetch(graph.source + edge[k + kFar]);
        if (graph.edge) __builtin_prefetch(graph.edge + edge[k + kFar]);
      }
      row[k] = Index(graph.source[edge[k]]);
      if (row[k] < 0 || row[k] >= graph.nodes) sample.wrong_place = edge[k];
      if (graph.edge) edge[k] = graph.edge[edge[k]];
    }
  });
}

// Replaces the sources from edge `from` on by their positions in the sample, and appends new nodes to the sample.
inline void place_sources(Index from, Index nodes, Sample& sample) {
  const Index to = Index(sample.row.size());
  Places& places = sample.places;
  places.start(std::min(Index(sample.node.size()) + to - from, nodes));
  for (size_t i = 0; i < sample.node.size(); ++i) places.place(sample.node[i], Index(i));  // the first position of each
  for (Index k = from; k < to; ++k) {
    if (k + kFar < to) places.prefetch(sample.row[k + kFar]);
    const Index source = sample.row[k], next = Index(sample.node.size());
    sample.row[k] = places.place(source, next);
    if (sample.row[k] == next) sample.node.push_back(source);
  }
}

// `report` receives the numbers of nodes and edges, errors in the graph, and the nodes and edges of each hop.
template <class Source>
void sample(const InEdges<Source>& graph, const Index* seeds, Index count, const Index* fan_out, Index hops,
            const Way& way, Index* report) {
  std::unique_ptr<Sample>& mine = Sample::of_this_thread();
  if (!mine) mine.reset(new Sample);
  Sample& sample = *mine;
  for (auto* part : {&sample.row, &sample.col, &sample.edge, &sample.hop_edges}) part->clear();
  sample.node.assign(seeds, seeds + count);
  sample.hop_nodes.assign(1, count);
  sample.wrong_node = sample.wrong_place = -1;
  for (Index hop = 0, begin = 0; hop < hops && !sample.wrong(); ++hop) {
    const Index end = Index(sample.node.size()), edges = Index(sample.edge.size());
    const uint64_t key = mixed(way.key + (way.by_node ? 1 : uint64_t(hop + 1)) * kGolden);
    sample_edges(graph, way, fan_out[hop], key, begin, end, sample);
    if (!sample.wrong()) place_sources(edges, graph.nodes, sample);
    sample.hop_nodes.push_back(Index(sample.node.size()) - end);
    sample.hop_edges.push_back(Index(sample.edge.size()) - edges);
    begin = end;
  }
  report[0] = Index(sample.node.size());
  report[1] = Index(sample.edge.size());
  report[2] = sample.wrong_node;
  report[3] = sample.wrong_place;
  std::copy(sample.hop_nodes.begin(), sample.hop_nodes.end(), report + 4);
  std::copy(sample.hop_edges.begin(), sample.hop_edges.end(), report + 5 + hops);
}

// Copies the last sample of this thread to the arrays that are not null.
inline void take_sample(Index* node, Index* row, Index* col, Index* edge) {
  std::unique_ptr<Sample>& mine = Sample::of_this_thread();
  const auto copy = [](const std::vector<Index>& from, Index* to) {
    if (to) std::copy(from.begin(), from.end(), to);
  };
  copy(mine->node, node);
  copy(mine->row, row);
  copy(mine->col, col);
  copy(mine->edge, edge);
  if (Index(mine->edge.capacity()) > kMostKept) mine.reset();
}

}  // namespace
