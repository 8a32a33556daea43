"""`snapdb demo`: the whole job on made-up payments, every statement shown before it runs."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

import snapdb
from snapdb.errors import BindError
from snapdb.loading import Batch
from snapdb.train import GraphSAGE, Predictions, average_precision, fit, predict, roc_auc, torch_threads

from .demo_data import write_demo_data

MONTHS = {"jan": "02", "feb": "03", "mar": "04", "apr": "05", "may": "06", "jun": "07"}
"""Snapshot → the month with whose first moment it ends."""

LOAD = """
CREATE TABLE account AS
  SELECT id, opened,
         [(epoch(opened) - avg(epoch(opened)) OVER ()) / stddev(epoch(opened)) OVER (),
          (ln(balance) - avg(ln(balance)) OVER ()) / stddev(ln(balance)) OVER (),
          (ln(income) - avg(ln(income)) OVER ()) / stddev(ln(income)) OVER (),
          (logins - avg(logins) OVER ()) / stddev(logins) OVER (),
          (devices - avg(devices) OVER ()) / stddev(devices) OVER ()]::FLOAT[5] AS profile
  FROM '{accounts}';
CREATE TABLE paid AS SELECT * FROM '{payments}' MESSAGE 'January to June';
CREATE TABLE cases AS SELECT * FROM '{cases}';
"""

GRAPH = """
CREATE PROPERTY GRAPH bank
  VERTEX TABLES (account KEY (id) FEATURES (profile AS x))
  EDGE TABLES (paid SOURCE KEY (payer) REFERENCES account (id) DESTINATION KEY (payee) REFERENCES account (id)
               EVENT TIME (paid_at));
"""

SNAPSHOT = "CREATE SNAPSHOT {name} OF bank FOR EVENT_TIME AS OF DATE '2026-{month}-01';"

GROWTH = """SELECT '{name}' AS snapshot, count(*) AS payments, count(DISTINCT payer) AS payers FROM {name}.paid"""

SAMPLE = """
SAMPLE FROM {snapshot}
  SEEDS (SELECT id, ring AS y FROM cases WHERE month = '{month}' AND fold = '{fold}') AS account
  FANOUT (paid BOTH => [15, 10]) BATCH 256 REPEATABLE (7);
"""

SURGE = """
SELECT payee, opened, before, june, ring FROM (
    SELECT payee, count(may.paid.e_id) AS before, count(*) - count(may.paid.e_id) AS june
    FROM jun.paid LEFT JOIN may.paid USING (e_id, payee) GROUP BY payee)
  JOIN account ON account.id = payee JOIN cases ON cases.id = payee AND month = 'june'
  ORDER BY june / (before + 5) DESC LIMIT 8;
