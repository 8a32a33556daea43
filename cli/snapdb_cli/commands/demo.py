"""`snapdb demo`: an example with generated payments, from tables to a trained model."""

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from textwrap import dedent, indent

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import snapdb
from snapdb.errors import BindError
from snapdb.loading import Batch
from snapdb.train import GraphSAGE, Predictions, average_precision, fit, predict, roc_auc, torch_threads

_ACCOUNTS = 4_000
_FIRST_DAY = date(2026, 1, 1)
_DAYS = 181  # January to June 2026
_CELLS = (95, 125, 156)  # the days on which a cell starts: in April, May and June
_MEMBERS, _MULES = 50, 8  # per cell

_Ints = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


def _write_demo_data(folder: Path, seed: int = 2026) -> dict[str, Path]:
    """Write the accounts, payments and cases files, and return their paths. The same seed produces the same rows."""
    rng = np.random.default_rng(seed)
    files = {name: folder / f"{name}.parquet" for name in ("accounts", "payments", "cases")}
    cell = _cells(rng)
    # Young accounts used from many devices: mules, and some honest accounts.
    burner = (cell < 0) | (rng.random(_ACCOUNTS) < 1 / 16)
    opened = _opening_days(rng, cell, burner)
    pq.write_table(_accounts(rng, cell, opened, burner), files["accounts"])
    pq.write_table(_payments(rng, cell, opened), files["payments"])
    pq.write_table(_cases(rng, cell), files["cases"])
    return files


def _cells(rng: np.random.Generator) -> _Ints:
    """Return [accounts] int64: 0 for honest accounts, 1 to 3 for members of that cell, -1 to -3 for its mules."""
    cell = np.zeros(_ACCOUNTS, dtype=np.int64)
    picked = rng.choice(_ACCOUNTS, size=len(_CELLS) * (_MEMBERS + _MULES), replace=False)
    for number, ids in enumerate(np.split(picked, len(_CELLS)), start=1):
        cell[ids[:_MEMBERS]] = number
        cell[ids[_MEMBERS:]] = -number
    return cell


def _opening_days(rng: np.random.Generator, cell: _Ints, burner: _Flags) -> _Ints:
    """Return [accounts] opening days since the first day. Mules open theirs in the weeks before their cell starts."""
    opened = np.where(burner, rng.integers(-90, 150, _ACCOUNTS), -rng.integers(90, 2_000, _ACCOUNTS))
    for number, start in enumerate(_CELLS, start=1):
        opened[cell == -number] = start - rng.integers(5, 60, _MULES)
    return opened


def _accounts(rng: np.random.Generator, cell: _Ints, opened: _Ints, burner: _Flags) -> pa.Table:
    """Return a table of id, opened (date), balance, income, logins and devices.

    Members of the ring log in slightly more often, and have a slightly lower balance.
    """
    ring = (cell != 0).astype(np.float64)
    return pa.table(
        {
            "id": _names(np.arange(_ACCOUNTS)),
            "opened": pa.array([_FIRST_DAY + timedelta(days=int(day)) for day in opened]),
            "balance": np.round(np.exp(rng.normal(7.5 - 0.2 * ring, 1.0)), 2),
            "income": np.round(np.exp(rng.normal(7.8, 0.5, _ACCOUNTS)), 2),
            "logins": rng.poisson(5 + 0.7 * ring),
            "devices": 1 + rng.poisson(np.where(burner, 3.5, 0.8)),
        }
    )


def _payments(rng: np.random.Generator, cell: _Ints, opened: _Ints) -> pa.Table:
    """Return a table of payer, payee, amount and paid_at, sorted by time.

    It contains honest payments by all accounts and the rings' payments. Each payment is made after both of its accounts
    were opened.
    """
    parts = [_honest(rng), *(_ring(rng, cell, number) for number in range(1, len(_CELLS) + 1))]
    payer, payee = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    second = np.concatenate([part[2] for part in parts])
    keep = (payer != payee) & (second >= 86_400 * np.maximum(opened[payer], opened[payee]))
    order = np.flatnonzero(keep)[np.argsort(second[keep], kind="stable")]
    start = np.datetime64(datetime(_FIRST_DAY.year, _FIRST_DAY.month, _FIRST_DAY.day), "us")
    return pa.table(
        {
            "payer": _names(payer[order]),
            "payee": _names(payee[order]),
            "amount": np.round(np.exp(rng.normal(3.6, 0.9, len(order))), 2),
            "paid_at": start + second[order].astype("timedelta64[s]"),
        }
    )


