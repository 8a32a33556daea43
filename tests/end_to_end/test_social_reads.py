"""Reads of LDBC SNB Interactive as GRAPH_TABLE, compared with the same reads as joins and recursive queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import duckdb
import pytest

import snapdb
from snapdb import Database
from tests.support.social import EDGES, VERTICES, create_social, social

ROWS = social()
PERSONS = [row[0] for row in ROWS["person"]]
MESSAGES = [row[0] for kind in ("post", "comment") for row in ROWS[kind]]
OF_PERSONS = [{"personId": person} for person in PERSONS[::15]]
OF_MESSAGES = [{"messageId": message} for message in MESSAGES[::50]]
OF_PAIRS = [
    {"person1Id": PERSONS[one], "person2Id": PERSONS[other]}
    for one, other in [(0, 0), (0, 1), (0, 28), (40, 3), (13, 50), (18, 45), (5, 59), (57, 59)]
]

VIEWS = """
WITH RECURSIVE friends AS (
  SELECT src AS a, dst AS b, creationDate, weight FROM @knows
  UNION ALL SELECT dst, src, creationDate, weight FROM @knows),
messages AS (
  SELECT id, creationDate, content, imageFile, coalesce(content, imageFile) AS shown FROM @post
  UNION ALL SELECT id, creationDate, content, NULL, content FROM @comment),
creators AS (SELECT src AS message, dst AS person FROM @post_creator UNION ALL SELECT src, dst FROM @comment_creator),
replies AS (SELECT src AS comment, dst AS parent FROM @reply_to_post UNION ALL SELECT src, dst FROM @reply_to_comment),
likers AS (
  SELECT src AS person, dst AS message, creationDate FROM @likes_post
  UNION ALL SELECT src, dst, creationDate FROM @likes_comment),
roots AS (
  SELECT id AS message, id AS ancestor FROM messages
  UNION ALL SELECT message, parent FROM roots JOIN replies ON comment = ancestor)
"""
"""Both directions of `knows`, the unions of the edge tables of one label, and every message with its ancestors."""

REACHED = """
, reached(person, hops) AS (
  SELECT id, 0 FROM @person WHERE id = {start}
  UNION SELECT b, hops + 1 FROM reached JOIN friends ON a = person WHERE hops < {hops}),
