-- Times are microseconds since 1970-01-01 UTC: datetime(x / 1000000, 'unixepoch').

-- Queues this database has heard of. The id is a hash of the name with its low
-- twelve bits clear, so that producers compute it instead of looking it up.
CREATE TABLE IF NOT EXISTS outbox_queue (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    partitions INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

-- Partitions and the last sequence number given in each; id = queue id + number.
CREATE TABLE IF NOT EXISTS outbox_partition (
    id INTEGER PRIMARY KEY,
    queue_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    sequence INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Who reads a queue. event_types is a JSON array: every type any version handled.
CREATE TABLE IF NOT EXISTS outbox_consumer (
    queue_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    mode TEXT NOT NULL,
    event_types TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (queue_id, name)
) STRICT, WITHOUT ROWID;

-- What was enqueued: written once, never moved. slot is that of the key, or 16384 + a
-- partition chosen by hand. nonce is random: after a restore an id may be given to another
-- message, id and nonce together are not. headers is a JSON object, or null or empty; target
-- names the only consumer to handle the message, null or empty means every one.
-- AUTOINCREMENT: an id names a message for ever, also after the row is deleted.
CREATE TABLE IF NOT EXISTS outbox_body (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    key BLOB NOT NULL,
    payload BLOB NOT NULL,
    headers TEXT,
    target TEXT
) STRICT;

-- Enqueued and not yet sequenced; id and slot are those of outbox_body.
CREATE TABLE IF NOT EXISTS outbox_incoming (
    queue_id INTEGER NOT NULL,
    id INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    PRIMARY KEY (queue_id, id)
) STRICT, WITHOUT ROWID;

-- The log of each partition: seq without gaps; id = outbox_body.id.
CREATE TABLE IF NOT EXISTS outbox_outgoing (
    partition_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (partition_id, seq)
) STRICT, WITHOUT ROWID;

-- How far a consumer is in a partition, and who holds the lease; lease_ms is its length.
CREATE TABLE IF NOT EXISTS outbox_cursor (
    partition_id INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    processed_seq INTEGER NOT NULL DEFAULT 0,
    claimed_seq INTEGER NOT NULL DEFAULT 0,
    lease_epoch INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER,
    lease_ms INTEGER,
    lease_owner TEXT,
    PRIMARY KEY (partition_id, consumer)
) STRICT, WITHOUT ROWID;

-- Messages that did not simply succeed and that the cursor has not passed. failures: their
-- handler returned an error. deaths: it never returned. done: it succeeded ahead of the cursor.
CREATE TABLE IF NOT EXISTS outbox_attempt (
    partition_id INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    seq INTEGER NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    deaths INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    first_failed_at INTEGER,
    not_before INTEGER NOT NULL,
    last_error TEXT,
    PRIMARY KEY (partition_id, consumer, seq)
) STRICT, WITHOUT ROWID;

-- Messages that could not succeed, with everything needed to try them again.
-- claimed_by names the claim of one that is being reprocessed, until its deadline.
CREATE TABLE IF NOT EXISTS outbox_dead_letter (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    partition INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    seq INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    key BLOB NOT NULL,
    payload BLOB NOT NULL,
    headers TEXT,
    enqueued_at INTEGER NOT NULL,
    failed_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    reason TEXT NOT NULL,
    status TEXT NOT NULL,
    deadline INTEGER,
    claimed_by TEXT,
    completed_at INTEGER,
    requeued_as INTEGER,
    slot INTEGER NOT NULL,
    nonce INTEGER NOT NULL
) STRICT;

-- The next pending ones, in order, however many are settled.
CREATE INDEX IF NOT EXISTS outbox_dead_letter_status ON outbox_dead_letter (status, id);

-- Those settled long ago.
CREATE INDEX IF NOT EXISTS outbox_dead_letter_completed_at ON outbox_dead_letter (completed_at)
    WHERE completed_at IS NOT NULL;
