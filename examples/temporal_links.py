"""Predict who meets whom next from what both did last, and beat the rule that people do again what they did (EdgeBank).

    python examples/temporal_links.py --set collegemsg|jodie-wikipedia [--data ../shared/data]

Events up to the 0.70 quantile of time are learned, those after the 0.85 quantile are the test; between them is history
only. Each event is scored beside the same source with another destination, any that it has no event with at that very
moment: old acquaintances are negatives too, and nothing of the future decides who is one. TEMPORAL gives each pair a
tree of what was before it. The network sees no names: only how long ago the last events of both ends were, whether
they were with each other, and what other partners they share. EdgeBank answers for the same pairs, in SQL.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import snapdb
from snapdb.train import average_precision, seeded, torch_threads

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
LATEST = 10
AGES = torch.logspace(1, 7, 7)
"""Seconds, from ten to four months, over which what happened fades."""

VERTICES = {
    "collegemsg": """
CREATE TABLE person AS SELECT id FROM '{folder}/nodes.parquet';
CREATE PROPERTY GRAPH meetings VERTEX TABLES (person KEY (id))
  EDGE TABLES (event SOURCE KEY (src) REFERENCES person DESTINATION KEY (dst) REFERENCES person EVENT TIME (ts));
""",
    "jodie-wikipedia": """
CREATE TABLE account AS SELECT id FROM '{folder}/nodes.parquet' WHERE type = 'user';
CREATE TABLE page AS SELECT id FROM '{folder}/nodes.parquet' WHERE type = 'page';
CREATE PROPERTY GRAPH meetings VERTEX TABLES (account KEY (id), page KEY (id))
  EDGE TABLES (event SOURCE KEY (src) REFERENCES account DESTINATION KEY (dst) REFERENCES page EVENT TIME (ts));
""",
}

EVENTS = "CREATE TABLE event AS SELECT src, dst, ts FROM '{folder}/edges.parquet';"
SPLIT = "SELECT floor(quantile_cont(ts, 0.70))::BIGINT, floor(quantile_cont(ts, 0.85))::BIGINT FROM event"
SNAPSHOTS = """
CREATE SNAPSHOT past OF meetings FOR EVENT_TIME AS OF {learned};
CREATE SNAPSHOT whole OF meetings;
"""

SAMPLE = """
SAMPLE FROM {snapshot} SEEDS EDGES event (SELECT e_id, ts AS seed_time FROM {snapshot}.event
                                   WHERE ts > {after} AND e_id % {thin} = 0)
  NEGATIVES 1 PER POSITIVE EXCLUDE KNOWN AT SEED_TIME
  FANOUT (event IN => [{latest}], event OUT => [{latest}]) METHOD LATEST TEMPORAL < SEED_TIME
  BATCH 400 REPEATABLE ({seed})
"""

EDGEBANK = """
SELECT trial.met, coalesce(bank.since < trial.at_time, false) AS seen
  FROM trial LEFT JOIN (SELECT src, dst, min(ts) AS since FROM whole.event GROUP BY src, dst) bank USING (src, dst)
"""
"""A bank of all that was before each pair's moment: a harder rule to beat than one that is filled every 200 events."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of a batch and the latest events of every node, which are numbered through all node types."""

    source: Tensor
    """[pairs] numbers of nodes."""
    destination: Tensor
    partner: Tensor
    """[nodes, 2 LATEST] numbers of the nodes that the events were with; -1 where there was no event."""
    age: Tensor
    """[nodes, 2 LATEST] seconds before the pair's time."""
    outward: Tensor
    """[nodes, 2 LATEST] 1 when the node was the event's source."""

    @classmethod
    def of(cls, batch: snapdb.Batch) -> Pairs:
        """The batch's pairs: seed edges, then negatives."""
        first, nodes = {}, 0
        for kind, ids in batch.n_id.items():
            first[kind], nodes = nodes, nodes + len(ids)
        rows = []
        for key, (partner, node) in batch.edge_index.items():
            outward = torch.full_like(node, key.edge.startswith("rev_"))
            rows.append(
                torch.stack([node + first[key.destination], partner + first[key.source], batch.edge_age[key], outward])
            )
        node, partner, age, outward = (found := torch.cat(rows, dim=1))[:, torch.argsort(found[0], stable=True)]
        slot = torch.arange(len(node)) - torch.searchsorted(node, node)
        tables = torch.full((3, nodes, 2 * LATEST), -1)
        tables[:, node, slot] = torch.stack([partner, age, outward])
        source, destination = batch.edge_label_index
        ends = batch.seed_type
        return cls(source + first[ends.source], destination + first[ends.destination], *tables)


