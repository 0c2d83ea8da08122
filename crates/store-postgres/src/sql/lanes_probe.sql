-- Whether the tables of sessions can be read: every page of them, and the root of their indexes. Run it where sequential
-- scans are off; a sample of everything is one that cannot be switched off.
select (select count(*) from {lane_session} tablesample system (100))
    + (select count(*) from {lane_handed} tablesample system (100))
    + (select count(*) from {lane_session} where route = '' and session = '00000000-0000-0000-0000-000000000000')
    + (select count(*) from {lane_handed} where route = '' and session = '00000000-0000-0000-0000-000000000000')
