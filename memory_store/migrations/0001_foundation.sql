-- Two schemas, no service role reads the other's and none owns a table. Roles are made by bootstrap, since they belong
-- to the cluster and carry passwords.

create schema memory;
create schema ledger;
grant usage on schema memory to recall_memory, recall_maintenance;
grant usage on schema ledger to recall_ledger, recall_maintenance;

-- One thing remembered. Rows of a subject lie together under the primary key. Statistics are off where ANALYZE would
-- copy a person's words into the catalogue.
create table memory.entries (
    subject text not null check (subject <> ''),  -- a connection that acts for nobody has the empty subject
    id text not null,
    kind text not null check (kind in ('fact', 'preference', 'episode')),
    text text not null check (char_length(text) between 1 and 500),
    folded_sha256 bytea not null,
    source jsonb not null,
    language text,
    version integer not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    expires_at timestamptz,
    primary key (subject, id),
    unique (subject, folded_sha256)
);
alter table memory.entries alter column text set statistics 0;
alter table memory.entries alter column source set statistics 0;
alter table memory.entries alter column folded_sha256 set statistics 0;

-- Vectors stand apart from texts, so that two models and several vectors of one entry can coexist. The dimension is the
-- model's, hence no type modifier. PLAIN: a scan does not detoast.
create table memory.entry_vectors (
    subject text not null,
    model text not null,
    entry text not null,
    ordinal smallint not null default 0,
    vector halfvec not null,
    primary key (subject, model, entry, ordinal),
    foreign key (subject, entry) references memory.entries (subject, id) on delete cascade
);
alter table memory.entry_vectors alter column vector set storage plain;
alter table memory.entry_vectors alter column vector set statistics 0;
create index entry_vectors_entry on memory.entry_vectors (subject, entry);

alter table memory.entries enable row level security;
alter table memory.entries force row level security;
alter table memory.entry_vectors enable row level security;
alter table memory.entry_vectors force row level security;
create policy own_entries on memory.entries to recall_memory
    using (subject = current_setting('recall.subject', true))
    with check (subject = current_setting('recall.subject', true));
create policy own_vectors on memory.entry_vectors to recall_memory
    using (subject = current_setting('recall.subject', true))
    with check (subject = current_setting('recall.subject', true));
create policy every_entry on memory.entries to recall_maintenance using (true) with check (true);
create policy every_vector on memory.entry_vectors to recall_maintenance using (true) with check (true);
grant select, insert, update, delete on memory.entries, memory.entry_vectors to recall_memory, recall_maintenance;

-- A key is stored as its SHA-256: it has 256 random bits, so a slow hash would only slow every request.
create table ledger.keys (
    id text primary key,
    name text not null,
    subject text not null,
    secret_sha256 bytea not null unique,
    rights text[] not null,
    limits jsonb not null default '{}',
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

-- A reservation that outlives `expires_at` was left behind by a crash; the sweeper charges it in full.
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

-- Turns under way, for the limit on parallel turns. A crashed one stops counting at `expires_at`.
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
    answer_hmac bytea,
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
    host text,
    page_bytes integer
);
create index tool_calls_subject on ledger.tool_calls (subject, started_at desc);

grant select, insert, update, delete on all tables in schema ledger to recall_ledger;
grant select, update, delete on ledger.days, ledger.reservations, ledger.turns, ledger.minutes, ledger.generations,
    ledger.tool_calls to recall_maintenance;