near AS (SELECT person, min(hops) AS hops FROM reached GROUP BY person)
"""
"""The persons within a number of hops, by breadth-first search."""


def near(start: str, hops: int) -> str:
    """Return the common table expressions of a query over the persons near one, with their distance."""
    return VIEWS + REACHED.format(start=start, hops=hops)


class Read(NamedTuple):
    """One read in two forms."""

    name: str
    pattern: str
    """The query over GRAPH_TABLE."""
    tables: str
    """The query over tables, each of which is named after an @."""
    params: list[dict[str, Any]]


READS = [
    Read(
        "short read 1: profile of a person",
        """
        SELECT * FROM GRAPH_TABLE (social
          MATCH (p:person WHERE p.id = $personId)-[:isLocatedIn]->(c:place)
          COLUMNS (p.firstName, p.lastName, p.birthday, p.locationIP, p.browserUsed, c.id AS cityId, p.gender,
            p.creationDate))
        """,
        """
        SELECT p.firstName, p.lastName, p.birthday, p.locationIP, p.browserUsed, l.dst, p.gender, p.creationDate
        FROM @person p JOIN @person_city l ON l.src = p.id WHERE p.id = $personId
        """,
        OF_PERSONS,
    ),
    Read(
        "short read 2: recent messages of a person, with the posts at their roots",
        """
        SELECT messageId, content, creationDate, postId, authorId, firstName, lastName
        FROM GRAPH_TABLE (social
          MATCH (p:person WHERE p.id = $personId)<-[:hasCreator]-(m:message),
            ACYCLIC (m)-[:replyOf]->*(root:post)-[:hasCreator]->(author:person)
          COLUMNS (m.id AS messageId, coalesce(m.content, m.imageFile) AS content, m.creationDate, root.id AS postId,
            author.id AS authorId, author.firstName, author.lastName))
        ORDER BY creationDate DESC, messageId DESC LIMIT 10
        """,
        VIEWS
        + """
        SELECT m.id, m.shown, m.creationDate, root.id, author.id, author.firstName, author.lastName
        FROM messages m JOIN creators c ON c.message = m.id JOIN roots ON roots.message = m.id
          JOIN @post root ON root.id = roots.ancestor
          JOIN @post_creator pc ON pc.src = root.id JOIN @person author ON author.id = pc.dst
        WHERE c.person = $personId
        ORDER BY m.creationDate DESC, m.id DESC LIMIT 10
        """,
        OF_PERSONS,
    ),
    Read(
        "short read 3: friends of a person",
        """
        SELECT personId, firstName, lastName, since
        FROM GRAPH_TABLE (social
          MATCH (p:person WHERE p.id = $personId)-[k:knows]-(f:person)
          COLUMNS (f.id AS personId, f.firstName, f.lastName, k.creationDate AS since))
        ORDER BY since DESC, personId
        """,
        VIEWS
        + """
        SELECT f.id, f.firstName, f.lastName, k.creationDate
        FROM friends k JOIN @person f ON f.id = k.b WHERE k.a = $personId
        ORDER BY k.creationDate DESC, f.id
        """,
        OF_PERSONS,
    ),
    Read(
        "short read 4: content of a message",
        """
        SELECT * FROM GRAPH_TABLE (social
          MATCH (m:message WHERE m.id = $messageId)
          COLUMNS (m.creationDate, coalesce(m.content, m.imageFile) AS content, m.imageFile))
        """,
        VIEWS + "SELECT creationDate, shown, imageFile FROM messages WHERE id = $messageId",
        OF_MESSAGES,
    ),
    Read(
        "short read 5: creator of a message",
        """
        SELECT * FROM GRAPH_TABLE (social
          MATCH (m:message WHERE m.id = $messageId)-[:hasCreator]->(p:person)
          COLUMNS (p.id, p.firstName, p.lastName))
        """,
        VIEWS
        + """
        SELECT p.id, p.firstName, p.lastName FROM creators c JOIN @person p ON p.id = c.person
        WHERE c.message = $messageId
        """,
        OF_MESSAGES,
    ),
    Read(
        "short read 6: forum of a message",
        """
        SELECT * FROM GRAPH_TABLE (social
          MATCH ANY SHORTEST (m:message WHERE m.id = $messageId)-[:replyOf]->*(root:post)<-[:containerOf]-(f:forum)
            -[:hasModerator]->(p:person)
          COLUMNS (f.id AS forumId, f.title, p.id, p.firstName, p.lastName))
        """,
        VIEWS
        + """
        SELECT f.id, f.title, p.id, p.firstName, p.lastName
        FROM roots r JOIN @container_of c ON c.dst = r.ancestor JOIN @post root ON root.id = r.ancestor
          JOIN @forum f ON f.id = c.src
          JOIN @forum_moderator h ON h.src = f.id JOIN @person p ON p.id = h.dst
        WHERE r.message = $messageId
        """,
        OF_MESSAGES,
    ),
    Read(
        "short read 7: replies to a message",
        """
        SELECT commentId, content, creationDate, authorId, firstName, lastName,
          EXISTS (FROM GRAPH_TABLE (social
            MATCH (a:person)-[:knows]-(b:person) COLUMNS (a.id AS one, b.id AS other)) WHERE one = author AND
              other = authorId) AS known
        FROM GRAPH_TABLE (social
          MATCH (author:person)<-[:hasCreator]-(m:message WHERE m.id = $messageId)<-[:replyOf]-(c:comment)
            -[:hasCreator]->(p:person)
          COLUMNS (c.id AS commentId, c.content, c.creationDate, p.id AS authorId, p.firstName, p.lastName,
            author.id AS author))
        ORDER BY creationDate DESC, authorId, commentId
        """,
        VIEWS
        + """
        SELECT c.id, c.content, c.creationDate, p.id, p.firstName, p.lastName,
          EXISTS (FROM friends WHERE a = author.person AND b = p.id)
        FROM creators author JOIN replies r ON r.parent = author.message JOIN @comment c ON c.id = r.comment
          JOIN @comment_creator h ON h.src = c.id JOIN @person p ON p.id = h.dst
        WHERE author.message = $messageId
        ORDER BY c.creationDate DESC, p.id, c.id
        """,
        OF_MESSAGES,
    ),
    Read(
        "complex read 1: friends with a given name, up to three hops away",
        """
        SELECT f.id, lastName, distance, birthday, city, universities
        FROM GRAPH_TABLE (social
          MATCH q = ANY SHORTEST (p:person WHERE p.id = $personId)-[:knows]-{1,3}
            (f:person WHERE f.firstName = $firstName), (f)-[:isLocatedIn]->(c:place)
          WHERE f.id <> $personId
          COLUMNS (f.id, f.lastName, path_length(q) AS distance, f.birthday, c.name AS city)) f
        LEFT JOIN (
          SELECT person, list((name, classYear, city) ORDER BY name) AS universities
          FROM GRAPH_TABLE (social
            MATCH (p:person)-[s:studyAt]->(u:organisation)-[:isLocatedIn]->(c:place)
            COLUMNS (p.id AS person, u.name, s.classYear, c.name AS city))
          GROUP BY person) u ON u.person = f.id
        ORDER BY distance, lastName, f.id LIMIT 20
        """,
        near("$personId", 3)
        + """
        SELECT f.id, f.lastName, hops, f.birthday, c.name,
          (SELECT list((o.name, s.classYear, oc.name) ORDER BY o.name)
            FROM @study_at s JOIN @organisation o ON o.id = s.dst JOIN @organisation_place op ON op.src = o.id
              JOIN @place oc ON oc.id = op.dst WHERE s.src = f.id)
        FROM near JOIN @person f ON f.id = near.person JOIN @person_city l ON l.src = f.id
          JOIN @place c ON c.id = l.dst
        WHERE hops > 0 AND f.firstName = $firstName
        ORDER BY hops, f.lastName, f.id LIMIT 20
        """,
        [{**each, "firstName": name} for each in OF_PERSONS for name in ("Ada", "Farid")],
    ),
    Read(
        "complex read 2: recent messages of friends",
        """
        SELECT personId, firstName, lastName, messageId, content, creationDate
        FROM GRAPH_TABLE (social
          MATCH (p:person WHERE p.id = $personId)-[:knows]-(f:person)<-[:hasCreator]-
            (m:message WHERE m.creationDate <= TIMESTAMP '2011-04-01')
          COLUMNS (f.id AS personId, f.firstName, f.lastName, m.id AS messageId,
            coalesce(m.content, m.imageFile) AS content, m.creationDate))
        ORDER BY creationDate DESC, messageId LIMIT 20
        """,
        VIEWS
        + """
        SELECT f.id, f.firstName, f.lastName, m.id, m.shown, m.creationDate
        FROM friends k JOIN @person f ON f.id = k.b JOIN creators c ON c.person = f.id
          JOIN messages m ON m.id = c.message
        WHERE k.a = $personId AND m.creationDate <= TIMESTAMP '2011-04-01'
        ORDER BY m.creationDate DESC, m.id LIMIT 20
        """,
        OF_PERSONS,
    ),
    Read(
        "complex read 4: new topics",
        """
        SELECT name, count(DISTINCT post) AS posts
        FROM GRAPH_TABLE (social
          MATCH (p:person WHERE p.id = $personId)-[:knows]-(:person)<-[:hasCreator]-
            (m:post WHERE m.creationDate < TIMESTAMP '2011-06-01')-[:hasTag]->(t:tag)
          COLUMNS (t.name, m.id AS post, m.creationDate))
        GROUP BY name HAVING min(creationDate) >= TIMESTAMP '2010-10-01'
        ORDER BY posts DESC, name LIMIT 10
        """,
        VIEWS
        + """, tagged AS (
          SELECT t.name, m.id AS post, m.creationDate
          FROM friends k JOIN @post_creator c ON c.dst = k.b JOIN @post m ON m.id = c.src
            JOIN @post_tag h ON h.src = m.id JOIN @tag t ON t.id = h.dst
          WHERE k.a = $personId AND m.creationDate < TIMESTAMP '2011-06-01')
        SELECT name, count(DISTINCT post) AS posts FROM tagged
        WHERE name NOT IN (SELECT name FROM tagged WHERE creationDate < TIMESTAMP '2010-10-01')
        GROUP BY name ORDER BY posts DESC, name LIMIT 10
        """,
        OF_PERSONS,
    ),
    Read(
        "complex read 6: tags beside a given one",
        """
        SELECT name, count(DISTINCT post) AS posts
        FROM GRAPH_TABLE (social
          MATCH ANY SHORTEST (p:person WHERE p.id = $personId)-[:knows]-{1,2}(f:person),
            (f)<-[:hasCreator]-(m:post)-[:hasTag]->(t:tag WHERE t.name = $tagName),
            (m)-[:hasTag]->(other:tag WHERE other.name <> $tagName)
          WHERE f.id <> p.id
          COLUMNS (other.name, m.id AS post))
        GROUP BY name ORDER BY posts DESC, name LIMIT 10
        """,
        near("$personId", 2)
        + """
        SELECT o.name, count(DISTINCT c.src) AS posts
        FROM near JOIN @post_creator c ON c.dst = near.person
          JOIN @post_tag h ON h.src = c.src JOIN @tag t ON t.id = h.dst
          JOIN @post_tag ho ON ho.src = c.src JOIN @tag o ON o.id = ho.dst
        WHERE hops > 0 AND t.name = $tagName AND o.name <> $tagName
        GROUP BY o.name ORDER BY posts DESC, o.name LIMIT 10
        """,
        [{**each, "tagName": ROWS["tag"][place][1]} for each in OF_PERSONS for place in (2, 5)],
    ),
    Read(
        "complex read 7: recent likes",
        """
        SELECT personId, firstName, lastName, liked, messageId, content,
          datediff('minute', creationDate, liked) AS late,
          personId NOT IN (SELECT friend FROM GRAPH_TABLE (social
            MATCH (p:person WHERE p.id = $personId)-[:knows]-(f:person) COLUMNS (f.id AS friend))) AS stranger
        FROM GRAPH_TABLE (social
          MATCH (p:person WHERE p.id = $personId)<-[:hasCreator]-(m:message)<-[l:likes]-(f:person)
          COLUMNS (f.id AS personId, f.firstName, f.lastName, l.creationDate AS liked, m.id AS messageId,
            coalesce(m.content, m.imageFile) AS content, m.creationDate))
        QUALIFY row_number() OVER (PARTITION BY personId ORDER BY liked DESC, messageId) = 1
        ORDER BY liked DESC, personId LIMIT 20
        """,
        VIEWS
        + """, liked AS (
          SELECT l.person, arg_max(m.id, (l.creationDate, -m.id)) AS message, max(l.creationDate) AS moment
          FROM likers l JOIN creators c ON c.message = l.message JOIN messages m ON m.id = l.message
          WHERE c.person = $personId GROUP BY l.person)
        SELECT f.id, f.firstName, f.lastName, moment, m.id, m.shown, datediff('minute', m.creationDate, moment),
          NOT EXISTS (FROM friends WHERE a = $personId AND b = f.id)
        FROM liked JOIN @person f ON f.id = liked.person JOIN messages m ON m.id = liked.message
        ORDER BY moment DESC, f.id LIMIT 20
        """,
        OF_PERSONS,
    ),
    Read(
        "complex read 8: recent replies to a person",
        """
        SELECT personId, firstName, lastName, creationDate, commentId, content
        FROM GRAPH_TABLE (social
          MATCH (p:person WHERE p.id = $personId)<-[:hasCreator]-(:message)<-[:replyOf]-(c:comment)
            -[:hasCreator]->(f:person)
          COLUMNS (f.id AS personId, f.firstName, f.lastName, c.creationDate, c.id AS commentId, c.content))
        ORDER BY creationDate DESC, commentId LIMIT 20
        """,
        VIEWS
        + """
        SELECT p.id, p.firstName, p.lastName, c.creationDate, c.id, c.content
        FROM creators own JOIN replies r ON r.parent = own.message JOIN @comment c ON c.id = r.comment
          JOIN @comment_creator h ON h.src = c.id JOIN @person p ON p.id = h.dst
        WHERE own.person = $personId
        ORDER BY c.creationDate DESC, c.id LIMIT 20
        """,
        OF_PERSONS,
    ),
    Read(
        "complex read 9: recent messages of friends and their friends",
        """
        SELECT personId, firstName, lastName, messageId, content, creationDate
        FROM GRAPH_TABLE (social
          MATCH ANY (p:person WHERE p.id = $personId)-[:knows]-{1,2}(f:person WHERE f.id <> $personId),
            (f)<-[:hasCreator]-(m:message)
          WHERE m.creationDate < TIMESTAMP '2011-06-01'
          COLUMNS (f.id AS personId, f.firstName, f.lastName, m.id AS messageId,
            coalesce(m.content, m.imageFile) AS content, m.creationDate))
        ORDER BY creationDate DESC, messageId LIMIT 20
        """,
        near("$personId", 2)
        + """
        SELECT f.id, f.firstName, f.lastName, m.id, m.shown, m.creationDate
        FROM near JOIN @person f ON f.id = near.person JOIN creators c ON c.person = f.id
          JOIN messages m ON m.id = c.message
        WHERE hops > 0 AND m.creationDate < TIMESTAMP '2011-06-01'
        ORDER BY m.creationDate DESC, m.id LIMIT 20
        """,
        OF_PERSONS,
    ),
    Read(
        "complex read 11: job referral",
        """
        SELECT DISTINCT personId, firstName, lastName, company, workFrom
        FROM GRAPH_TABLE (social
          MATCH (p:person WHERE p.id = $personId)-[:knows]-{1,2}(f:person)-[w:workAt WHERE w.workFrom < 2009]->
            (o:organisation)-[:isLocatedIn]->(c:place WHERE c.name = $country)
          WHERE f.id <> p.id
          COLUMNS (f.id AS personId, f.firstName, f.lastName, o.name AS company, w.workFrom))
        ORDER BY workFrom, personId, company DESC LIMIT 10
        """,
        near("$personId", 2)
        + """
        SELECT f.id, f.firstName, f.lastName, o.name, w.workFrom
        FROM near JOIN @person f ON f.id = near.person JOIN @work_at w ON w.src = f.id
          JOIN @organisation o ON o.id = w.dst JOIN @organisation_place l ON l.src = o.id JOIN @place c ON c.id = l.dst
        WHERE hops > 0 AND w.workFrom < 2009 AND c.name = $country
        ORDER BY w.workFrom, f.id, o.name DESC LIMIT 10
        """,
        [{**each, "country": country} for each in OF_PERSONS for country in ("Norway", "Japan")],
    ),
    Read(
        "complex read 12: expert search",
        """
        SELECT personId, firstName, lastName, list_sort(list(DISTINCT tag)) AS tags, count(DISTINCT comment) AS replies
        FROM GRAPH_TABLE (social
          MATCH (p:person WHERE p.id = $personId)-[:knows]-(f:person)<-[:hasCreator]-(c:comment)-[:replyOf]->(m:post)
              -[:hasTag]->(t:tag),
            ACYCLIC (t)-[:hasType]->(:tagclass)-[:isSubclassOf]->*(top:tagclass WHERE top.name = $tagClassName)
          COLUMNS (f.id AS personId, f.firstName, f.lastName, t.name AS tag, c.id AS comment))
        GROUP BY ALL ORDER BY replies DESC, personId LIMIT 20
        """,
        VIEWS
        + """, classes(id) AS (
          SELECT id FROM @tagclass WHERE name = $tagClassName
          UNION ALL SELECT src FROM classes JOIN @tagclass_parent ON dst = id)
        SELECT f.id, f.firstName, f.lastName, list_sort(list(DISTINCT t.name)), count(DISTINCT c.src) AS replies
        FROM friends k JOIN @person f ON f.id = k.b JOIN @comment_creator c ON c.dst = f.id
          JOIN @reply_to_post r ON r.src = c.src JOIN @post_tag h ON h.src = r.dst JOIN @tag t ON t.id = h.dst
          JOIN @tag_type y ON y.src = t.id JOIN classes ON classes.id = y.dst
        WHERE k.a = $personId
        GROUP BY f.id, f.firstName, f.lastName ORDER BY replies DESC, f.id LIMIT 20
        """,
        [{**each, "tagClassName": name} for each in OF_PERSONS for name in ("Person", "Work", "Thing")],
    ),
    Read(
        "complex read 13: shortest path between two persons",
        """
        SELECT coalesce(max(hops), -1) AS shortest
        FROM GRAPH_TABLE (social
          MATCH q = ANY SHORTEST (a:person WHERE a.id = $person1Id)-[k:knows]-*(b:person WHERE b.id = $person2Id)
          COLUMNS (path_length(q) AS hops))
        """,
        near("$person1Id", 60) + "SELECT coalesce(max(hops), -1) FROM near WHERE person = $person2Id",
        OF_PAIRS,
    ),
    Read(
        "complex read 14 in version 1: all shortest paths between two persons, with their weights",
        """
        SELECT hops, weight, latest
        FROM GRAPH_TABLE (social
          MATCH q = ALL SHORTEST (a:person WHERE a.id = $person1Id)-[k:knows]-*(b:person WHERE b.id = $person2Id)
          COLUMNS (path_length(q) AS hops, sum(k.weight) AS weight, max(k.creationDate) AS latest))
        ORDER BY ALL
        """,
        near("$person1Id", 60)
        + """, paths(person, hops, weight, latest) AS (
          SELECT person, 0, NULL::BIGINT, NULL::TIMESTAMP FROM near WHERE hops = 0
          UNION ALL
          SELECT near.person, near.hops, coalesce(p.weight, 0) + k.weight, greatest(latest, k.creationDate)
          FROM paths p JOIN friends k ON k.a = p.person JOIN near ON near.person = k.b AND near.hops = p.hops + 1)
        SELECT hops, weight, latest FROM paths WHERE person = $person2Id ORDER BY ALL
        """,
        OF_PAIRS,
    ),
    Read(
        "complex read 14 in version 2: trusted path between two persons",
        """
        SELECT * FROM GRAPH_TABLE (social
          MATCH ANY CHEAPEST (a:person WHERE a.id = $person1Id)-[k:knows COST k.weight]-*
            (b:person WHERE b.id = $person2Id)
          COLUMNS (coalesce(sum(k.weight), 0) AS cost))
        """,
        VIEWS
        + """, spent(person, cost) AS (
          SELECT id, 0 FROM @person WHERE id = $person1Id
          UNION SELECT b, cost + weight FROM spent JOIN friends ON a = person WHERE cost + weight < 80)
        SELECT min(cost) FROM spent WHERE person = $person2Id GROUP BY person
        """,
        OF_PAIRS,
    ),
]


class Network(NamedTuple):
    """The social network in snapdb, and its tables in DuckDB."""

    db: Database
    tables: duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """The social network. Tests only read it."""
    path = tmp_path_factory.mktemp("social") / "social.snapdb"
    with snapdb.connect(path) as db, duckdb.connect() as tables:
        create_social(db)
        for schema, prefix in [("social", ""), ("early", "early.")]:
            tables.execute(f"CREATE SCHEMA {schema}")
            for name in (*VERTICES, *EDGES):
                tables.register("copied", db.execute(f"SELECT * FROM {prefix}{name}").arrow())
                tables.execute(f"CREATE TABLE {schema}.{name} AS FROM copied")
        yield Network(db, tables)


@pytest.mark.parametrize("graph", ["social", "latest", "early"])
@pytest.mark.parametrize("read", READS, ids=[read.name.partition(":")[0].replace(" ", "_") for read in READS])
def test_a_read_is_the_same_as_a_pattern_and_as_joins(network: Network, read: Read, graph: str) -> None:
    pattern = read.pattern.replace("GRAPH_TABLE (social", f"GRAPH_TABLE ({graph}")
    tables = read.tables.replace("@", "early." if graph == "early" else "social.")
    count = 0
    for params in read.params:
        expected = network.tables.execute(tables, params).fetchall()
        assert network.db.execute(pattern, params).fetchall() == expected, params
        count += len(expected)
    assert count > 1
