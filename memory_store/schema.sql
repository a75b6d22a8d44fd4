-- The database as it is today, in one readable file. It is run by nobody: databases are made by `migrations/`, and
-- `tests/store/test_migrations.py` proves that both give the same one. Roles, the extension `vector` and the table
-- `public.migrations` come before it, by `bootstrap.py` and `migrate.py`.
--
--   recall_owner        owns all of this and runs migrations; row security holds for it too
--   recall_memory       the memory service: schema `memory`, rows of the subject it acts as
--   recall_ledger       the ingress: schema `ledger`
--   recall_maintenance  sweeps both, re-embeds, rewrites tables


-- Schema memory: what people keep ---------------------------------------------------------------------------------

create schema memory;
grant usage on schema memory to recall_memory, recall_maintenance;

-- One thing remembered. Statistics are off where ANALYZE would copy a person's words into the catalogue.
create table memory.entries (
    subject text not null check (subject <> ''),  -- a connection that acts for nobody has the empty subject
    id text not null,  -- `m_` and hex digits that sort by time
    kind text not null check (kind in ('fact', 'preference', 'episode')),
    text text not null check (char_length(text) between 1 and 500),
    folded_sha256 bytea not null,  -- equal for texts that differ in case, spacing and punctuation alone
    source jsonb not null,  -- {"by": "person" | "agent" | "session", "ref": …}
    language text,
    version integer not null default 1,  -- moves on with each correction
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    expires_at timestamptz,
    primary key (subject, id),
    unique (subject, folded_sha256)
);
create index entries_expiry on memory.entries (subject, expires_at) where expires_at is not null;
alter table memory.entries
    alter column text set statistics 0,
    alter column source set statistics 0,
    alter column folded_sha256 set statistics 0;

-- The vectors of an entry, by the model that made them. The dimension is the model's, hence no type modifier.
create table memory.entry_vectors (
    subject text not null,
    model text not null,
    entry text not null,
    ordinal smallint not null default 0,
    vector halfvec not null,
    primary key (subject, model, entry, ordinal),
    foreign key (subject, entry) references memory.entries (subject, id) on delete cascade
);
alter table memory.entry_vectors
    alter column vector set storage plain,  -- a scan does not detoast
    alter column vector set statistics 0;
create index entry_vectors_entry on memory.entry_vectors (subject, entry);

-- The dimension of each model that made vectors.
create table memory.models (
    model text primary key,
    dimension integer not null check (dimension > 0),
    first_used_at timestamptz not null default now()
);

-- Days on which a text was deleted or replaced and may still lie in free space; a scrub empties it.
create table memory.scrub_due (day date primary key);
create function memory.mark_scrub_due() returns trigger language plpgsql as $$
begin
    if exists (select 1 from gone) then
        insert into memory.scrub_due (day) values ((now() at time zone 'utc')::date) on conflict do nothing;
    end if;
    return null;
end
$$;
create trigger deleted after delete on memory.entries
    referencing old table as gone for each statement execute function memory.mark_scrub_due();
create trigger replaced after update on memory.entries
    referencing old table as gone for each statement execute function memory.mark_scrub_due();

-- How words are compared in a search: lower case, without diacritics.
create function memory.plain(text) returns text language sql immutable parallel safe
    return translate(regexp_replace(normalize(lower($1), nfd), '[\u0300-\u036f]', '', 'g'), 'đłøı', 'dloi');

grant select, insert, update, delete on memory.entries, memory.entry_vectors to recall_memory, recall_maintenance;
grant select, insert on memory.models, memory.scrub_due to recall_memory;
grant select, insert, delete on memory.models, memory.scrub_due to recall_maintenance;
grant maintain on memory.entries, memory.entry_vectors to recall_maintenance;

-- The second wall: a transaction that does not say whom it acts for sees nothing. The subject is read once a statement.
alter table memory.entries enable row level security, force row level security;
alter table memory.entry_vectors enable row level security, force row level security;
create policy own_entries on memory.entries to recall_memory
    using (subject = (select current_setting('recall.subject', true)))
    with check (subject = (select current_setting('recall.subject', true)));
create policy own_vectors on memory.entry_vectors to recall_memory
    using (subject = (select current_setting('recall.subject', true)))
    with check (subject = (select current_setting('recall.subject', true)));
create policy every_entry on memory.entries to recall_maintenance using (true) with check (true);
create policy every_vector on memory.entry_vectors to recall_maintenance using (true) with check (true);


-- Schema ledger: who may call, what it costs, what happened -------------------------------------------------------

create schema ledger;
grant usage on schema ledger to recall_ledger, recall_maintenance;

-- API keys, as digests.
create table ledger.keys (
    id text primary key,
    name text not null,
    subject text not null,
    secret_sha256 bytea not null unique,
    rights text[] not null,
    limits jsonb not null default '{}',  -- those that differ from the profile's
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz
);

-- What a subject used and has reserved of a resource on a UTC day.
create table ledger.days (
    subject text not null,
    resource text not null check (resource in ('tokens', 'runs', 'pages')),
    day date not null,
    used bigint not null default 0 check (used >= 0),
    reserved bigint not null default 0 check (reserved >= 0),
    primary key (subject, resource, day)
);

-- Work under way. What outlives `expires_at` was left behind by a crash and is charged in full by the sweeper.
create table ledger.reservations (
    id text primary key,
    subject text not null,
    resource text not null,
    day date not null,
    amount bigint not null check (amount >= 0),
    expires_at timestamptz not null,
    foreign key (subject, resource, day) references ledger.days (subject, resource, day)
);
create index reservations_expiry on ledger.reservations (expires_at);

-- Turns under way, for the limit on parallel turns.
create table ledger.turns (
    id text primary key,
    subject text not null,
    expires_at timestamptz not null
);
create index turns_subject on ledger.turns (subject, expires_at);

-- Requests of a subject in a minute.
create table ledger.minutes (
    subject text not null,
    minute timestamptz not null,
    requests integer not null,
    primary key (subject, minute)
);

-- The record of a turn: never any text.
create table ledger.generations (
    id text primary key,
    subject text not null,
    agent text,
    tier text not null,
    model text not null,
    started_at timestamptz not null,
    ended_at timestamptz not null,
    prompt_tokens bigint not null,
    completion_tokens bigint not null,
    cached_tokens bigint not null,
    embedding_tokens bigint not null,
    steps integer not null,
    tools text[] not null,
    stop_reason text,
    outcome text not null check (outcome in ('completed', 'cancelled', 'failed')),
    answer_hmac bytea,  -- keyed, to know the answer again when a client sends it back
    tainted boolean not null
);
create index generations_subject on ledger.generations (subject, started_at desc, id desc);
create index generations_answer on ledger.generations (subject, answer_hmac) where answer_hmac is not null;

-- The audit log of tool calls, the same for every door.
create table ledger.tool_calls (
    id text primary key,
    subject text not null,
    generation text,
    door text not null check (door in ('loop', 'http', 'mcp')),
    tool text not null,
    status text not null check (status in ('done', 'failed', 'refused', 'timed_out')),
    started_at timestamptz not null,
    elapsed_ms integer not null,
    bytes_in integer not null,
    bytes_out integer not null,
    host text,  -- of a page
    page_bytes integer
);
create index tool_calls_subject on ledger.tool_calls (subject, started_at desc);

grant select, insert, update, delete on all tables in schema ledger to recall_ledger;
grant select, update, delete on ledger.days, ledger.reservations, ledger.turns, ledger.minutes, ledger.generations,
    ledger.tool_calls to recall_maintenance;
