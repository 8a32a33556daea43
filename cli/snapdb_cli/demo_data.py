"""The demo's data: half a year of payments between accounts, and a fraud ring that appears late.

Everything follows from one seed. The ring has three cells, which start in April, May and June. A cell is a few dozen
members, whose own columns look like everybody's, and a few mules that collect their money: young accounts, used from
many devices. Honest accounts of that kind exist too, so it is whom an account deals with that gives the ring away.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

ACCOUNTS = 4_000
FIRST_DAY = date(2026, 1, 1)
DAYS = 181  # January to June 2026
CELLS = (95, 125, 156)  # days on which a cell starts: in April, May and June
MEMBERS, MULES = 50, 8  # of each cell

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DemoFiles:
    """Where the Parquet files are."""

    accounts: Path
    """id (text), opened (date), balance, income, logins, devices (numbers)."""
    payments: Path
    """payer, payee (ids of accounts), amount, paid_at (timestamp), in the order they happened."""
    cases: Path
    """id, month ('may' | 'june'), ring (0 | 1: known at the end of that month), fold ('train' | 'valid' | 'test')."""


def write_demo_data(folder: Path, seed: int = 2026) -> DemoFiles:
    """Writes the three files into `folder` and says where they are; the same seed writes the same rows."""
    rng = np.random.default_rng(seed)
    files = DemoFiles(*(folder / f"{name}.parquet" for name in ("accounts", "payments", "cases")))
    cell = _cells(rng)
    burner = (cell < 0) | (rng.random(ACCOUNTS) < 1 / 16)  # young and used from many devices: mules, and honest people
    opened = _opening_days(rng, cell, burner)
    pq.write_table(_accounts(rng, cell, opened, burner), files.accounts)
    pq.write_table(_payments(rng, cell, opened), files.payments)
    pq.write_table(_cases(rng, cell), files.cases)
    return files


def _cells(rng: np.random.Generator) -> Ints:
    """[accounts] 0: honest; 1, 2, 3: a member of that cell; -1, -2, -3: a mule of that cell."""
    cell = np.zeros(ACCOUNTS, dtype=np.int64)
    picked = rng.choice(ACCOUNTS, size=len(CELLS) * (MEMBERS + MULES), replace=False)
    for number, ids in enumerate(np.split(picked, len(CELLS)), start=1):
        cell[ids[:MEMBERS]] = number
        cell[ids[MEMBERS:]] = -number
    return cell


def _opening_days(rng: np.random.Generator, cell: Ints, burner: Flags) -> Ints:
    """[accounts] days since FIRST_DAY; mules open in the weeks before their cell starts."""
    opened = np.where(burner, rng.integers(-90, 150, ACCOUNTS), -rng.integers(90, 2_000, ACCOUNTS))
    for number, start in enumerate(CELLS, start=1):
        opened[cell == -number] = start - rng.integers(5, 60, MULES)
    return opened


def _accounts(rng: np.random.Generator, cell: Ints, opened: Ints, burner: Flags) -> pa.Table:
    """Columns that tell a little of the truth: members log in slightly more and keep slightly less."""
    ring = (cell != 0).astype(np.float64)
    return pa.table(
        {
            "id": _names(np.arange(ACCOUNTS)),
            "opened": pa.array([FIRST_DAY + timedelta(days=int(day)) for day in opened]),
            "balance": np.round(np.exp(rng.normal(7.5 - 0.2 * ring, 1.0)), 2),
            "income": np.round(np.exp(rng.normal(7.8, 0.5, ACCOUNTS)), 2),
            "logins": rng.poisson(5 + 0.7 * ring),
            "devices": 1 + rng.poisson(np.where(burner, 3.5, 0.8)),
        }
    )


def _payments(rng: np.random.Generator, cell: Ints, opened: Ints) -> pa.Table:
    """Honest payments of everybody, and the ring's on top; none before both accounts are open."""
    parts = [_honest(rng), *(_ring(rng, cell, number) for number in range(1, len(CELLS) + 1))]
    payer, payee = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    second = np.concatenate([part[2] for part in parts])
    keep = (payer != payee) & (second >= 86_400 * np.maximum(opened[payer], opened[payee]))
    order = np.flatnonzero(keep)[np.argsort(second[keep], kind="stable")]
    start = np.datetime64(datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day), "us")
    return pa.table(
        {
            "payer": _names(payer[order]),
            "payee": _names(payee[order]),
            "amount": np.round(np.exp(rng.normal(3.6, 0.9, len(order))), 2),
            "paid_at": start + second[order].astype("timedelta64[s]"),
        }
    )


def _honest(rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """About 18 payments an account: half to a few regular payees, half to popular ones such as shops."""
    count = 18 * ACCOUNTS
    popular = rng.permutation(ACCOUNTS)
    regulars = rng.integers(0, ACCOUNTS, (ACCOUNTS, 4))
    payer = rng.integers(0, ACCOUNTS, count)
    shop = popular[(ACCOUNTS * rng.random(count) ** 3).astype(np.int64)]
    regular = regulars[payer, rng.integers(0, 4, count)]
    payee = np.where(rng.random(count) < 0.5, shop, regular)
    return payer, payee, rng.integers(0, 86_400 * DAYS, count)


def _ring(rng: np.random.Generator, cell: Ints, number: int) -> tuple[Ints, Ints, Ints]:
    """A cell from its first day on: members pay mules and each other, mules pay members."""
    members, mules = np.flatnonzero(cell == number), np.flatnonzero(cell == -number)
    count = 24 * MEMBERS
    payer = rng.choice(members, count)
    payee = np.where(rng.random(count) < 0.6, rng.choice(mules, count), rng.choice(members, count))
    back = rng.random(count) < 0.15
    payer, payee = np.where(back, rng.choice(mules, count), payer), np.where(back, rng.choice(members, count), payee)
    first = CELLS[number - 1]
    last = min(first + 45, DAYS)
    return payer, payee, rng.integers(86_400 * first, 86_400 * last, count)


def _cases(rng: np.random.Generator, cell: Ints) -> pa.Table:
    """What was known at the end of May and of June. An account keeps its fold, so none is both learned and tested."""
    fold = rng.choice(["train", "valid", "test"], size=ACCOUNTS, p=[0.4, 0.1, 0.5])
    known = {"may": np.isin(np.abs(cell), (1, 2)), "june": cell != 0}
    tables = [
        pa.table(
            {
                "id": _names(np.arange(ACCOUNTS)),
                "month": pa.array([month] * ACCOUNTS),
                "ring": ring.astype(np.int64),
                "fold": fold,
            }
        )
        for month, ring in known.items()
    ]
    return pa.concat_tables(tables)


def _names(ids: Ints) -> pa.Array:
    return pa.array([f"A{i:04d}" for i in ids])
