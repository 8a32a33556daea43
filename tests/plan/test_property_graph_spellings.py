"""CREATE PROPERTY GRAPH as DuckPGQ and PostgreSQL write it gives the graph that our own spelling gives."""

from __future__ import annotations

import pytest

from snapdb import Database
from tests.support.refusals import refused

SOCIAL = """
CREATE TABLE Person (id BIGINT, firstName VARCHAR, email VARCHAR);
CREATE TABLE Message (id BIGINT, content VARCHAR);
CREATE TABLE Forum (id BIGINT, title VARCHAR);
CREATE TABLE Person_knows_person (Person1Id BIGINT, Person2Id BIGINT, creationDate TIMESTAMP);
CREATE TABLE Forum_hasMember_Person (ForumId BIGINT, PersonId BIGINT);
CREATE TABLE Person_likes_Message (PersonId BIGINT, id BIGINT);
INSERT INTO Person VALUES (14, 'Hossein', 'h@x'), (16, 'Jan', 'j@x'), (32, 'Miguel', 'm@x');
INSERT INTO Message VALUES (1, 'hi'), (2, 'ho');
INSERT INTO Forum VALUES (7, 'wall');
INSERT INTO Person_knows_person VALUES (14, 16, '2010-01-01'), (16, 32, '2010-02-01'), (32, 14, '2010-03-01');
INSERT INTO Forum_hasMember_Person VALUES (7, 14), (7, 32);
INSERT INTO Person_likes_Message VALUES (14, 2), (16, 1);
"""
DUCKPGQ = """CREATE PROPERTY GRAPH {name}
VERTEX TABLES (
  Person,
  Message,
  Forum
)
EDGE TABLES (
  Person_knows_person     SOURCE KEY (Person1Id) REFERENCES Person (id)
                          DESTINATION KEY (Person2Id) REFERENCES Person (id)
                          LABEL Knows,
  Forum_hasMember_Person  SOURCE KEY (ForumId) REFERENCES Forum (id)
                          DESTINATION KEY (PersonId) REFERENCES Person (id)
                          LABEL hasMember,
  Person_likes_Message    SOURCE KEY (PersonId) REFERENCES Person (id)
                          DESTINATION KEY (id) REFERENCES Message (id)
                          LABEL likes_Message
)"""
OURS = """CREATE PROPERTY GRAPH {name}
  VERTEX TABLES (Person KEY (id), Message KEY (id), Forum KEY (id))
  EDGE TABLES (
    Person_knows_person SOURCE KEY (Person1Id) REFERENCES Person DESTINATION KEY (Person2Id) REFERENCES Person,
    Forum_hasMember_Person SOURCE KEY (ForumId) REFERENCES Forum DESTINATION KEY (PersonId) REFERENCES Person,
    Person_likes_Message SOURCE KEY (PersonId) REFERENCES Person DESTINATION KEY (id) REFERENCES Message)"""
SHOP = """
CREATE TABLE products (product_no INTEGER, name VARCHAR, price DECIMAL(9, 2));
CREATE TABLE customers (customer_id INTEGER, name VARCHAR, address VARCHAR);
CREATE TABLE orders (order_id INTEGER, ordered_when DATE);
CREATE TABLE order_items (order_items_id INTEGER, order_id INTEGER, product_no INTEGER, quantity INTEGER);
CREATE TABLE customer_orders (customer_orders_id INTEGER, customer_id INTEGER, order_id INTEGER);
INSERT INTO products VALUES (1, 'one', 10), (2, 'two', 20), (3, 'three', 30);
INSERT INTO customers VALUES (1, 'customer1', 'US'), (2, 'customer2', 'CA'), (3, 'customer3', 'GL');
INSERT INTO orders VALUES (1, '2024-01-01'), (2, '2024-01-02'), (3, '2024-01-03');
INSERT INTO order_items VALUES (1, 1, 1, 5), (2, 1, 2, 10), (3, 2, 1, 7);
INSERT INTO customer_orders VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3);
"""
POSTGRES = """CREATE PROPERTY GRAPH {name}
    VERTEX TABLES (
        products KEY (product_no),
        customers KEY (customer_id),
        orders KEY (order_id)
    )
    EDGE TABLES (
        order_items SOURCE orders DESTINATION products,
        customer_orders SOURCE customers DESTINATION orders
    )"""
