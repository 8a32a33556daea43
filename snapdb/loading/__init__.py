"""From subgraphs to device-ready batches: features and targets, threads that work ahead, and adapters."""

from snapdb.loading.assemble import assemble
from snapdb.loading.batch import Batch
from snapdb.loading.stream import BatchStream

__all__ = ["Batch", "BatchStream", "assemble"]
