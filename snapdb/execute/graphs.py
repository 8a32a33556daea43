"""The operator of CREATE PROPERTY GRAPH: assigns ids to keys, checks the data, and inserts the definition."""

from snapdb.builders.edges import DenseEdges, edge_rows
from snapdb.builders.graph_data import check_vertices, graph_data
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.plan.graphs import CreateGraphPlan
from snapdb.storage.arrays.feature_types import check_features
from snapdb.storage.catalog_db.codec import encode
from snapdb.storage.tables.commit import check_free, now, require_table
from snapdb.types.text import counted


def create_graph(plan: CreateGraphPlan, context: ExecutionContext) -> Rows:
    """Run CREATE PROPERTY GRAPH: check the current data, and insert the graph definition.

    Data that is added later is checked when a snapshot includes it.
    """
    yield from ()
    graph = plan.graph
    with context.store.sql_engine.session() as session:
        data = graph_data(context, session, graph, context.catalog.tables)
        for vertex in data.vertices.values():
            with context.watching(session, f"checking the rows of {vertex.rows.element.name}"):
                check_vertices(session, vertex)
        for edge in data.edges.values():
            context.report(f"checking the rows of {edge.rows.element.name}", None)
            # Iterating over the edges checks them. Their ids are not needed until a snapshot is built.
            for _ in DenseEdges(session, edge, edge_rows(edge)):
                context.check_stopped()
            check_features(session, edge.features, edge.rows.element.features)
    with context.store.catalog_db.writing(publishes=True) as connection:
        replaced = "DELETE FROM graphs WHERE folded = ? RETURNING retention"
        gone = connection.execute(replaced, (graph.name.lower(),)).fetchone() if plan.replaces else None
        check_free(connection, graph.name)
        for table in (context.catalog.tables[name.lower()] for name in graph.tables):
            require_table(connection, table.id)
        retention = None if gone is None else gone["retention"]
        row = (graph.name, graph.name.lower(), encode(graph), now(), retention)
        connection.execute("INSERT INTO graphs VALUES (?, ?, ?, ?, ?)", row)
    vertices, edges = counted(len(graph.vertices), "vertex type"), counted(len(graph.edges), "edge type")
    return Outcome(f"graph {graph.name}: {vertices}, {edges}")
