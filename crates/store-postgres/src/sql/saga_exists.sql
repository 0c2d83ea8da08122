-- Whether a saga of this id is there.
select 1 from {saga} where id = $1
