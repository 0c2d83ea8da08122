-- As `commit_ask.sql`, with the commit in the same message: where the first statement fails, the server does not go on
-- to the second. AND CHAIN leaves the session in an empty transaction, because the driver still counts one as open and
-- rolls it back when the connection returns to its pool. Without it that would be a warning in the server's log.
savepoint pillarbox_commit;
commit and chain
