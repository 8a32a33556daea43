"""The life of a batch, from the statement to the training loop."""

from __future__ import annotations

from drawing import Drawing


def draw() -> str:
    """The steps from top to bottom; those that threads do are in a frame."""
    d = Drawing(
        592,
        "The life of a batch",
        "Bind turns the statement into a SampleSpec. Opening maps the snapshot's arrays and runs the seed query. "
        "Threads expand the seeds, sample hop by hop and fetch features. A bounded queue returns the batches in order "
        "to the training loop.",
    )

    def step(
        y: float, name: str, what: str, where: str, x: float = 20, width: float = 380
    ) -> None:
        d.box(x, y, width, 54, "plain", 6)
        d.text(x + 14, y + 22, name, "bold")
        d.text(x + 14, y + 42, what, "small")
        d.text(x + width - 14, y + 22, where, "code small", "end")

    d.box(20, 20, 380, 34, "blue", 6)
    d.text(34, 42, "SAMPLE FROM june SEEDS (…) FANOUT (…)", "code")
    d.arrow((210, 54), (210, 72))
    step(74, "Bind", "names, fanouts and the key of all draws", "plan")
    d.arrow((210, 128), (210, 146))
    step(148, "Open", "map the snapshot's arrays, run the seed query", "execute, graph")
    d.arrow((210, 202), (210, 220))

    d.box(12, 222, 396, 236, "pale", 8)
    d.text(34, 246, "threads, each on another batch number", "small")
    step(256, "Expand seeds", "seed edges, negatives, exclusions", "loading", 28, 364)
    d.arrow((210, 310), (210, 322))
    step(324, "Sample", "hop by hop, relabel nodes", "sampling, kernels", 28, 364)
    d.arrow((210, 378), (210, 390))
    step(392, "Fetch", "features, targets, edge columns", "loading", 28, 364)

    d.arrow((210, 458), (210, 476))
    d.box(20, 478, 380, 48, "amber", 6)
    for place, label in enumerate(["7", "8", "9"]):
        d.labelled(36 + place * 34, 488, 28, 28, label, "plain")
    d.text(150, 507, "bounded queue, in batch order")
    d.arrow((210, 526), (210, 544))
    d.box(20, 546, 380, 32, "blue", 6)
    d.text(210, 567, "training loop; transform and GPU copy on the way", "", "middle")
    return d.svg()