class Links(nn.Module):
    """A score of a pair: what the latest events of either end say in the light of the other, summed and read out."""

    def __init__(self, hidden: int, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.event = nn.Sequential(
                nn.Linear(len(AGES) + 5, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
            )
            self.read = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, batch: snapdb.Batch) -> Tensor:
        """Logits [pairs]."""
        pairs = Pairs.of(batch)
        ends = (pairs.source, pairs.destination), (pairs.destination, pairs.source)
        logits: Tensor = self.read(torch.cat([self.side(pairs, one, other) for one, other in ends], dim=1))
        return logits.squeeze(1)

    def side(self, pairs: Pairs, one: Tensor, other: Tensor) -> Tensor:
        """[pairs, hidden]: the events of one end; each tells its age, its way, and how it relates to the other end."""
        partner, age = pairs.partner[one], pairs.age[one].clamp(min=0).float()
        together = partner == other[:, None]
        again, shared = (partner[:, :, None] == pairs.partner[end][:, None, :] for end in (one, other))
        facts = [together, again.sum(2).log1p(), shared.sum(2).log1p(), pairs.outward[one], age.log1p() / 16]
        event = torch.cat([torch.exp(-age[:, :, None] / AGES), torch.stack(facts, dim=2)], dim=2)
        return (self.event(event) * (partner >= 0)[:, :, None]).sum(1) / LATEST


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Learns and tests once; answers the test AP of the network and of EdgeBank, or nothing when the data is absent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds the set")
    parser.add_argument("--set", choices=sorted(VERTICES), default="collegemsg")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--thin", type=int, default=1, help="learn and test every n-th event; all are history")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    folder = options.data / options.set
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    started = time.perf_counter()
    with snapdb.connect() as db, torch_threads(1):
        load = (EVENTS + VERTICES[options.set]).format(folder=folder)
        print(load)
        db.script(load)
        learned, tested = db.execute(SPLIT).fetchall()[0]
        print(SNAPSHOTS.format(learned=learned))
        db.script(SNAPSHOTS.format(learned=learned))
        common = {"thin": options.thin, "latest": LATEST, "seed": options.seed}
        train = SAMPLE.format(snapshot="past", after=-1, **common)
        test = SAMPLE.format(snapshot="whole", after=tested, **common)
        print(train, test, EDGEBANK, sep="\n")
        model = Links(hidden=32, seed=options.seed)
        fit(model, db.stream(train), options.epochs)
        figures = {**scored(model, db, test), "seconds": time.perf_counter() - started}
    print(f"test AP {figures['ap']:.4f}, of EdgeBank on the same pairs {figures['edgebank']:.4f}")
    print(f"times that test batches break a rule: {figures['violations']}; {figures['seconds']:.0f} s in all")
    return figures


def fit(model: Links, stream: snapdb.BatchStream, epochs: int) -> None:
    """Teaches the model to tell events from negatives."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(epochs):
        for batch in stream:
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(model(batch), batch.edge_label).backward()
            optimizer.step()


def scored(model: Links, db: snapdb.Database, query: str) -> dict[str, float]:
    """The average precision of the model and of EdgeBank over all pairs, and how often the batches break a rule."""
    logits, met, trials, violations = [], [], [], 0
    with torch.no_grad():
        for batch in db.stream(query):
            logits.append(model(batch))
            met.append(batch.edge_label)
            violations += sum(batch.audit().values())
            trials.append(trial(batch))
    db.register("trials", pa.concat_tables(trials))
    db.execute("CREATE TABLE trial AS SELECT * FROM trials")
    bank = db.execute(EDGEBANK).arrow()
    return {
        "ap": average_precision(torch.cat(met), torch.cat(logits)),
        "edgebank": average_precision(bank["met"].to_numpy(), bank["seen"].to_numpy()),
        "violations": violations,
    }


def trial(batch: snapdb.Batch) -> pa.Table:
    """The pairs of a batch by the user's ids: src, dst, at_time, met."""
    source, destination = batch.edge_label_index.numpy()
    ends = batch.seed_type
    seed = batch.batch[ends.source].numpy()[source]
    return pa.table(
        {
            "src": batch.ids(ends.source).take(pa.array(source)),
            "dst": batch.ids(ends.destination).take(pa.array(destination)),
            "at_time": batch.seed_time.numpy()[seed],
            "met": batch.edge_label.numpy(),
        }
    )


if __name__ == "__main__":
    main()
