//! Statements whose text is the same on every engine but for a few words.
//!
//! A text has `?` for values and these words: `{now}` the database's clock,
//! `{now+?}` that many microseconds later, `{us(x)}` a time as microseconds since
//! 1970, `{now_us}` the clock as such, `{earlier(x)}` a time less the microseconds of the next
//! value, `{key}` and `{partition}` those columns, `{or_ignore(x)}` at the end of an
//! INSERT that may meet an existing row (`x` is any column of it), `{or_update(x)}` before
//! what is set in such a row instead (`x` is its primary key), `{for_update}`
//! and `{skip_locked}` at the end of a SELECT, `{unsequenced}` and `{below_mark}` for
//! what is to be known of a queue `q`.

use crate::database::dialect::Dialect;
use futures_util::TryStreamExt;
use sea_orm::{ConnectionTrait, DbErr, QueryResult, Statement, StreamTrait, Value};
use std::pin::pin;

/// Runs a statement; returns the number of rows it changed. On MySQL a row counts that it found
/// and left as it was: after `{or_ignore(x)}` the number says nothing.
pub(crate) async fn execute<C, V>(conn: &C, text: &str, values: V) -> Result<u64, DbErr>
where
    C: ConnectionTrait,
    V: IntoIterator<Item = Value>,
{
    let statement = statement(conn, text, values)?;
    Ok(conn.execute_raw(statement).await?.rows_affected())
}

/// Runs an INSERT of at most one row into a table that numbers its rows; returns
/// the row's id, `None` if there was nothing to insert.
pub(crate) async fn insert<C, V>(conn: &C, text: &str, values: V) -> Result<Option<i64>, DbErr>
where
    C: ConnectionTrait,
    V: IntoIterator<Item = Value>,
{
    if Dialect::of(conn)? == Dialect::MySql {
        // The id comes with the answer to the statement itself.
        let done = conn.execute_raw(statement(conn, text, values)?).await?;
        let id = i64::try_from(done.last_insert_id()).map_err(|_| DbErr::UnpackInsertId)?;
        return Ok((done.rows_affected() > 0).then_some(id));
    }
    let rows = query(conn, &format!("{text} RETURNING id"), values).await?;
    rows.first().map(|row| row.try_get_by_index(0)).transpose()
}

/// Runs a query; returns its rows.
pub(crate) async fn query<C, V>(conn: &C, text: &str, values: V) -> Result<Vec<QueryResult>, DbErr>
where
    C: ConnectionTrait,
    V: IntoIterator<Item = Value>,
{
    conn.query_all_raw(statement(conn, text, values)?).await
}

/// Runs a query whose column `(column, _)` is how many bytes a row has; returns the rows up to
/// the one that reaches `(_, most)`, and whether there were more. Those are dropped as they
/// arrive: adding the bytes up in a statement would cost every message a tenth more.
pub(crate) async fn query_up_to<C, V>(
    conn: &C,
    text: &str,
    values: V,
    (column, most): (usize, i64),
) -> Result<(Vec<QueryResult>, bool), DbErr>
where
    C: ConnectionTrait + StreamTrait,
    V: IntoIterator<Item = Value>,
{
    let mut stream = pin!(conn.stream_raw(statement(conn, text, values)?).await?);
    let (mut rows, mut bytes, mut more) = (Vec::new(), 0, false);
    while let Some(row) = stream.try_next().await? {
        if bytes >= most {
            more = true;
            continue;
        }
        bytes += row.try_get_by_index::<Option<i64>>(column)?.unwrap_or(0);
        rows.push(row);
    }
    Ok((rows, more))
}

/// Numbers with commas between, for an IN list of our own ids.
pub(crate) fn list(numbers: impl IntoIterator<Item = impl Into<i64>>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|n| n.into().to_string()).collect();
    numbers.join(",")
}

fn statement<C, V>(conn: &C, text: &str, values: V) -> Result<Statement, DbErr>
where
    C: ConnectionTrait,
    V: IntoIterator<Item = Value>,
{
    let sql = render(Dialect::of(conn)?, text);
    Ok(Statement::from_sql_and_values(
        conn.get_database_backend(),
        sql,
        values,
    ))
}

fn render(dialect: Dialect, text: &str) -> String {
    let words = dialect.words();
    let mut sql = String::with_capacity(text.len() + 128);
    let mut rest = text;
    let mut placeholders = 0;
    while let Some(at) = rest.find(['?', '{']) {
        sql.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix('?') {
            push_placeholder(&mut sql, dialect, &mut placeholders);
            rest = after;
            continue;
        }
        let end = rest.find('}').map_or(rest.len(), |end| end + 1);
        match &rest[..end] {
            "{now}" => sql.push_str(words.now),
            "{now_us}" => {
                sql.push_str(words.micros.0);
                sql.push_str(words.now);
                sql.push_str(words.micros.1);
            }
            "{now+?}" => {
                sql.push_str(words.later.0);
                push_placeholder(&mut sql, dialect, &mut placeholders);
                sql.push_str(words.later.1);
            }
            "{key}" => sql.push_str(words.key),
            "{partition}" => sql.push_str(words.partition),
            "{for_update}" => sql.push_str(words.for_update),
            "{skip_locked}" => sql.push_str(words.skip_locked),
            "{unsequenced}" => sql.push_str(words.unsequenced),
            "{below_mark}" => sql.push_str(words.below_mark),
            word => match word.trim_matches(['{', '}']).split_once('(') {
                Some(("us", column)) => {
                    sql.push_str(words.micros.0);
                    sql.push_str(column.trim_end_matches(')'));
                    sql.push_str(words.micros.1);
                }
                Some(("earlier", column)) => {
                    sql.push_str(column.trim_end_matches(')'));
                    sql.push_str(words.earlier.0);
                    push_placeholder(&mut sql, dialect, &mut placeholders);
                    sql.push_str(words.earlier.1);
                }
                Some(("or_ignore", column)) => {
                    let column = column.trim_end_matches(')');
                    sql.push_str(&words.or_ignore.replace('@', column));
                }
                Some(("or_update", key)) => {
                    let key = key.trim_end_matches(')');
                    sql.push_str(&words.or_update.replace('@', key));
                }
                _ => sql.push_str(word),
            },
        }
        rest = &rest[end..];
    }
    sql.push_str(rest);
    sql
}

fn push_placeholder(sql: &mut String, dialect: Dialect, count: &mut usize) {
    *count += 1;
    match dialect {
        Dialect::Postgres => sql.push_str(&format!("${count}")),
        Dialect::MySql | Dialect::Sqlite => sql.push('?'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_what_each_engine_calls_them() {
        let text = "UPDATE t SET {key} = ?, u = {now+?} WHERE {us(d)} > ? {skip_locked}";
        assert_eq!(
            render(Dialect::Postgres, text),
            "UPDATE t SET key = $1, u = (clock_timestamp() + $2 * interval '1 microsecond') \
             WHERE (extract(epoch FROM d) * 1000000)::bigint > $3 FOR NO KEY UPDATE SKIP LOCKED"
        );
        assert_eq!(
            render(Dialect::MySql, text),
            "UPDATE t SET `key` = ?, u = (UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
             WHERE TIMESTAMPDIFF(MICROSECOND, '1970-01-01', d) > ? FOR UPDATE SKIP LOCKED"
        );
    }
}
