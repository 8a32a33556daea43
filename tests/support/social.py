"""A small social network in the schema of LDBC SNB Interactive (Erling et al., SIGMOD 2015), from one seed.

Each pair of ends has an edge table of its own. Labels unite them: `hasCreator` is the label of the creators of posts
and of comments, and `message` that of both kinds of messages.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from snapdb import Database

Row = tuple[Any, ...]
Tables = Mapping[str, Sequence[Row]]

PERSONS, FORUMS, POSTS, COMMENTS = 60, 16, 130, 270
APART = 4
"""The number of persons who know only each other, so that no path leads to them."""
START = datetime(2010, 1, 1)
FIRST_ID = {"person": 2**41, "post": 2**42, "comment": 2**42 + 2**30, "forum": 2**40}
"""Identifiers as large as in LDBC SNB. Posts and comments share one range: a message has one identifier."""

VERTICES = {
    "person": "id BIGINT, firstName VARCHAR, lastName VARCHAR, gender VARCHAR, birthday DATE, creationDate TIMESTAMP, "
    "locationIP VARCHAR, browserUsed VARCHAR",
    "post": "id BIGINT, imageFile VARCHAR, creationDate TIMESTAMP, locationIP VARCHAR, browserUsed VARCHAR, "
    "language VARCHAR, content VARCHAR, length INTEGER",
    "comment": "id BIGINT, creationDate TIMESTAMP, locationIP VARCHAR, browserUsed VARCHAR, content VARCHAR, "
    "length INTEGER",
    "forum": "id BIGINT, title VARCHAR, creationDate TIMESTAMP",
    "tag": "id BIGINT, name VARCHAR",
    "tagclass": "id BIGINT, name VARCHAR",
    "place": "id BIGINT, name VARCHAR, type VARCHAR",
    "organisation": "id BIGINT, name VARCHAR, type VARCHAR",
}
"""The columns of each vertex table. Its key is `id`."""

EDGES = {
    "knows": ("person", "person", "knows", "creationDate TIMESTAMP, weight INTEGER"),
    "post_creator": ("post", "person", "hasCreator", ""),
    "comment_creator": ("comment", "person", "hasCreator", ""),
    "reply_to_post": ("comment", "post", "replyOf", ""),
    "reply_to_comment": ("comment", "comment", "replyOf", ""),
    "container_of": ("forum", "post", "containerOf", ""),
    "forum_member": ("forum", "person", "hasMember", "joinDate TIMESTAMP"),
    "forum_moderator": ("forum", "person", "hasModerator", ""),
    "likes_post": ("person", "post", "likes", "creationDate TIMESTAMP"),
    "likes_comment": ("person", "comment", "likes", "creationDate TIMESTAMP"),
    "post_tag": ("post", "tag", "hasTag", ""),
    "comment_tag": ("comment", "tag", "hasTag", ""),
    "forum_tag": ("forum", "tag", "hasTag", ""),
    "person_interest": ("person", "tag", "hasInterest", ""),
    "tag_type": ("tag", "tagclass", "hasType", ""),
    "tagclass_parent": ("tagclass", "tagclass", "isSubclassOf", ""),
    "person_city": ("person", "place", "isLocatedIn", ""),
    "post_country": ("post", "place", "isLocatedIn", ""),
    "comment_country": ("comment", "place", "isLocatedIn", ""),
    "organisation_place": ("organisation", "place", "isLocatedIn", ""),
    "place_part": ("place", "place", "isPartOf", ""),
    "study_at": ("person", "organisation", "studyAt", "classYear INTEGER"),
    "work_at": ("person", "organisation", "workAt", "workFrom INTEGER"),
}
"""The source, destination, label and further columns of each edge table. Its ends are the columns `src` and `dst`.

`knows` is stored once per pair and traversed in both directions. Its weight is the cost of query 14 in version 2.
"""

PLACES = {
    "Europe": {"Hungary": ("Budapest", "Szeged"), "Norway": ("Oslo", "Bergen")},
    "Asia": {"Japan": ("Kyoto", "Osaka"), "India": ("Pune", "Delhi")},
}
TAG_CLASSES = (
    ("Thing", None),
    ("Agent", "Thing"),
    ("Person", "Agent"),
    ("Artist", "Person"),
    ("MusicalArtist", "Artist"),
    ("Politician", "Person"),
    ("Work", "Thing"),
    ("Album", "Work"),
)
NAMES = ("Ada", "Bela", "Chen", "Deepa", "Eva", "Farid", "Grace", "Hanna")
SURNAMES = ("Berg", "Ito", "Khan", "Kovacs", "Larsen", "Nagy", "Rao", "Sato", "Toth")
BROWSERS = ("Firefox", "Chrome", "Safari")
TYPES = {
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}


def columns(table: str) -> dict[str, str]:
    """Return the SQL types of a table's columns by name."""
    if table in VERTICES:
        text = VERTICES[table]
    else:
        text = ", ".join(filter(None, ("src BIGINT, dst BIGINT", EDGES[table][3])))
    return {name: type_ for name, _, type_ in (each.partition(" ") for each in text.split(", "))}


