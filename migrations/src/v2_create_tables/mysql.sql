-- Queues this database has heard of. The id is a hash of the name with its low
-- twelve bits clear, so that producers compute it instead of looking it up.
CREATE TABLE IF NOT EXISTS outbox_queue (
    id BIGINT NOT NULL,
    name VARCHAR(128) NOT NULL,
    partitions SMALLINT NOT NULL,
    paused BOOLEAN NOT NULL DEFAULT FALSE,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Partitions and the last sequence number given in each; id = queue id + number.
CREATE TABLE IF NOT EXISTS outbox_partition (
    id BIGINT NOT NULL,
    queue_id BIGINT NOT NULL,
    number SMALLINT NOT NULL,
    sequence BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Who reads a queue. event_types is a JSON array: every type any version handled.
CREATE TABLE IF NOT EXISTS outbox_consumer (
    queue_id BIGINT NOT NULL,
    name VARCHAR(128) NOT NULL,
    mode VARCHAR(16) NOT NULL,
    event_types MEDIUMTEXT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    seen_at DATETIME(6) NOT NULL,
    PRIMARY KEY (queue_id, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What was enqueued: written once, never moved. slot is that of the key, or 16384 + a
-- partition chosen by hand. nonce is random: after a restore an id may be given to another
-- message, id and nonce together are not. headers is a JSON object, or null or empty; target
-- names the only consumer to handle the message, null or empty means every one.
CREATE TABLE IF NOT EXISTS outbox_body (
    id BIGINT NOT NULL AUTO_INCREMENT,
    queue_id BIGINT NOT NULL,
    enqueued_at DATETIME(6) NOT NULL,
    nonce BIGINT NOT NULL,
    slot SMALLINT NOT NULL,
    event_type VARCHAR(128) NOT NULL,
    `key` VARBINARY(1024) NOT NULL,
    payload LONGBLOB NOT NULL,
    headers MEDIUMTEXT,
    target VARCHAR(128),
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Enqueued and not yet sequenced; id and slot are those of outbox_body.
CREATE TABLE IF NOT EXISTS outbox_incoming (
    queue_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    slot SMALLINT NOT NULL,
    PRIMARY KEY (queue_id, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The log of each partition: seq without gaps; id = outbox_body.id.
CREATE TABLE IF NOT EXISTS outbox_outgoing (
    partition_id BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (partition_id, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- How far a consumer is in a partition, and who holds the lease; lease_ms is its length.
CREATE TABLE IF NOT EXISTS outbox_cursor (
    partition_id BIGINT NOT NULL,
    consumer VARCHAR(128) NOT NULL,
    processed_seq BIGINT NOT NULL DEFAULT 0,
    claimed_seq BIGINT NOT NULL DEFAULT 0,
    lease_epoch BIGINT NOT NULL DEFAULT 0,
    lease_until DATETIME(6),
    lease_ms INT,
    lease_owner VARCHAR(64),
    PRIMARY KEY (partition_id, consumer)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Messages that did not simply succeed and that the cursor has not passed. failures: their
-- handler returned an error. deaths: it never returned. done: it succeeded ahead of the cursor.
CREATE TABLE IF NOT EXISTS outbox_attempt (
    partition_id BIGINT NOT NULL,
    consumer VARCHAR(128) NOT NULL,
    seq BIGINT NOT NULL,
    failures INT NOT NULL DEFAULT 0,
    deaths INT NOT NULL DEFAULT 0,
    done BOOLEAN NOT NULL DEFAULT FALSE,
    first_failed_at DATETIME(6),
    not_before DATETIME(6) NOT NULL,
    last_error TEXT,
    PRIMARY KEY (partition_id, consumer, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Messages that could not succeed, with everything needed to try them again.
-- The first index finds the next pending ones, in order, however many are settled;
-- the second those settled long ago. claimed_by names the claim until the deadline.
CREATE TABLE IF NOT EXISTS outbox_dead_letter (
    id BIGINT NOT NULL AUTO_INCREMENT,
    queue VARCHAR(128) NOT NULL,
    `partition` SMALLINT NOT NULL,
    consumer VARCHAR(128) NOT NULL,
    seq BIGINT NOT NULL,
    message_id BIGINT NOT NULL,
    event_type VARCHAR(128) NOT NULL,
    `key` VARBINARY(1024) NOT NULL,
    payload LONGBLOB NOT NULL,
    headers MEDIUMTEXT,
    enqueued_at DATETIME(6) NOT NULL,
    failed_at DATETIME(6) NOT NULL,
    attempts INT NOT NULL,
    reason TEXT NOT NULL,
    status VARCHAR(16) NOT NULL,
    deadline DATETIME(6),
    claimed_by VARCHAR(64),
    completed_at DATETIME(6),
    requeued_as BIGINT,
    slot SMALLINT NOT NULL,
    nonce BIGINT NOT NULL,
    PRIMARY KEY (id),
    INDEX outbox_dead_letter_status (status, id),
    INDEX outbox_dead_letter_completed_at (completed_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
