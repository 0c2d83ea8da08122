//! SeaORM, over sqlx.

use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Call, Changed, Row, Waiting, driver};
use sea_orm::sea_query::ArrayType;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryResult, RuntimeErr, Statement};

use crate::error::{Phase, explain};
use crate::statement::Value;

driver!(shared waiting DatabaseTransaction, Value);

impl Waiting<Value> for &DatabaseTransaction {
    async fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        Ok(Changed::rows(self.execute_raw(statement(self, call)?).await.map_err(failed)?.rows_affected()))
    }

    async fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        let rows = self.query_all_raw(statement(self, call)?).await.map_err(failed)?;
        rows.iter().map(row).collect()
    }
}

/// The call as a statement of SeaORM. Its transactions are of one type for all databases.
fn statement(tx: &DatabaseTransaction, call: Call<Value>) -> Result<Statement> {
    if tx.get_database_backend() != DbBackend::Postgres {
        return Err(Error::invalid(
            "this transaction is of another database, but the outbox is on PostgreSQL. Use the outbox of the \
             transaction's own database",
        ));
    }
    let values = call.values.into_iter().map(bound);
    Ok(Statement::from_sql_and_values(DbBackend::Postgres, &*call.sql, values))
}

fn bound(value: Value) -> sea_orm::Value {
    match value {
        Value::Text(text) => text.into(),
        Value::Integer(number) => number.into(),
        Value::Bytes(bytes) => bytes.into(),
        // Its arrays cannot hold nulls, so these are the text form of an array. The statements cast it.
        Value::Texts(texts) => literal(texts, |text| quoted(&text)).into(),
        Value::Integers(numbers) => literal(numbers, |number| number.to_string()).into(),
        Value::Blobs(blobs) => sea_orm::Value::Array(
            ArrayType::Bytes,
            Some(Box::new(blobs.into_iter().map(Into::into).collect())),
        ),
    }
}

fn literal<T>(elements: Vec<Option<T>>, written: impl Fn(T) -> String) -> String {
    let elements: Vec<String> =
        elements.into_iter().map(|element| element.map_or("NULL".to_owned(), &written)).collect();
    format!("{{{}}}", elements.join(","))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn row(row: &QueryResult) -> Result<Row> {
    let columns = row.column_names().len();
    let cells: Result<_, _> = (0..columns).map(|column| row.try_get_by_index(column)).collect();
    cells.map(Row).map_err(failed)
}

/// What the error means: by the error of sqlx inside.
fn failed(error: DbErr) -> Error {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) => explain(&error, Phase::Application),
        DbErr::ConnectionAcquire(_) => {
            Error::new(ErrorKind::Timeout, "no database connection became free in time")
        }
        DbErr::Type(_) => Error::new(ErrorKind::Corrupt, "the answer of the database cannot be read"),
        _ => Error::new(ErrorKind::Internal, "SeaORM could not run the statement"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_of_an_array_escapes_what_has_a_meaning_in_it() {
        let texts = vec![Some("a,b".to_owned()), None, Some("\\ \" {}".to_owned()), Some("null".to_owned())];
        assert_eq!(literal(texts, |text| quoted(&text)), r#"{"a,b",NULL,"\\ \" {}","null"}"#);
        assert_eq!(literal(vec![Some(-1), None], |number: i64| number.to_string()), "{-1,NULL}");
    }
}
