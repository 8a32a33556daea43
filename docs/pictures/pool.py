"""The neighbor pool: which edges a batch draws from, and when the rows of the pool are resampled."""

from __future__ import annotations

from drawing import Drawing

_NODES, _BATCHES, _CELL = 6, 12, 24
_LEFT = 112


def _grid(
    d: Drawing, top: float, title: str, note: str, rounds: list[list[int]]
) -> None:
    """A row per node and a column per batch; the colour changes with the round of the node's row."""
    d.text(20, top + 18, title, "code")
    for line, words in enumerate(note.split("\n")):
        d.text(20, top + 38 + 17 * line, words, "small")
    height = 14
    for node, row in enumerate(rounds):
        for batch, number in enumerate(row):
            kind = ("blue", "amber", "plain")[number % 3]
            d.box(_LEFT + batch * _CELL, top + node * height, _CELL, height, kind, 0)


def draw() -> str:
    """A node's edges, its row and three batches; then the rounds of six nodes under each strategy."""
    d = Drawing(
        588,
        "The neighbor pool and its rounds",
        "A node of 12 edges has a row of 6 sampled neighbours in the pool. Batches draw 3 of them until the row is "
        "resampled. Under FBL there are no rows and every batch draws from all edges. Under FCR all rows are resampled "
        "every 4 batches. Under OTF rows take turns, so some are resampled in every batch.",
    )
    d.text(20, 32, "One node: fanout 3, AMPLIFY 2", "bold")
    d.text(20, 66, "12 edges", "")
    d.cells(112, 48, "abcdefghijkl", "bppbbpbppbpb", 24)
    d.text(20, 108, "row of 6", "")
    d.cells(112, 90, "adegjl", "bbbbbb", 24)
    d.text(270, 108, "one per round", "small")
    for place, drawn in ((112, "dgl"), (216, "aej"), (320, "dej")):
        d.arrow((place + 36, 127), (place + 36, 138))
        d.cells(place, 140, drawn, "aaa", 24)
    d.line((148, 115), (148, 127), (356, 127))
    d.text(20, 158, "batches", "")

    d.text(20, 204, "Six nodes: one colour per round", "bold")
    fbl = [list(range(_BATCHES))] * _NODES
    fcr = [[batch // 4 for batch in range(_BATCHES)]] * _NODES
    turns = [0, 3, 1, 5, 2, 4]
    otf = [[(batch + 5 - turn) // 6 for batch in range(_BATCHES)] for turn in turns]
    _grid(d, 220, "FBL", "resampled\nevery batch", fbl)
    _grid(d, 324, "FCR", "full refresh\nevery T = 4\nbatches", fcr)
    _grid(d, 428, "OTF", "rolling\nrefresh", otf)
    d.arrow((_LEFT, 528), (_LEFT + _BATCHES * _CELL, 528))
    d.text(_LEFT + _BATCHES * _CELL, 547, "batch number", "small", "end")
    d.text(20, 570, "The round decides when the row of a node changes.", "small")
    return d.svg()