def _honest(rng: np.random.Generator) -> tuple[_Ints, _Ints, _Ints]:
    """Return about 18 payments per account: half to a few regular payees, and half to popular ones such as shops."""
    count = 18 * _ACCOUNTS
    popular = rng.permutation(_ACCOUNTS)
    regulars = rng.integers(0, _ACCOUNTS, (_ACCOUNTS, 4))
    payer = rng.integers(0, _ACCOUNTS, count)
    shop = popular[(_ACCOUNTS * rng.random(count) ** 3).astype(np.int64)]
    regular = regulars[payer, rng.integers(0, 4, count)]
    payee = np.where(rng.random(count) < 0.5, shop, regular)
    return payer, payee, rng.integers(0, 86_400 * _DAYS, count)


def _ring(rng: np.random.Generator, cell: _Ints, number: int) -> tuple[_Ints, _Ints, _Ints]:
    """Return a cell's payments from its first day on. Members pay mules and each other, and mules pay members."""
    members, mules = np.flatnonzero(cell == number), np.flatnonzero(cell == -number)
    count = 24 * _MEMBERS
    payer = rng.choice(members, count)
    payee = np.where(rng.random(count) < 0.6, rng.choice(mules, count), rng.choice(members, count))
    back = rng.random(count) < 0.15
    payer, payee = np.where(back, rng.choice(mules, count), payer), np.where(back, rng.choice(members, count), payee)
    first = _CELLS[number - 1]
    last = min(first + 45, _DAYS)
    return payer, payee, rng.integers(86_400 * first, 86_400 * last, count)


def _cases(rng: np.random.Generator, cell: _Ints) -> pa.Table:
    """Return a table of id, month ('may', 'june'), ring (0 or 1, as known at its end) and fold.

    The folds are 'train', 'valid' and 'test'. An account keeps its fold, so no account is used for both training and
    testing.
    """
    fold = rng.choice(["train", "valid", "test"], size=_ACCOUNTS, p=[0.4, 0.1, 0.5])
    known = {"may": np.isin(np.abs(cell), (1, 2)), "june": cell != 0}
    tables = [
        pa.table(
            {
                "id": _names(np.arange(_ACCOUNTS)),
                "month": pa.array([month] * _ACCOUNTS),
                "ring": ring.astype(np.int64),
                "fold": fold,
            }
        )
        for month, ring in known.items()
    ]
    return pa.concat_tables(tables)


def _names(ids: _Ints) -> pa.Array:
    return pa.array([f"A{i:04d}" for i in ids])


_MONTHS = {"jan": "02", "feb": "03", "mar": "04", "apr": "05", "may": "06", "jun": "07"}
"""Maps each snapshot to the month that begins when the snapshot ends."""

_LOAD = """
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

_GRAPH = """
CREATE PROPERTY GRAPH bank
  VERTEX TABLES (account KEY (id) FEATURES (profile AS x))
  EDGE TABLES (paid SOURCE KEY (payer) REFERENCES account (id) DESTINATION KEY (payee) REFERENCES account (id)
               EVENT TIME (paid_at));
"""

_SNAPSHOT = "CREATE SNAPSHOT {name} OF bank FOR EVENT_TIME AS OF DATE '2026-{month}-01';"

_GROWTH = """SELECT '{name}' AS snapshot, count(*) AS payments, count(DISTINCT payer) AS payers FROM {name}.paid"""

_SAMPLE = """
SAMPLE FROM {snapshot}
  SEEDS (SELECT id, ring AS y FROM cases WHERE month = '{month}' AND fold = '{fold}') AS account
  FANOUT (paid BOTH => [15, 10]) BATCH 256 REPEATABLE (7);
"""

_SURGE = """
SELECT payee, opened, before, june, ring FROM (
    SELECT payee, count(may.paid.e_id) AS before, count(*) - count(may.paid.e_id) AS june
    FROM jun.paid LEFT JOIN may.paid USING (e_id, payee) GROUP BY payee)
  JOIN account ON account.id = payee JOIN cases ON cases.id = payee AND month = 'june'
  ORDER BY june / (before + 5) DESC LIMIT 8;