POSTGRES_KEYS = """CREATE PROPERTY GRAPH {name}
    NODE TABLES (
        products,
        customers,
        orders
    )
    RELATIONSHIP TABLES (
        order_items KEY (order_items_id)
            SOURCE KEY (order_id) REFERENCES orders (order_id)
            DESTINATION KEY (product_no) REFERENCES products (product_no),
        customer_orders KEY (customer_orders_id)
            SOURCE KEY (customer_id) REFERENCES customers (customer_id)
            DESTINATION KEY (order_id) REFERENCES orders (order_id)
    )"""
OURS_SHOP = """CREATE PROPERTY GRAPH {name}
  VERTEX TABLES (products KEY (product_no), customers KEY (customer_id), orders KEY (order_id))
  EDGE TABLES (
    order_items SOURCE KEY (order_id) REFERENCES orders DESTINATION KEY (product_no) REFERENCES products,
    customer_orders SOURCE KEY (customer_id) REFERENCES customers DESTINATION KEY (order_id) REFERENCES orders)"""


def elements(db: Database, graph: str) -> list[tuple[object, ...]]:
    """What DESCRIBE GRAPH says, but for labels."""
    return [row[:9] for row in db.execute(f"DESCRIBE GRAPH {graph}").fetchall()]


@pytest.fixture
def social(db: Database) -> Database:
    db.script(SOCIAL)
    return db


@pytest.fixture
def shop(db: Database) -> Database:
    db.script(SHOP)
    return db


def test_the_graph_of_duckpgqs_documentation_is_ours(social: Database) -> None:
    social.execute(DUCKPGQ.format(name="snb"))
    social.execute(OURS.format(name="ours"))
    assert elements(social, "snb") == elements(social, "ours")
    labels = {row[0]: row[9] for row in social.execute("DESCRIBE GRAPH snb").fetchall()}
    assert labels["Person"] == "Person"
    assert labels["Person_knows_person"] == "Knows"


@pytest.mark.parametrize("spelling", [POSTGRES, POSTGRES_KEYS])
def test_the_graphs_of_postgresqls_documentation_are_ours(shop: Database, spelling: str) -> None:
    shop.execute(spelling.format(name="myshop"))
    shop.execute(OURS_SHOP.format(name="ours"))
    assert elements(shop, "myshop") == elements(shop, "ours")
    shop.script("CREATE SNAPSHOT theirs OF myshop; CREATE SNAPSHOT mine OF ours;")
    assert shop.execute("DIFF SNAPSHOT theirs WITH mine ROWS").fetchall() == []
    seeds = "SEEDS (SELECT product_no FROM products) AS products FANOUT (DEFAULT => [5, 5])"
    theirs, mine = (shop.execute(f"SAMPLE FROM {s} {seeds}").fetchall() for s in ("theirs", "mine"))
    assert theirs == mine
    assert len(theirs) > 0


def test_a_label_means_all_elements_that_have_it(social: Database) -> None:
    social.execute(
        DUCKPGQ.format(name="snb")
        .replace("LABEL hasMember", "LABEL Knows")
        .replace("  Forum\n", "  Forum LABEL place\n")
    )
    social.script("CREATE SNAPSHOT known OF snb ELEMENTS (knows); CREATE SNAPSHOT places OF snb ELEMENTS (place);")
    described = [row[0] for row in social.execute("DESCRIBE SNAPSHOT known").fetchall()]
    assert described == ["known", "Person", "Forum", "Person_knows_person", "Forum_hasMember_Person"]
    assert [row[0] for row in social.execute("DESCRIBE SNAPSHOT places").fetchall()] == ["places", "Forum"]
    sample = "SAMPLE FROM known SEEDS (SELECT id FROM Person) AS Person FANOUT ({}) BATCH 9"
    by_label = social.execute(sample.format("Knows => [3]")).fetchall()
    by_name = social.execute(sample.format("Person_knows_person => [3], Forum_hasMember_Person => [3]")).fetchall()
    assert by_label == by_name
    assert {row[2] for row in by_label} == {"Person_knows_person", "Forum_hasMember_Person"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("", ["id", "firstName", "email"]),
        ("PROPERTIES (firstName)", ["id", "firstName"]),
        ("PROPERTIES (firstName AS first, email) LABEL a", ["id", "first", "email"]),
        ("LABEL a PROPERTIES (email)", ["id", "email"]),
        ("LABEL a PROPERTIES (email) LABEL b PROPERTIES (firstName)", ["id", "firstName", "email"]),
        ("LABEL a PROPERTIES (email) LABEL b", ["id", "firstName", "email"]),
        ("PROPERTIES (email) LABEL a NO PROPERTIES LABEL b", ["id", "email"]),
        ("PROPERTIES ARE ALL COLUMNS EXCEPT (email)", ["id", "firstName"]),
        ("PROPERTIES ALL COLUMNS EXCEPT (email, firstName) LABEL a PROPERTIES (firstName AS f)", ["id", "f"]),
        ("PROPERTIES ALL COLUMNS", ["id", "firstName", "email"]),
        ("NO PROPERTIES", ["id"]),
        ("DEFAULT LABEL NO PROPERTIES LABEL a NO PROPERTIES", ["id"]),
        ("PROPERTIES (ID, EMAIL AS mail)", ["id", "mail"]),
    ],
)
def test_a_snapshot_shows_the_properties_of_an_element_and_its_labels(
    social: Database, said: str, shown: list[str]
) -> None:
    social.script(f"CREATE PROPERTY GRAPH g VERTEX TABLES (Person KEY (id) {said}); CREATE SNAPSHOT q OF g;")
    assert social.execute("FROM q.Person").columns == shown


