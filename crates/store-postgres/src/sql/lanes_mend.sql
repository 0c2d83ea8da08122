-- Empties the tables of sessions if they cannot be read or written, as a crash of the server would: truncating makes new
-- files and looks at none of the old ones. Every relay joins anew then. Others that met the same damage wait for the lock
-- and find it mended. What is written here to see whether that works is of no route.
do $mend$
begin
    lock table {lane_session}, {lane_handed} in access exclusive mode;
    begin
        perform count(*) from {lane_session} tablesample system (100);
        perform count(*) from {lane_handed} tablesample system (100);
        insert into {lane_session} (route, session, rank, owner, lease_until, shares)
        values ('', '00000000-0000-0000-0000-000000000000', 0, '', now(), 1);
        insert into {lane_handed} (route, session, handed) values ('', '00000000-0000-0000-0000-000000000000', 0);
        delete from {lane_session} where route = '';
        delete from {lane_handed} where route = '';
    exception when data_corrupted or index_corrupted or undefined_file or internal_error then
        raise log 'pillarbox: the tables of lane sessions are damaged (%) and are made anew', sqlerrm;
        truncate {lane_session}, {lane_handed};
    end;
end
$mend$
