"""What Postgres itself says of a database, as lines of text that can be compared."""

from __future__ import annotations

import asyncpg

_OURS = "n.nspname in ('memory', 'ledger', 'public')"
_NOT_FROM_AN_EXTENSION = "not exists (select 1 from pg_depend x where x.objid = {0} and x.deptype = 'e')"
_GRANTS = (
    "(select string_agg(g.grantee::regrole || '=' || g.privilege_type || g.is_grantable, ' ' order by 1)"
    " from aclexplode({0}) g)"
)

# Each statement gives rows; a row says all that matters of one thing, beginning with its name.
STATEMENTS = {
    "schema": f"""
        select n.nspname, n.nspowner::regrole, {_GRANTS.format("n.nspacl")} from pg_namespace n where {_OURS}""",
    "table": f"""
        select c.oid::regclass, c.relkind, c.relowner::regrole, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity,
            c.relreplident, c.reloptions, {_GRANTS.format("c.relacl")}
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where {_OURS} and c.relkind <> 'i'""",
    "column": f"""
        select c.oid::regclass, row_number() over (partition by c.oid order by a.attnum), a.attname,
            format_type(a.atttypid, a.atttypmod), a.attnotnull,
            pg_get_expr(d.adbin, d.adrelid), a.attstorage, a.attcompression, a.attstattarget, a.attidentity,
            a.attgenerated, a.attcollation::regcollation, {_GRANTS.format("a.attacl")}
        from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where {_OURS} and c.relkind <> 'i' and a.attnum > 0 and not a.attisdropped""",
    "constraint": f"""
        select o.conrelid::regclass, o.conname, o.contype, o.convalidated, o.condeferrable, pg_get_constraintdef(o.oid)
        from pg_constraint o join pg_namespace n on n.oid = o.connamespace
        where {_OURS} and {_NOT_FROM_AN_EXTENSION.format("o.oid")}""",
    "index": f"""
        select pg_get_indexdef(i.indexrelid), i.indisvalid, i.indisclustered, i.indisreplident, c.reloptions
        from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
        where {_OURS}""",
    "policy": """
        select p.polrelid::regclass, p.polname, p.polcmd, p.polpermissive, p.polroles::regrole[],
            pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)
        from pg_policy p""",
    "function": f"""
        select p.oid::regprocedure, p.proowner::regrole, p.prosecdef, {_GRANTS.format("p.proacl")}, p.prosrc
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where {_OURS} and {_NOT_FROM_AN_EXTENSION.format("p.oid")}""",
    "trigger": """
        select t.tgrelid::regclass, t.tgenabled, pg_get_triggerdef(t.oid) from pg_trigger t where not t.tgisinternal""",
    "type": f"""
        select t.oid::regtype, t.typtype, t.typowner::regrole, {_GRANTS.format("t.typacl")}
        from pg_type t join pg_namespace n on n.oid = t.typnamespace
        where {_OURS} and {_NOT_FROM_AN_EXTENSION.format("t.oid")} and t.typelem = 0 and t.typrelid = 0""",
    "statistics": "select s.stxname, pg_get_statisticsobjdef(s.oid) from pg_statistic_ext s",
    "default grants": f"""
        select d.defaclrole::regrole, d.defaclnamespace::regnamespace, d.defaclobjtype, {_GRANTS.format("d.defaclacl")}
        from pg_default_acl d""",
    "extension": "select e.extname, e.extversion, e.extnamespace::regnamespace from pg_extension e",
}


async def describe(connection: asyncpg.Connection[asyncpg.Record]) -> set[str]:
    """Schemas, tables, columns, constraints, indexes, policies, row security, grants, storage, statistics targets."""
    return {
        f"{kind}: {row['line']}"
        for kind, statement in STATEMENTS.items()
        for row in await connection.fetch(f"select one::text as line from ({statement}) one")
    }
