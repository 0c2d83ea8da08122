-- The lane of the entries of a key, as the column `lane` has it. ?1 key
select crc32(?1) & 63