def test_keys_times_and_weights_are_shown_whatever_the_properties(social: Database) -> None:
    social.script(
        "CREATE PROPERTY GRAPH g VERTEX TABLES (Person KEY (id) NO PROPERTIES) EDGE TABLES (Person_knows_person "
        "SOURCE KEY (Person1Id) Person DESTINATION KEY (Person2Id) Person NO PROPERTIES EVENT TIME (creationDate)); "
        "CREATE SNAPSHOT q OF g FOR EVENT_TIME AS OF TIMESTAMP '2010-02-15' WHERE Person.email <> 'm@x';"
    )
    edges = social.execute("FROM q.Person_knows_person")
    assert edges.columns == ["Person1Id", "Person2Id", "creationDate", "e_id"]
    assert [row[:2] for row in edges.fetchall()] == [(14, 16)]  # what is hidden still filters


def test_a_column_that_a_graph_shows_is_not_dropped_under_it(social: Database) -> None:
    social.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (Person KEY (id) PROPERTIES (email AS mail))")
    with refused("in-use", at="email"):
        social.execute("ALTER TABLE Person DROP COLUMN email")
    social.execute("ALTER TABLE Person DROP COLUMN firstName")


def test_a_later_column_is_shown_where_all_columns_are(social: Database) -> None:
    social.script(
        "CREATE PROPERTY GRAPH g VERTEX TABLES (Person KEY (id) PROPERTIES ARE ALL COLUMNS EXCEPT (email)); "
        "ALTER TABLE Person ADD COLUMN age INTEGER; CREATE SNAPSHOT q OF g;"
    )
    assert social.execute("FROM q.Person").columns == ["id", "firstName", "age"]


def test_a_version_without_a_property_does_not_fit(social: Database) -> None:
    social.script(
        "ALTER TABLE Person ADD COLUMN age INTEGER; "
        "CREATE PROPERTY GRAPH g VERTEX TABLES (Person KEY (id) PROPERTIES (age AS years)); CREATE SNAPSHOT q OF g;"
    )
    assert social.execute("FROM q.Person").columns == ["id", "years"]
    with refused("does-not-fit", '"age"', at="AT (VERSION => 12)"):
        social.execute("CREATE SNAPSHOT old OF g AT (VERSION => 12)")


def test_a_label_and_one_of_its_elements_are_not_walked_twice(social: Database) -> None:
    social.script(DUCKPGQ.format(name="snb") + "; CREATE SNAPSHOT q OF snb")
    seeds = "SAMPLE FROM q SEEDS (SELECT id FROM Person) AS Person FANOUT"
    with refused("duplicate-fanout", "Person_knows_person", at="Person_knows_person => [1]"):
        social.execute(f"{seeds} (Knows => [2], Person_knows_person => [1])")
    assert len(social.execute(f"{seeds} (Knows OUT => [2], Person_knows_person => [1])").fetchall()) > 0
    with refused("unknown-edge-type", '"Know"', at="Know"):
        social.execute(f"{seeds} (Know => [2])")


