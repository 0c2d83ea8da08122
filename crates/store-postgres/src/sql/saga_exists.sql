-- Whether a saga of this id is there.
select id::text from {saga} where id = $1::text
