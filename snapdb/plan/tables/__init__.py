"""Tables: CREATE TABLE, INSERT, UPDATE, DELETE, MERGE, TRUNCATE and ALTER TABLE."""

from snapdb.plan.plan import PlanFamily
from snapdb.plan.tables.definitions import bind_alter, bind_create_table
from snapdb.plan.tables.plans import AlterPlan, CreateTablePlan, DeletePlan, InsertPlan, MergePlan, UpdatePlan
from snapdb.plan.tables.temporary import TemporaryPlan, bind_create_temporary, or_temporary
from snapdb.plan.tables.writes import bind_delete, bind_insert, bind_merge_into, bind_truncate, bind_update
from snapdb.sql.tables import AlterTable, CreateTable, Delete, Insert, Merge, Truncate, Update

FAMILY = PlanFamily(
    binders={
        CreateTable: lambda statement, context: (bind_create_temporary if statement.temporary else bind_create_table)(
            statement, context
        ),
        Insert: or_temporary(bind_insert),
        Delete: or_temporary(bind_delete),
        Update: or_temporary(bind_update),
        Merge: or_temporary(bind_merge_into),
        Truncate: or_temporary(bind_truncate),
        AlterTable: or_temporary(bind_alter),
    },
    operators={
        CreateTablePlan: "snapdb.execute.tables.operators:create_table",
        InsertPlan: "snapdb.execute.tables.operators:insert",
        DeletePlan: "snapdb.execute.tables.operators:delete",
        MergePlan: "snapdb.execute.tables.merging:merge",
        UpdatePlan: "snapdb.execute.tables.operators:update",
        AlterPlan: "snapdb.execute.tables.operators:alter_table",
        TemporaryPlan: "snapdb.execute.tables.temporary:change_temporary",
    },
)
