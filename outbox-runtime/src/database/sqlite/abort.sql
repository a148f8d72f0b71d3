-- With the savepoints that sqlx may believe in, as many as a batch of handlers may have left. Here
-- sqlx counts only what succeeds, and would give the pool a connection that is still in a
-- transaction.
ROLLBACK; BEGIN;
SAVEPOINT _sqlx_savepoint_1; SAVEPOINT _sqlx_savepoint_2;
SAVEPOINT _sqlx_savepoint_3; SAVEPOINT _sqlx_savepoint_4;
SAVEPOINT _sqlx_savepoint_5; SAVEPOINT _sqlx_savepoint_6;
SAVEPOINT _sqlx_savepoint_7; SAVEPOINT _sqlx_savepoint_8;
SAVEPOINT _sqlx_savepoint_9; SAVEPOINT _sqlx_savepoint_10;
SAVEPOINT _sqlx_savepoint_11; SAVEPOINT _sqlx_savepoint_12;
SAVEPOINT _sqlx_savepoint_13; SAVEPOINT _sqlx_savepoint_14;
SAVEPOINT _sqlx_savepoint_15; SAVEPOINT _sqlx_savepoint_16