def test_labels_and_properties_change_no_batch_and_no_saved_position(social: Database) -> None:
    plain = "CREATE OR REPLACE PROPERTY GRAPH g VERTEX TABLES (Person KEY (id){}) EDGE TABLES (Person_knows_person "
    ends = "SOURCE KEY (Person1Id) REFERENCES Person DESTINATION KEY (Person2Id) REFERENCES Person{})"
    query = "SAMPLE FROM q SEEDS (SELECT id FROM Person) AS Person FANOUT (Person_knows_person => [2]) BATCH 1"
    state = None
    for vertex, edge in (("", ""), (" PROPERTIES (email) LABEL human", " NO PROPERTIES LABEL friend")):
        social.execute(plain.format(vertex) + ends.format(edge))
        social.execute("CREATE OR REPLACE SNAPSHOT q OF g")
        with social.stream(query) as stream:
            if state is None:
                next(iter(stream))
                state = stream.state_dict()
            else:
                stream.load_state_dict(state)
                assert len(list(stream)) == 2


def test_a_graph_describes_its_labels_and_properties(social: Database) -> None:
    social.execute(
        "CREATE PROPERTY GRAPH g VERTEX TABLES (Person KEY (id) PROPERTIES (firstName AS first) LABEL human "
        "DEFAULT LABEL, Forum KEY (id) PROPERTIES ALL COLUMNS EXCEPT (title) LABEL place, "
        "Message KEY (id) NO PROPERTIES)"
    )
    described = [(row[0], *row[9:]) for row in social.execute("DESCRIBE GRAPH g").fetchall()]
    assert described == [
        ("Person", "human, Person", "firstName AS first"),
        ("Forum", "place", "all columns except title"),
        ("Message", "Message", "none"),
    ]


KNOWS = "Person_knows_person SOURCE KEY (Person1Id) {} DESTINATION KEY (Person2Id) {}"
KNOWN = KNOWS.format("Person (id)", "Person")


@pytest.mark.parametrize(
    ("body", "place", "code"),
    [
        ("VERTEX TABLES (Person)", "Person", "missing-key"),
        (
            f"VERTEX TABLES (Person) EDGE TABLES ({KNOWS.format('Person (id)', 'Person (email)')})",
            "email",
            "key-mismatch",
        ),
        (
            "VERTEX TABLES (Person KEY (id)) EDGE TABLES (Person_knows_person SOURCE Person DESTINATION Person)",
            "Person",
            "missing-key",
        ),
        (
            "VERTEX TABLES (Person KEY (id), Forum KEY (id)) EDGE TABLES (Forum_hasMember_Person SOURCE Forum "
            "DESTINATION KEY (PersonId) Person)",
            "Forum",
            "unknown-column",
        ),
        ("VERTEX TABLES (Person KEY (id) LABEL a IN kinds (x, y))", "IN kinds (x, y)", "refused"),
        ("VERTEX TABLES (Person KEY (id) LABEL a LABEL A)", "LABEL A", "duplicate-clause"),
        ("VERTEX TABLES (Person KEY (id) LABEL Person DEFAULT LABEL)", "DEFAULT LABEL", "duplicate-name"),
        ("VERTEX TABLES (Person KEY (id) LABEL a PROPERTIES (id) NO PROPERTIES)", "NO PROPERTIES", "duplicate-clause"),
        ("VERTEX TABLES (Person KEY (id) PROPERTIES (emial))", "emial", "unknown-column"),
        ("VERTEX TABLES (Person KEY (id) PROPERTIES (email AS id))", "id", "duplicate-name"),
        (
            "VERTEX TABLES (Person KEY (id) PROPERTIES ALL COLUMNS LABEL a PROPERTIES (email AS firstName))",
            "firstName",
            "duplicate-name",
        ),
        ("VERTEX TABLES (Person KEY (id) PROPERTIES (id + 1 AS next))", "+", "unexpected-word"),
        ("VERTEX TABLES (Person KEY (id) PROPERTIES ('a' AS kind))", "'a'", "unexpected-word"),
        (f"VERTEX TABLES (Person) EDGE TABLES ({KNOWN} PROPERTIES (creationDate AS e_id))", "e_id", "reserved-name"),
        (
            f"VERTEX TABLES (Person) EDGE TABLES ({KNOWN.replace(' SOURCE', ' KEY (no) SOURCE')})",
            "no",
            "unknown-column",
        ),
    ],
)
def test_what_a_graph_lacks_is_told_with_its_remedy(social: Database, body: str, place: str, code: str) -> None:
    with refused(code, at=place):
        social.execute(f"CREATE PROPERTY GRAPH g {body}")
