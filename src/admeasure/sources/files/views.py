"""What a view of a DuckDB file may do: give the same rows whenever it is read.

A view is a query that runs at every scan. Rows that depend on chance, on the clock, on the order in
which DuckDB happens to read, or on anything outside the file would make counts of one run differ
among themselves, and rows kept of one unit depend on the rows of others. So the query, and those of
the views it reads, is parsed and compared with a list of what is known to be a function of the
stored rows alone; whatever is not on the list is refused. The same holds for computed columns of a
table. A table that was written from the refused view (`CREATE TABLE … AS`) is fixed, and is read.

No row is looked at here. Messages name the construct, which is part of a query and not of a table,
but never a constant of it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import duckdb

from admeasure.schema.values import quoted
from admeasure.sources.kind import NotFixed, refusal

_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE"}
_TABLES = {"BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "EMPTY_FROM", "EXPRESSION_LIST"}
_MODIFIERS = {"DISTINCT_MODIFIER", "ORDER_MODIFIER"}
_EXPRESSIONS = {
    "BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION",
    "OPERATOR", "STAR", "SUBQUERY", "TYPE",
}  # fmt: skip
_JOINS = {"REGULAR", "NATURAL", "CROSS", "DEPENDENT"}
_SUBQUERIES = {"ANY", "EXISTS", "NOT_EXISTS"}
_NOT_COLUMNS = """
rowid current_catalog current_database current_date current_role current_schema current_time
current_timestamp current_user localtime localtimestamp session_user user
"""
"""Names that mean something else where no column has them."""
_FUNCTIONS = """
+ - * / // % || ~~ !~~ ~~* !~~* abs ceil ceiling floor round trunc sign mod least greatest
concat concat_ws lower upper trim ltrim rtrim left right substring substr length strlen lpad
rpad replace reverse contains starts_with ends_with prefix suffix position instr split_part
regexp_matches regexp_full_match regexp_replace regexp_extract like_escape not_like_escape md5
sha256 coalesce ifnull nullif if date_part date_trunc datepart datetrunc date_diff datediff year
month day hour minute second quarter week dayofweek dayofyear isodow make_date strftime strptime
try_strptime epoch count count_star min max bool_and bool_or
"""
"""Functions of their arguments, and aggregates that no order and no rounding changes."""


def check_fixed(
    connection: duckdb.DuckDBPyConnection, database: str, schema: str, name: str
) -> None:
    """Raises a `DataError` unless a table or view gives the same rows at every scan."""
    try:
        _Check(connection, database).relation(_key(schema, name))
    except NotFixed as found:
        raise refusal(quoted(name), found) from None


class _Check:
    """Of one file, by lower-case names `schema.name`: the queries of views, the definitions of
    tables and of their computed columns, and the names of its own functions."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, database: str) -> None:
        self.connection = connection

        def rows(columns: str, function: str, where: str = "") -> list[Any]:
            query = f"SELECT {columns} FROM {function}() WHERE database_name = ?{where}"
            return connection.execute(query, [database]).fetchall()

        views = rows("schema_name, view_name, sql", "duckdb_views", " AND NOT internal")
        tables = rows("schema_name, table_name, sql", "duckdb_tables")
        self.views = {_key(schema, name): sql for schema, name, sql in views}
        self.tables = {_key(schema, name): sql for schema, name, sql in tables}
        self.defaults: dict[str, list[str]] = {}
        given = " AND column_default IS NOT NULL"
        for schema, name, default in rows(
            "schema_name, table_name, column_default", "duckdb_columns", given
        ):
            self.defaults.setdefault(_key(schema, name), []).append(default)
        functions = rows("DISTINCT function_name", "duckdb_functions")
        self.functions = frozenset(name.lower() for (name,) in functions)

    def relation(self, key: str, *, under: tuple[str, ...] = ()) -> None:
        if key in under:
            raise NotFixed("it reads itself")
        if key in self.tables:
            words = {word for word, _ in _words(self.tables[key])}
            if under and "COLLATE" in words:
                raise NotFixed(
                    "it reads texts with a collation, of which any spelling may be taken"
                )
            if "GENERATED" in words:
                for expression in self.defaults.get(key, ()):
                    self._query(f"SELECT {expression}", key, (*under, key))
            return
        if key not in self.views:
            raise NotFixed("it reads what is no table of the file")
        self._query(_body(self.views[key]), key, (*under, key))

    def _query(self, sql: str, key: str, under: tuple[str, ...]) -> None:
        answer = self.connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]
        parsed = json.loads(answer)
        if parsed.get("error") or len(parsed["statements"]) != 1:
            raise NotFixed("its query cannot be parsed")
        found = list(_dicts(parsed["statements"][0]["node"]))
        named = {
            entry["key"].lower()
            for one in found
            for entry in (one.get("cte_map") or {}).get("map", ())
        }
        for one in found:
            self._one(one)
            if one.get("type") == "BASE_TABLE":
                self._table(one, key.partition(".")[0], named, under)

    def _table(self, one: dict, schema: str, named: set[str], under: tuple[str, ...]) -> None:
        name, own = one["table_name"], one["schema_name"]
        if one.get("catalog_name") or one.get("at_clause"):
            raise NotFixed("it reads what is no table of the file")
        if not own and name.lower() in named:
            return
        candidates = [_key(s, name) for s in ([own] if own else [schema, "main"])]
        known = [c for c in candidates if c in self.tables or c in self.views]
        if not known:
            raise NotFixed("it reads what is no table of the file")
        for found in dict.fromkeys(known):  # whichever DuckDB takes
            self.relation(found, under=under)

    def _one(self, one: dict) -> None:
        if one.get("sample"):
            raise NotFixed("it draws a sample")
        kind = one.get("type")
        if "class" in one:
            self._expression(one)
        elif isinstance(kind, str) and ("modifiers" in one or kind.endswith("_NODE")):
            if kind not in _NODES:
                raise NotFixed("it is recursive or of another unknown form")
        elif isinstance(kind, str) and kind.endswith("_MODIFIER"):
            if kind not in _MODIFIERS:
                raise NotFixed("it has a LIMIT")
            if one.get("distinct_on_targets"):
                raise NotFixed("it has DISTINCT ON")
        elif "alias" in one and "query_location" in one and kind not in _TABLES:
            raise NotFixed("it calls a table function, a PIVOT or another unknown form")
        elif kind == "JOIN" and one.get("ref_type") not in _JOINS:
            raise NotFixed("it joins by position or by the nearest value")

    def _expression(self, one: dict) -> None:
        match one["class"]:
            case "WINDOW":
                raise NotFixed("it has a window function")
            case "FUNCTION":
                name = str(one.get("function_name", "")).lower()
                elsewhere = one.get("schema") or one.get("catalog")
                if name not in _FUNCTIONS.split() or name in self.functions or elsewhere:
                    raise NotFixed(f"it calls {quoted(name)}, which is not on the list")
            case "SUBQUERY" if one.get("subquery_type") not in _SUBQUERIES:
                raise NotFixed("it takes a single value from a subquery")
            case "COLUMN_REF" if one["column_names"][-1].lower() in _NOT_COLUMNS.split():
                raise NotFixed("it reads the place of a row, the clock or the session")
            case kind if kind not in _EXPRESSIONS:
                raise NotFixed("it has an expression that is not on the list")


def _key(schema: str, name: str) -> str:
    return f"{schema}.{name}".lower()


def _dicts(tree: Any) -> Iterator[dict]:
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for one in tree:
            yield from _dicts(one)


def _body(sql: str) -> str:
    """The query of CREATE VIEW name (columns) AS query."""
    depth = 0
    for word, rest in _words(sql):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word == "AS":
            return rest.strip().removesuffix(";")
    raise NotFixed("its query cannot be parsed")


def _words(sql: str) -> Iterator[tuple[str, str]]:
    """Keywords and signs of a query, each with what follows; names in quotes are neither."""
    encoded = sql.encode()
    tokens = [*duckdb.tokenize(sql), (len(encoded), None)]  # by bytes
    for (start, kind), (end, _) in itertools.pairwise(tokens):
        if kind in (duckdb.token_type.keyword, duckdb.token_type.operator):
            yield encoded[start:end].decode().strip().upper(), encoded[end:].decode()
