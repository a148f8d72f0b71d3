-- Ends a claim: writes progress, and gives the lease back or keeps it under the next epoch.
-- The epoch is raised, so that a process that read the cursor before does not claim by it, and so
-- that this is not done twice if its answer is lost.
-- $partition, $consumer: whose cursor.              $owner, $epoch: the lease.
-- $processed: what is done. A cursor never goes back, should an earlier commit whose answer was lost
-- have moved it.                                    $claimed: what stays claimed.
UPDATE outbox_cursor SET
    processed_seq = $processed,
    claimed_seq = $claimed,
    lease_epoch = lease_epoch + 1,
    {lease}
WHERE partition_id = $partition AND consumer = $consumer
    AND lease_owner = $owner AND lease_epoch = $epoch
    AND processed_seq <= $processed
    {still_numbered}
