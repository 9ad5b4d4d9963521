-- The tables of a kestrelpy fleet, version 3. A DBA may read this and run it by hand, as a role that
-- may create a schema in the database; it may be run again, and it makes version 3 of older ones.
-- The daemon's role needs, and needs no more than:
--     GRANT USAGE ON SCHEMA kestrelpy TO kestrel;
--     GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA kestrelpy TO kestrel;

BEGIN;

CREATE SCHEMA IF NOT EXISTS kestrelpy;

CREATE TABLE IF NOT EXISTS kestrelpy.version (
    number int PRIMARY KEY
);
DO $$ BEGIN
    IF EXISTS (SELECT FROM kestrelpy.version WHERE number > 3) THEN
        RAISE EXCEPTION 'these tables are of a newer kestrelpy';
    END IF;
END $$;
DELETE FROM kestrelpy.version;
INSERT INTO kestrelpy.version VALUES (3);

-- A slice is a data directory. Each commit of its owner changes its row: there the epoch is checked.
CREATE TABLE IF NOT EXISTS kestrelpy.slice (
    id       int PRIMARY KEY,
    epoch    bigint NOT NULL,                 -- of the last claim
    seq      bigint NOT NULL,                 -- of the next commit
    member   text NOT NULL,                   -- who claimed it last
    address  text NOT NULL,                   -- where others reach it
    beat     timestamptz NOT NULL,            -- of the last commit
    released boolean NOT NULL DEFAULT false   -- given up: others need not wait
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- The epoch whose owner was asked to give the slice up.
ALTER TABLE kestrelpy.slice ADD COLUMN IF NOT EXISTS asked bigint NOT NULL DEFAULT 0;
-- A data directory is being moved in: until that is done, no daemon owns the slice.
ALTER TABLE kestrelpy.slice ADD COLUMN IF NOT EXISTS importing boolean NOT NULL DEFAULT false;

-- Each process that may own slices says now and then that it is there.
CREATE TABLE IF NOT EXISTS kestrelpy.member (
    name     text NOT NULL,
    address  text NOT NULL,                   -- where others reach it
    takeover float8 NOT NULL,                 -- seconds: its setting
    beat     timestamptz NOT NULL,
    PRIMARY KEY (name, address)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- An operator wants this member to own no slice.
ALTER TABLE kestrelpy.member ADD COLUMN IF NOT EXISTS drained boolean NOT NULL DEFAULT false;
-- The slices that it is ready to take over.
ALTER TABLE kestrelpy.member ADD COLUMN IF NOT EXISTS waits int[] NOT NULL DEFAULT '{}';

-- How many slices the queues are spread over, and in which groups: said once, by the first member.
CREATE TABLE IF NOT EXISTS kestrelpy.fleet (
    id     int PRIMARY KEY CHECK (id = 1),
    slices int NOT NULL,
    groups text NOT NULL                      -- patterns, with blanks between them
);
-- Before version 3 there was one slice.
INSERT INTO kestrelpy.fleet SELECT 1, 1, '' WHERE EXISTS (SELECT FROM kestrelpy.slice)
ON CONFLICT (id) DO NOTHING;

-- The last claims of each slice that came to serve, for operators.
CREATE TABLE IF NOT EXISTS kestrelpy.takeover (
    slice   int NOT NULL,
    epoch   bigint NOT NULL,
    member  text NOT NULL,                    -- who took it over
    address text NOT NULL,
    before  text NOT NULL,                    -- who owned it before; '': nobody
    why     text NOT NULL,                    -- first, released or silent
    idle    float8 NOT NULL,                  -- seconds since the last commit of that one
    took    float8 NOT NULL,                  -- seconds from the claim until it served
    at      timestamptz NOT NULL,
    PRIMARY KEY (slice, epoch)
);

CREATE TABLE IF NOT EXISTS kestrelpy.file (
    slice int NOT NULL,
    id    bigint NOT NULL,
    path  text NOT NULL,
    size  bigint NOT NULL,                    -- at its creation; extents may reach further
    PRIMARY KEY (slice, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The bytes of a file; where two extents overlap, the later one counts. Bytes that no extent has are
-- zeros. An extent has at most 8,000 bytes and lies in the row itself, which was measured to be up
-- to twice as fast as one large value.
CREATE TABLE IF NOT EXISTS kestrelpy.extent (
    slice int NOT NULL,
    file  bigint NOT NULL,
    pos   bigint NOT NULL,                    -- the offset of its first byte
    seq   bigint NOT NULL,                    -- of its commit
    n     int NOT NULL,                       -- its place in that commit
    data  bytea NOT NULL,
    PRIMARY KEY (slice, file, pos, seq, n)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0);
ALTER TABLE kestrelpy.extent ALTER COLUMN data SET STORAGE PLAIN;

COMMIT;