def create_social(db: Database, seed: int = 7) -> None:
    """Create the tables, the property graph `social`, and the snapshots `latest` (everything) and `early` (a part)."""
    rows = social(seed)
    for table in (*VERTICES, *EDGES):
        types = columns(table)
        values = zip(*rows[table], strict=True)
        arrays = [pa.array(column, TYPES[each]) for column, each in zip(values, types.values(), strict=True)]
        db.register("new_rows", pa.table(arrays, names=list(types)))
        db.execute(f"CREATE TABLE {table} AS SELECT * FROM new_rows")
    db.execute(graph())
    db.execute("CREATE SNAPSHOT latest OF social")
    db.execute("CREATE SNAPSHOT early OF social FOR EVENT_TIME AS OF TIMESTAMP '2011-03-01'")


def graph() -> str:
    """Return the statement that creates the property graph."""
    vertices = ", ".join(
        f"{name} KEY (id){_event_time(name)}{' LABEL message' if name in ('post', 'comment') else ''}"
        for name in VERTICES
    )
    edges = ", ".join(
        f"{name} SOURCE KEY (src) REFERENCES {source} DESTINATION KEY (dst) REFERENCES {destination}"
        f"{_event_time(name)}{'' if label == name else f' LABEL {label}'}"
        for name, (source, destination, label, _) in EDGES.items()
    )
    return f"CREATE PROPERTY GRAPH social VERTEX TABLES ({vertices}) EDGE TABLES ({edges})"


def _event_time(table: str) -> str:
    times = [name for name, type_ in columns(table).items() if type_ == "TIMESTAMP"]
    return f" EVENT TIME ({times[0]})" if times else ""


def social(seed: int = 7) -> dict[str, list[Row]]:
    """Return the rows of each table. Every event is later than the events on which it depends."""
    rows: dict[str, list[Row]] = {name: [] for name in (*VERTICES, *EDGES)}
    drawn = random.Random(seed)
    _places(rows, drawn)
    _tags(rows)
    _persons(rows, drawn)
    _forums(rows, drawn)
    _messages(rows, drawn)
    return rows


def _ids(table: str, count: int) -> list[int]:
    """Return identifiers that do not ascend, so that they cannot be mistaken for positions."""
    return [FIRST_ID[table] + position * 7919 % 10_007 for position in range(count)]


def _later(drawn: random.Random, *after: datetime, days: int = 120) -> datetime:
    """Return a time after all the given ones, in milliseconds as in LDBC SNB."""
    return max(after) + timedelta(milliseconds=drawn.randrange(1, days * 86_400_000))


def _places(rows: dict[str, list[Row]], drawn: random.Random) -> None:
    number = iter(range(10_000))
    for continent, countries in PLACES.items():
        above = next(number)
        rows["place"].append((above, continent, "Continent"))
        for country, cities in countries.items():
            middle = next(number)
            rows["place"].append((middle, country, "Country"))
            rows["place_part"].append((middle, above))
            for city in cities:
                below = next(number)
                rows["place"].append((below, city, "City"))
                rows["place_part"].append((below, middle))
    for position, (kind, where) in enumerate([("University", "City")] * 8 + [("Company", "Country")] * 10):
        place = drawn.choice([row for row in rows["place"] if row[2] == where])
        rows["organisation"].append((500 + position, f"{kind} {position} of {place[1]}", kind))
        rows["organisation_place"].append((500 + position, place[0]))


def _tags(rows: dict[str, list[Row]]) -> None:
    number = {name: 40 + position for position, (name, _) in enumerate(TAG_CLASSES)}
    rows["tagclass"] = [(number[name], name) for name, _ in TAG_CLASSES]
    rows["tagclass_parent"] = [(number[name], number[above]) for name, above in TAG_CLASSES if above is not None]
    for position in range(20):
        name = TAG_CLASSES[1 + position % (len(TAG_CLASSES) - 1)][0]
        rows["tag"].append((900 + position, f"{name} {position}"))
        rows["tag_type"].append((900 + position, number[name]))


