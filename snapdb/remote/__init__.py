"""Published databases in object storage: their objects, and attached copies of which files are fetched when needed.

Only `snapdb.remote.stores` imports obstore, and only when an object is read or written.
"""

from snapdb.remote.attachment import (
    Attachment,
    attach,
    attachment_of,
    cache_dir,
    is_remote,
    provide,
    provide_columns,
    provide_metadata,
    shown_place,
)
from snapdb.remote.publication import Head, Listed, Listing, read_head, read_listing
from snapdb.remote.stores import ObjectStore, open_store
from snapdb.remote.urls import check_url, is_url

__all__ = [
    "Attachment",
    "Head",
    "Listed",
    "Listing",
    "ObjectStore",
    "attach",
    "attachment_of",
    "cache_dir",
    "check_url",
    "is_remote",
    "is_url",
    "open_store",
    "provide",
    "provide_columns",
    "provide_metadata",
    "read_head",
    "read_listing",
    "shown_place",
]
