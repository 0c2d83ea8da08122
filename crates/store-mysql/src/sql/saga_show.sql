-- One saga. ?1 id
select {saga_columns} from {saga} as saga where saga.id = ?1{lock}
