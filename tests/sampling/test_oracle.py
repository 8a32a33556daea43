"""The oracle gives the contract's own test vectors, and its draws have the properties that the contract states."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations

import pytest

from tests.support.oracle import (
    FULL,
    NEG,
    PHASE,
    ROW,
    SEEDPERM,
    Edge,
    Graph,
    Row,
    below,
    draw,
    epoch_batches,
    floyd,
    fold,
    global_batch,
    key,
    logical_row,
    mix,
    pick_key,
    rows,
    sample,
    seed_order,
    type_hash,
)

BOUGHT = ("customer", "bought", "product")
KNOWS = ("person", "knows", "person")
PICK_VECTOR = 0xF0A625C1C1AB29D8


def test_mixing_and_folding_give_the_contract_vectors() -> None:
    assert mix(0) == 0
    assert mix(1) == 0x5692161D100B05E5
    assert fold(0, 0) == 0xA706DD2F4D197E6F
    assert fold(0, 42) == key(42) == 0x57E1FABA65107204


def test_type_hashes_give_the_contract_vectors() -> None:
    assert type_hash(BOUGHT, "IN") == 0x860DA7D90BDD38F6
    assert type_hash(BOUGHT, "OUT") == 0x7A969BCD2CCB509B


def test_type_hashes_ignore_case() -> None:
    assert type_hash(("Customer", "BOUGHT", "product"), "IN") == type_hash(BOUGHT, "IN")


def test_the_pick_key_and_its_draws_give_the_contract_vectors() -> None:
    k = pick_key(42, 7, 1, type_hash(BOUGHT, "IN"), 123456)
    assert k == PICK_VECTOR
    expected = [0xFBC33FA4663DF263, 0xB9945E293C549CF6, 0x6992AECE412F7080, 0xC336E5EBF4683B2B]
    assert [draw(k, i) for i in range(4)] == expected


@pytest.mark.parametrize(("n", "expected"), [(10, 9), (2**31 - 1, 2111938513), (2**40, 1081312519270)])
def test_below_gives_the_contract_vectors(n: int, expected: int) -> None:
    assert below(draw(PICK_VECTOR, 0), n) == expected


@pytest.mark.parametrize("n", [1, 2, 3, 1000, 2**31 - 1, 2**31, 2**40 + 7, 2**63 - 1])
def test_below_equals_the_contract_word_arithmetic(n: int) -> None:
    word = 2**32 - 1
    for i in range(200):
        r = draw(n, i)
        a, b, c, d = r >> 32, r & word, n >> 32, n & word
        p = b * d
        q = a * d + (p >> 32)
        t = b * c + (q & word)
        assert below(r, n) == a * c + (q >> 32) + (t >> 32)
        if n < 2**31:
            assert below(r, n) == (a * n + ((b * n) >> 32)) >> 32


def test_floyd_gives_the_contract_vectors() -> None:
    assert floyd(PICK_VECTOR, 20, 5) == [15, 12, 7, 14, 6]
    assert floyd(PICK_VECTOR, 100000, 3) == [98342, 72491, 41239]


def test_the_row_key_and_the_phase_give_the_contract_vectors() -> None:
    et = type_hash(BOUGHT, "IN")
    row = key(42, ROW, 0, 3, 2**32 - 1, et, 123456)
    assert row == 0xC7B75DC917766C6A
    assert floyd(row, 20, 10) == [10, 4, 6, 3, 7, 5, 9, 13, 18, 19]
    assert key(42, PHASE, 0, et, 5) >> 32 == 3177133315


def test_the_seed_order_and_a_negative_give_the_contract_vectors() -> None:
    assert seed_order(8, 42, 0) == [7, 2, 4, 5, 0, 1, 6, 3]
    assert seed_order(8, 42, 1) == [4, 1, 0, 2, 6, 3, 5, 7]
    assert below(draw(key(42, NEG, 0, 3, 1), 0), 1000) == 47


@pytest.mark.parametrize("d", [0, 1, 2, 3, 7, 50])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 49])
def test_floyd_draws_distinct_positions_within_the_row(d: int, count: int) -> None:
    for k in range(50):
        drawn = floyd(mix(k), d, count)
        assert len(drawn) == len(set(drawn)) == min(d, count)
        assert all(0 <= position < d for position in drawn)


def test_floyd_delivers_a_short_row_whole_and_in_order() -> None:
    assert floyd(PICK_VECTOR, 4, 4) == floyd(PICK_VECTOR, 4, 9) == [0, 1, 2, 3]


def test_floyd_draws_every_subset_equally_often() -> None:
    trials = 4000
    subsets = Counter(tuple(sorted(floyd(mix(k + 1), 5, 2))) for k in range(trials))
    assert set(subsets) == set(combinations(range(5), 2))
    expected = trials / 10
    chi_squared = sum((seen - expected) ** 2 / expected for seen in subsets.values())
    assert chi_squared < 27.9  # 9 degrees of freedom, p = 0.001; the draws are fixed, so this never flickers


def test_every_part_of_a_pick_key_changes_the_draw() -> None:
    parts = (42, 7, 1, type_hash(BOUGHT, "IN"), 123456)
    keys = {pick_key(*parts)}
    for i in range(len(parts)):
        keys.add(pick_key(*(part + (i == j) for j, part in enumerate(parts))))
    keys.add(pick_key(42, 7, 1, type_hash(BOUGHT, "OUT"), 123456))
    assert len(keys) == len(parts) + 2


def test_an_epoch_holds_every_seed_once() -> None:
    for epoch in range(3):
        batches = epoch_batches(10, 7, epoch, 4)
        assert [len(batch) for batch in batches] == [4, 4, 2]
        assert sorted(chain.from_iterable(batches)) == list(range(10))


def test_shuffle_moves_with_the_epoch_and_fixed_does_not() -> None:
    assert epoch_batches(10, 7, 0, 4) != epoch_batches(10, 7, 1, 4)
    assert epoch_batches(10, 7, 5, 4, "FIXED") == epoch_batches(10, 7, 0, 4)
    assert epoch_batches(3, 7, 5, 2, "IN ORDER", [2, 0, 1]) == [[2, 0], [1]]
    assert key(7, SEEDPERM, 0, 0) != key(7, SEEDPERM, 1, 0)


def test_the_global_batch_counts_over_epochs() -> None:
    assert [global_batch(e, i, 3) for e in range(2) for i in range(3)] == [0, 1, 2, 3, 4, 5]


def star(edges: int) -> Graph:
    """Edges i → 0 whose times run against their ids."""
    return Graph({"person": edges + 1}, {KNOWS: [Edge(i + 1, 0, i, 100 - i) for i in range(edges)]})


def test_a_logical_row_is_ordered_by_event_time_then_edge_id() -> None:
    graph = Graph({"person": 4}, {KNOWS: [Edge(1, 0, 9, 5), Edge(2, 0, 3, 7), Edge(3, 0, 1, 5)]})
    assert [entry.edge.edge_id for entry in logical_row(graph, KNOWS, "IN", 0)] == [1, 9, 3]
    untimed = Graph({"person": 4}, {KNOWS: [Edge(1, 0, 9), Edge(2, 0, 3), Edge(3, 0, 1)]})
    assert [entry.edge.edge_id for entry in logical_row(untimed, KNOWS, "IN", 0)] == [1, 3, 9]


def test_the_order_of_the_stored_edges_changes_nothing() -> None:
    graph = star(9)
    reversed_graph = Graph(graph.vertex_counts, {KNOWS: graph.edges[KNOWS][::-1]})
    fanouts = [(KNOWS, "IN", [4])]
    assert sample(graph, [0], "person", fanouts, 1, 0) == sample(reversed_graph, [0], "person", fanouts, 1, 0)


def test_both_is_one_row_in_then_out_with_one_fanout() -> None:
    graph = Graph({"person": 5}, {KNOWS: [Edge(1, 0, 0), Edge(0, 2, 1), Edge(3, 0, 2), Edge(0, 4, 3)]})
    assert [entry.edge.edge_id for entry in logical_row(graph, KNOWS, "BOTH", 0)] == [0, 2, 1, 3]
    block = sample(graph, [0], "person", [(KNOWS, "BOTH", [3])], 3, 0).hops[0][0]
    assert block.direction == "BOTH"
    assert len(block.edges) == 3


def test_both_between_two_types_walks_in_then_out_with_one_hash() -> None:
    graph = Graph({"customer": 3, "product": 1}, {BOUGHT: [Edge(c, 0, c) for c in range(3)]})
    result = sample(graph, [0], "product", [(BOUGHT, "BOTH", [2, 2])], 3, 0)
    assert [[(b.direction, len(b.edges)) for b in hop] for hop in result.hops] == [
        [("IN", 2), ("OUT", 0)],
        [("IN", 0), ("OUT", 2)],
    ]
    drawn = floyd(pick_key(3, 0, 0, type_hash(BOUGHT, "BOTH"), 0), 3, 2)
    assert result.nodes == {"customer": drawn, "product": [0]}
    assert result.nodes_per_hop == {"customer": [0, 2, 0], "product": [1, 0, 0]}


def test_full_delivers_all_and_zero_stops() -> None:
    result = sample(star(9), [0], "person", [(KNOWS, "IN", [FULL])], 1, 0)
    assert [edge.edge_id for edge in result.hops[0][0].edges] == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    stopped = sample(star(9), [0], "person", [(KNOWS, "IN", [0, 5])], 1, 0)
    assert [block.edges for hop in stopped.hops for block in hop] == [[], []]


def test_only_nodes_new_in_a_hop_expand_in_the_next() -> None:
    ring = Graph({"person": 3}, {KNOWS: [Edge(1, 0, 0), Edge(2, 1, 1), Edge(0, 2, 2)]})
    result = sample(ring, [0, 1], "person", [(KNOWS, "IN", [5, 5, 5])], 1, 0)
    assert [[edge.edge_id for edge in hop[0].edges] for hop in result.hops] == [[0, 1], [2], []]
    assert result.nodes["person"] == [0, 1, 2]
    assert result.nodes_per_hop["person"] == [2, 1, 0, 0]


def test_edge_types_of_a_hop_go_in_byte_order_of_their_text() -> None:
    follows = ("person", "follows", "person")
    graph = Graph({"person": 3}, {KNOWS: [Edge(1, 0, 0)], follows: [Edge(2, 0, 0)]})
    result = sample(graph, [0], "person", [(KNOWS, "IN", [1]), (follows, "IN", [1])], 1, 0)
    assert [block.edge for block in result.hops[0]] == [follows, KNOWS]
    assert result.nodes["person"] == [0, 2, 1]


def test_rows_show_ends_as_stored_whatever_the_direction() -> None:
    graph = Graph({"customer": 2, "product": 2}, {BOUGHT: [Edge(1, 0, 0)]})
    inward = rows(graph, [0, 1], "product", [(BOUGHT, "IN", [1])], 42, 2)
    outward = rows(graph, [0, 1], "customer", [(BOUGHT, "OUT", [1])], 42, 2)
    assert inward == [Row(0, 0, "bought", "in", 1, 0, 0)]
    assert outward == [Row(0, 0, "bought", "out", 1, 0, 0)]


def test_rows_of_later_epochs_go_on_counting_batches() -> None:
    found = rows(star(3), [0, 1, 2, 3], "person", [(KNOWS, "IN", [2])], 42, 2, epochs=3)
    assert {row.batch // 2 for row in found} == {0, 1, 2}
    assert [row.batch for row in found] == sorted(row.batch for row in found)
    in_order = rows(star(3), [3, 0, 2, 1], "person", [(KNOWS, "IN", [2])], 42, 2, order="IN ORDER")
    assert {row.batch for row in in_order} == {0}