"""


def run(path: Path | None, echo: Callable[[str], None]) -> None:
    """Run the demo in the database at `path`, or in a temporary one. `echo` is called with each piece of text.

    Raises:
        BindError: A file or a non-empty directory exists at `path`.
    """
    if path is not None and path.exists() and (path.is_file() or any(path.iterdir())):
        raise BindError(
            f"{path} already exists, but the demo creates a new database; choose another path", code="exists"
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
    """The database, and the function that displays text."""

    db: snapdb.Database
    echo: Callable[[str], None]

    def title(self, text: str) -> None:
        self.echo(f"\n== {text}\n")

    def say(self, text: str) -> None:
        self.echo(dedent(text).strip())

    def sql(self, script: str, *, shown: bool = True) -> snapdb.Result:
        """Show and run each statement of a script. Show the last result if it has rows, and return it."""
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
        """Show the duration of a step if it exceeds a second."""
        seconds = time.perf_counter() - began
        if seconds > 1:
            self.echo(f"    -- {seconds:.1f} s")


def _load(stage: _Stage, folder: Path) -> None:
    stage.title("1. Tables from Parquet")
    stage.say("""
        Accounts of a bank and their payments from January to June 2026. Some accounts belong to a fraud ring of
        three cells, which start in April, May and June. Each CREATE TABLE is one commit, a version of the database.
    """)
    stage.sql(_LOAD.format(**_write_demo_data(folder)))
    stage.sql("SHOW TABLES")
    stage.title("2. The tables as a property graph")
    stage.say("Accounts are vertices with five features, payments are edges with an event time.")
    stage.sql(_GRAPH)


def _snapshots(stage: _Stage) -> None:
    stage.title("3. A snapshot at the end of each month")
    stage.say("""
        A snapshot is the graph at a time, and a schema in queries. All six share one sorted adjacency: a snapshot
        by time adds one offset per account, not a copy.
    """)
    stage.sql("\n".join(_SNAPSHOT.format(name=name, month=month) for name, month in _MONTHS.items()))
    stage.sql("\nUNION ALL ".join(_GROWTH.format(name=name) for name in _MONTHS) + "\nORDER BY payments")
    stage.sql("SHOW SNAPSHOTS")


def _diff(stage: _Stage) -> None:
    stage.title("4. Changes in June, in plain SQL")
    stage.say("""
        Every edge has an id that never changes, so a join compares two snapshots. The incoming payments of these
        accounts grew most in June; `ring` is the result of investigations by its end.
    """)
    stage.sql(_SURGE)


def _same_batches(stage: _Stage) -> None:
    stage.title("5. Mini-batches, the same every time")
    stage.say("""
        SAMPLE starts from accounts as seeds, and draws up to 15 payments of each, in and out, then up to 10 of each
        neighbour. Draws depend only on the query and its REPEATABLE number: each run, with any number of threads,
        returns the same bytes.
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
        GraphSAGE trains on the May snapshot with the labels of half of the accounts at that time. The test is the other
        half on the June snapshot; a third of the ring was not active in May. The baseline is the same network without
        graph layers: it reads only the five features of an account.
    """)
    stage.echo(indent(_sample("jun", "june", "test").strip(), "    "))
    train = stage.db.stream(_sample("may", "may", "train"))
    # Validation and testing always read epoch 0. A network without graph layers ignores the sampled edges.
    valid, test = (list(stage.db.stream(_sample(*of))) for of in (("may", "may", "valid"), ("jun", "june", "test")))
    rivals: tuple[tuple[str, int, Iterable[Batch]], ...]
    rivals = (("features only", 0, list(train)), ("GraphSAGE", 2, train))
    predictions = {}
    for name, layers, batches in rivals:
        model = GraphSAGE(features=5, classes=2, hidden=32, layers=layers, seed=0)
        with torch_threads(1):
            history = fit(model, batches, epochs=30, lr=0.005, validate=_scorer(model, valid), patience=10)
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
    echo(f"\n== Done in {seconds:.0f} s. Next steps\n")
    where = "demo.snapdb" if path is None else str(path)
    if path is None:
        echo("    snapdb demo demo.snapdb     the same in a database that is kept")
    echo(f"    snapdb {where:<20} query it: SHOW SNAPSHOTS; SELECT * FROM jun.paid LIMIT 5;")
    echo(f"    snapdb ui {where:<17} look at it in a browser: pip install 'snapdb[ui]'")
    echo("    examples/                   training on real data sets")


def _sample(snapshot: str, month: str, fold: str) -> str:
    return _SAMPLE.format(snapshot=snapshot, month=month, fold=fold)


def _scorer(model: GraphSAGE, valid: Iterable[Batch]) -> Callable[[], float]:
    def score() -> float:
        seen = predict(model, valid)
        return average_precision(seen.y, seen.logits)

    return score


def _digest(batches: Iterable[Batch]) -> str:
    """Return the first 32 hexadecimal digits of a SHA-256 digest over all tensors of all batches."""
    hashed = hashlib.sha256()
    for batch in batches:
        for tensors in (batch.n_id, batch.x, batch.edge_index):
            for key, tensor in tensors.items():
                hashed.update(repr(key).encode())
                hashed.update(tensor.numpy().tobytes())
        assert batch.y is not None
        hashed.update(batch.y.numpy().tobytes())
    return hashed.hexdigest()[:32]