def _persons(rows: dict[str, list[Row]], drawn: random.Random) -> None:
    """Add persons, and their acquaintances as a small world (Watts and Strogatz, 1998) with some long paths."""
    cities = [row[0] for row in rows["place"] if row[2] == "City"]
    universities, companies = (
        [r[0] for r in rows["organisation"] if r[2] == kind] for kind in ("University", "Company")
    )
    tags = [row[0] for row in rows["tag"]]
    persons = _ids("person", PERSONS)
    for person in persons:
        names = (drawn.choice(NAMES), drawn.choice(SURNAMES), drawn.choice(("male", "female")))
        birthday = date(1970, 1, 1) + timedelta(days=drawn.randrange(12_000))
        created = _later(drawn, START, days=200)
        rows["person"].append((person, *names, birthday, created, *_client(drawn)))
        rows["person_city"].append((person, drawn.choice(cities)))
        rows["person_interest"] += [(person, tag) for tag in drawn.sample(tags, 3)]
        if drawn.random() < 0.5:
            rows["study_at"].append((person, drawn.choice(universities), drawn.randrange(1995, 2010)))
        for company in drawn.sample(companies, drawn.randrange(3)):
            rows["work_at"].append((person, company, drawn.randrange(1998, 2012)))
    created_of = {row[0]: row[5] for row in rows["person"]}
    for one, other in sorted(_acquaintances(drawn)):
        ends = [persons[one], persons[other]]
        drawn.shuffle(ends)
        created = _later(drawn, *(created_of[end] for end in ends), days=600)
        rows["knows"].append((*ends, created, drawn.randrange(1, 9)))


def _acquaintances(drawn: random.Random) -> set[tuple[int, int]]:
    """Return pairs of positions, the smaller one first."""
    ring = PERSONS - APART
    pairs = {(position, position + 1) for position in range(ring, PERSONS - 1)}
    for position in range(ring):
        for step in (1, 2):
            other = drawn.randrange(ring) if drawn.random() < 0.06 else (position + step) % ring
            if other != position:
                pairs.add((min(position, other), max(position, other)))
    return pairs


def _client(drawn: random.Random) -> tuple[str, str]:
    return f"10.0.{drawn.randrange(256)}.{drawn.randrange(256)}", drawn.choice(BROWSERS)


def _forums(rows: dict[str, list[Row]], drawn: random.Random) -> None:
    created_of = {row[0]: row[5] for row in rows["person"]}
    for position, forum in enumerate(_ids("forum", FORUMS)):
        moderator, *members = drawn.sample(list(created_of), 12)
        created = _later(drawn, created_of[moderator], days=90)
        rows["forum"].append((forum, f"Forum {position}", created))
        rows["forum_moderator"].append((forum, moderator))
        for member in members:
            rows["forum_member"].append((forum, member, _later(drawn, created, created_of[member], days=90)))
        rows["forum_tag"] += [(forum, row[0]) for row in drawn.sample(rows["tag"], 2)]


def _messages(rows: dict[str, list[Row]], drawn: random.Random) -> None:
    """Add posts of members, comments in trees below them, and likes, mostly among persons who know each other."""
    countries = [row[0] for row in rows["place"] if row[2] == "Country"]
    created_of = {row[0]: row[5] for row in rows["person"]}
    friends = {person: list(_friends(rows, person)) for person in created_of}
    messages: list[tuple[str, int, int, datetime]] = []

    def add(kind: str, message: int, person: int, created: datetime) -> None:
        messages.append((kind, message, person, created))
        rows[f"{kind}_creator"].append((message, person))
        rows[f"{kind}_country"].append((message, drawn.choice(countries)))
        rows[f"{kind}_tag"] += [(message, row[0]) for row in drawn.sample(rows["tag"], drawn.randrange(1, 4))]

    for post in _ids("post", POSTS):
        forum, person, joined = drawn.choice(rows["forum_member"])
        created = _later(drawn, joined, days=300)
        # A post has a picture or a content, not both.
        image = f"photo{post % 10_007}.jpg" if drawn.random() < 0.3 else None
        content = None if image else f"About {drawn.choice(rows['tag'])[1]}, post {post % 10_007}"
        length = len(content or "")
        rows["post"].append((post, image, created, *_client(drawn), drawn.choice(("en", "hu")), content, length))
        rows["container_of"].append((forum, post))
        add("post", post, person, created)
    for comment in _ids("comment", COMMENTS):
        kind, parent, author, before = drawn.choice(messages)
        near = friends[author] if friends[author] and drawn.random() < 0.7 else list(created_of)
        person = drawn.choice(near)
        created = _later(drawn, before, created_of[person], days=60)
        content = f"Comment {comment % 10_007} on {parent % 10_007}"
        rows["comment"].append((comment, created, *_client(drawn), content, len(content)))
        rows[f"reply_to_{kind}"].append((comment, parent))
        add("comment", comment, person, created)
    for kind, message, author, before in messages:
        for person in drawn.sample(sorted({*friends[author], *drawn.sample(list(created_of), 2)}), drawn.randrange(3)):
            rows[f"likes_{kind}"].append((person, message, _later(drawn, before, created_of[person], days=30)))


def _friends(rows: Tables, person: int) -> Iterator[int]:
    for one, other, *_ in rows["knows"]:
        if person in (one, other):
            yield other if person == one else one
