-- Fails in a transaction of which a statement has failed, and outside of any: there is nothing to commit then. A plain
-- COMMIT is silent about both. The first answers ROLLBACK, which is no error and which the driver does not show; the
-- second is a warning.
savepoint pillarbox_commit