"""


def run(path: Path | None, echo: Callable[[str], None]) -> None:
    """Plays the demo in the database at `path`, or in a temporary one; `echo` gets what it says, piece by piece.

    Raises:
        BindError: there is something at `path` already.
    """
    if path is not None and path.exists() and (path.is_file() or any(path.iterdir())):
        raise BindError(
            f"there is something at {path} already; the demo makes a new database: choose another path", code="exists"
        )
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="snapdb-demo-") as folder, snapdb.connect(path) as db:
        stage = _Stage(db, echo)
        _load(stage, Path(folder))
        _snapshots(stage)
        _diff(stage)
        _same_batches(stage)
        scores = _learn(stage)
        _results(stage, scores)
        _next(echo, path, time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class _Stage:
    """The database and where the demo speaks."""

    db: snapdb.Database
    echo: Callable[[str], None]

    def title(self, text: str) -> None:
        self.echo(f"\n== {text}\n")

    def say(self, text: str) -> None:
        self.echo(dedent(text).strip())

    def sql(self, script: str, *, shown: bool = True) -> snapdb.Result:
        """Shows and runs each statement of a script; the last result, which is shown when it has rows."""
        for statement in script.strip().removesuffix(";").split(";\n"):
            if shown:
                self.echo(indent(f"{statement.strip()};", "    "))
            began = time.perf_counter()
            result = self.db.execute(statement)
            self.took(began)
        if result.columns and shown:
            self.echo(indent(f"{result!r}\n", "    "))
        return result

    def took(self, began: float) -> None:
        """Says how long a step took, when that was over a second."""
        seconds = time.perf_counter() - began
        if seconds > 1:
            self.echo(f"    -- {seconds:.1f} s")


def _load(stage: _Stage, folder: Path) -> None:
    stage.title("1. Tables from Parquet")
    stage.say("""
        A bank's accounts and their payments from January to June 2026. Somewhere in it is a ring of fraudsters in
        three cells, which start in April, May and June. Each CREATE TABLE is one commit, a version of the database.
    """)
    files = write_demo_data(folder)
    stage.sql(LOAD.format(accounts=files.accounts, payments=files.payments, cases=files.cases))
    stage.sql("SHOW TABLES")
    stage.title("2. The tables as a property graph")
    stage.say("Accounts are vertices with five numbers each, payments are edges that happen at a time.")
    stage.sql(GRAPH)


def _snapshots(stage: _Stage) -> None:
    stage.title("3. A snapshot at the end of each month")
    stage.say("""
        A snapshot is the graph as it stood, and reads as a schema. All six share one sorted adjacency: a snapshot
        by time adds one offset an account, not a copy.
    """)
    stage.sql("\n".join(SNAPSHOT.format(name=name, month=month) for name, month in MONTHS.items()))
    stage.sql("\nUNION ALL ".join(GROWTH.format(name=name) for name in MONTHS) + "\nORDER BY payments")
    stage.sql("SHOW SNAPSHOTS")


def _diff(stage: _Stage) -> None:
    stage.title("4. What June brought, in plain SQL")
    stage.say("""
        Every edge has an id that never changes, so two snapshots compare by a join. These accounts' incoming payments
        grew most in June; `ring` is what investigators found out by its end.
    """)
    stage.sql(SURGE)


def _same_batches(stage: _Stage) -> None:
    stage.title("5. Mini-batches, the same every time")
    stage.say("""
        SAMPLE takes accounts as seeds, draws up to 15 payments of each, in and out, then up to 10 of each account
        found. Every draw is a function of the query and its REPEATABLE number: run it again, or on more threads, and
        every byte is the same.
    """)
    query = _sample("may", "may", "train")
    stage.echo(indent(query.strip(), "    "))
    stage.say("\nsha256 of all tensors of an epoch:")
    for label, threads in (("1 thread", 1), ("1 thread, again", 1), ("2 threads", 2)):
        began = time.perf_counter()
        stage.echo(f"    {label:<16} {_digest(stage.db.stream(query, threads=threads))}")
        stage.took(began)


def _learn(stage: _Stage) -> dict[str, Predictions]:
    stage.title("6. Learn from May, test on June")
    stage.say("""
        GraphSAGE learns from the May snapshot and what was known of half the accounts then. It is tested on the June
        snapshot, on the other half; a third of the ring had not begun in May. Its rival is the same network without
        graph layers: it reads the five numbers of an account and nothing else.
    """)
    stage.echo(indent(_sample("jun", "june", "test").strip(), "    "))
    train, valid = (stage.db.stream(_sample("may", "may", fold)) for fold in ("train", "valid"))
    test = stage.db.stream(_sample("jun", "june", "test"))
    predictions = {}
    for name, layers in (("features only", 0), ("GraphSAGE", 2)):
        model = GraphSAGE(features=5, classes=2, hidden=32, layers=layers, seed=0)
        with torch_threads(1):
            history = fit(model, train, epochs=30, lr=0.005, validate=_scorer(model, valid), patience=10)
            predictions[name] = predict(model, test)
        stage.echo(
            f"    {name:<14} {len(history.losses)} epochs, {history.seconds:.1f} s, "
            f"loss {history.losses[0]:.3f} to {history.losses[history.best]:.3f}"
        )
    return predictions


def _results(stage: _Stage, predictions: Mapping[str, Predictions]) -> None:
    stage.title("7. Result: ring accounts found in June")
    stage.echo(f"    {'':<14} {'ROC AUC':>8} {'avg. precision':>15} {'ring in top 50':>15}")
    for name, seen in predictions.items():
        assert seen.y is not None
        risk = seen.logits[:, 1] - seen.logits[:, 0]
        top = int(seen.y[risk.argsort(descending=True)[:50]].sum())
        auc, precision = roc_auc(seen.y, risk), average_precision(seen.y, risk)
        stage.echo(f"    {name:<14} {auc:>8.3f} {precision:>15.3f} {top:>15}")
    some = next(iter(predictions.values()))
    assert some.y is not None
    stage.say(f"\n{int(some.y.sum())} of {len(some.y)} tested accounts belong to the ring. Guessing has ROC AUC 0.5.")


def _next(echo: Callable[[str], None], path: Path | None, seconds: float) -> None:
    echo(f"\n== Done in {seconds:.0f} s. What next\n")
    where = "demo.snapdb" if path is None else str(path)
    if path is None:
        echo("    snapdb demo demo.snapdb     the same in a database that stays")
    echo(f"    snapdb {where:<20} look around in it: SHOW SNAPSHOTS; SELECT * FROM jun.paid LIMIT 5;")
    echo("    examples/                   training on real data sets")


def _sample(snapshot: str, month: str, fold: str) -> str:
    return SAMPLE.format(snapshot=snapshot, month=month, fold=fold)


def _scorer(model: GraphSAGE, valid: Iterable[Batch]) -> Callable[[], float]:
    def score() -> float:
        seen = predict(model, valid)
        return average_precision(seen.y, seen.logits)

    return score


def _digest(batches: Iterable[Batch]) -> str:
    """The first 32 digits of the sha256 over every tensor of every batch."""
    hashed = hashlib.sha256()
    for batch in batches:
        for tensors in (batch.n_id, batch.x, batch.edge_index):
            for key, tensor in tensors.items():
                hashed.update(repr(key).encode())
                hashed.update(tensor.numpy().tobytes())
        assert batch.y is not None
        hashed.update(batch.y.numpy().tobytes())
    return hashed.hexdigest()[:32]
