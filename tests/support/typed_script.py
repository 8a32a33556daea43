"""A program that uses the public names. Type checkers check it in tests/test_types.py, and it is never run."""

from typing import reveal_type

import snapdb
import snapdb.errors
import snapdb.train

with snapdb.connect("shop.snapdb") as db:
    result = db.execute("SELECT 1")
    reveal_type(result)  # snapdb.execute.results.Result
    reveal_type(result.fetchall())  # list[tuple[Any, ...]]
    reveal_type(result.columns)  # list[str]
    stream = db.stream("train")
    reveal_type(stream)  # snapdb.loading.stream.BatchStream[snapdb.loading.batch.Batch]
    for batch in stream:
        reveal_type(batch.input_id)  # Tensor
        reveal_type(batch.x["customer"])  # Tensor
        reveal_type(batch.only.edge_index)  # Tensor
        reveal_type(batch.seed_time)  # Tensor | None
        reveal_type(batch.num_sampled_nodes["customer"])  # list[int]
    lengths = db.stream("train", transform=lambda batch: batch.batch_size)
    reveal_type(lengths)  # snapdb.loading.stream.BatchStream[int]
    model = snapdb.train.GraphSAGE(features=2, classes=2)
    reveal_type(snapdb.train.fit(model, stream, epochs=1))  # snapdb.train.loop.History
    reveal_type(db.wait_for("june"))  # snapdb.types.snapshot.Published
    reveal_type(snapdb.read_batches("batches")[0])  # snapdb.loading.batch.Batch

try:
    snapdb.format_sql("SELECT")
except snapdb.BindError as error:
    reveal_type(error.code)  # str
    reveal_type(error.span)  # tuple[int, int, fallback=snapdb.errors.Span] | None

snapdb.conect("shop.snapdb")  # error: Module has no attribute "conect"; maybe "connect"?
snapdb.train.accurracy([], [])  # error: Module has no attribute "accurracy"; maybe "accuracy"?
