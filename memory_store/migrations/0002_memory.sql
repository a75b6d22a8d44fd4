-- What the complete memory needs: expiry that deletes, search by words, models with their dimension, and knowing when a
-- deleted text still lies in the files.

create index entries_expiry on memory.entries (subject, expires_at) where expires_at is not null;

-- A model's vectors all have one dimension; a second one would be another model.
create table memory.models (
    model text primary key,
    dimension integer not null check (dimension > 0),
    first_used_at timestamptz not null default now()
);
grant select, insert on memory.models to recall_memory;
grant select, insert, delete on memory.models to recall_maintenance;

-- Days on which a text was deleted or replaced and may still lie in free space; a scrub empties it.
create table memory.scrub_due (day date primary key);
grant select, insert on memory.scrub_due to recall_memory;
grant select, insert, delete on memory.scrub_due to recall_maintenance;

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

-- Lower case, without diacritics: how words are compared in a search.
create function memory.plain(text) returns text language sql immutable parallel safe
    return translate(regexp_replace(normalize(lower($1), nfd), '[\u0300-\u036f]', '', 'g'), 'đłøı', 'dloi');

-- The subject is read once a statement, not once a row.
alter policy own_entries on memory.entries
    using (subject = (select current_setting('recall.subject', true)))
    with check (subject = (select current_setting('recall.subject', true)));
alter policy own_vectors on memory.entry_vectors
    using (subject = (select current_setting('recall.subject', true)))
    with check (subject = (select current_setting('recall.subject', true)));

-- Rewriting the tables is the maintenance role's work.
grant maintain on memory.entries, memory.entry_vectors to recall_maintenance;
