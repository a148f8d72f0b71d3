//! A statement: its text, its parameters by name, and running it.
//!
//! The text is a `.sql` file or, if it is a line or two, stands in [`statements!`]. It has
//! parameters (`$partition`) and words (`{now}`), which [`words`](super::words) lists: what every
//! engine can do and writes in its own way. Comments (`--`) are removed once.
//!
//! Only a `Statement` can be executed, and only [`statements!`] makes one. It also lists it. A test
//! prepares every listed statement on its real server.

mod render;

use super::Engine;
use super::words::words;
use futures_util::TryStreamExt;
use render::Rendered;
use sea_orm::{ConnectionTrait, DbErr, QueryResult, StreamTrait, Value};
use std::pin::pin;
use std::sync::OnceLock;

/// Declares statements, and lists them as `STATEMENTS`:
///
/// ```text
/// statements! {
///     EVERY;                                   // or POSTGRES, MYSQL, SQLITE, STEPWISE
///     CHARGE = file "charge.sql";
///     FORGET = "DELETE FROM outbox_attempt WHERE ...";
///     KEEP = file "move_cursor.sql", { lease: "lease_until = {after $lease_us}" };
/// }
/// ```
///
/// What stands in braces at the end replaces `{lease}` in the text.
macro_rules! statements {
    ($engines:ident; $(
        $(#[$doc:meta])* $name:ident = $($file:ident)? $text:literal
        $(, { $($hole:ident: $with:expr),* $(,)? })?;
    )*) => {
        $(
            $(#[$doc])*
            static $name: $crate::database::statement::Statement =
                $crate::database::statement::Statement::new(
                    concat!(module_path!(), "::", stringify!($name)),
                    $crate::database::statement::statements!(@text $($file)? $text),
                    &[$($((concat!("{", stringify!($hole), "}"), $with)),*)?],
                    $crate::database::statement::$engines,
                );
        )*

        /// The statements of this file.
        pub(in crate::database) static STATEMENTS: &[&$crate::database::statement::Statement] =
            &[$(&$name),*];
    };
    (@text file $path:literal) => { include_str!($path) };
    (@text $text:literal) => { $text };
}
pub(in crate::database) use statements;

/// The engines that a statement is for.
pub(in crate::database) const EVERY: &[Engine] = &Engine::ALL;
pub(in crate::database) const POSTGRES: &[Engine] = &[Engine::Postgres];
pub(in crate::database) const MYSQL: &[Engine] = &[Engine::MySql];
pub(in crate::database) const SQLITE: &[Engine] = &[Engine::Sqlite];
pub(in crate::database) const STEPWISE: &[Engine] = &[Engine::MySql, Engine::Sqlite];

/// [`Values`]: `values! { partition: id, seq: 7 }`.
macro_rules! values {
    ($($name:ident: $value:expr),* $(,)?) => {
        vec![$((stringify!($name), sea_orm::Value::from($value))),*]
    };
}
pub(in crate::database) use values;

/// Values by the names of their parameters.
pub(in crate::database) type Values = Vec<(&'static str, Value)>;

/// Both.
pub(in crate::database) fn and(mut values: Values, more: Values) -> Values {
    values.extend(more);
    values
}

/// A statement of the outbox.
pub(crate) struct Statement {
    name: &'static str,
    text: &'static str,
    /// What replaces which hole of the text.
    fills: &'static [(&'static str, &'static str)],
    engines: &'static [Engine],
    rendered: [OnceLock<Rendered>; Engine::ALL.len()],
}

impl Statement {
    pub(in crate::database) const fn new(
        name: &'static str,
        text: &'static str,
        fills: &'static [(&'static str, &'static str)],
        engines: &'static [Engine],
    ) -> Self {
        Self {
            name,
            text,
            fills,
            engines,
            rendered: [const { OnceLock::new() }; Engine::ALL.len()],
        }
    }

    /// Where it is declared.
    pub(in crate::database) const fn name(&self) -> &'static str {
        self.name
    }

    /// The engines it is for.
    pub(in crate::database) const fn engines(&self) -> &'static [Engine] {
        self.engines
    }

    /// Its text for an engine, made once.
    pub(in crate::database) fn rendered(&self, engine: Engine) -> &Rendered {
        self.rendered[engine as usize].get_or_init(|| Rendered::of(self.text, self.fills, engine))
    }

    /// With a list of numbers in the place of `{numbers}`. They are written into the text, so that
    /// one form of a statement does for every engine. Where there are none it has the number 0,
    /// which is no id.
    pub(in crate::database) fn with_numbers<N: Into<i64>>(
        &self,
        numbers: impl IntoIterator<Item = N>,
    ) -> WithText<'_> {
        let numbers: Vec<String> = numbers
            .into_iter()
            .map(|number| number.into().to_string())
            .collect();
        self.with(
            "{numbers}",
            match numbers.is_empty() {
                true => "0".to_owned(),
                false => numbers.join(","),
            },
        )
    }

    /// With a text of our own in the place of a hole.
    pub(in crate::database) fn with(&self, hole: &'static str, text: String) -> WithText<'_> {
        WithText {
            statement: self,
            hole,
            text,
        }
    }
}

/// A statement with a part that differs from call to call.
pub(in crate::database) struct WithText<'s> {
    statement: &'s Statement,
    hole: &'static str,
    text: String,
}

/// What can be run: a statement, or one with a part that differs.
pub(in crate::database) trait Run {
    /// The statement for this engine, with its values in their places.
    fn bind(&self, engine: Engine, values: Values) -> Result<sea_orm::Statement, DbErr>;

    /// Runs it; returns the number of rows it changed. On MySQL a row counts that it found and left
    /// as it was: after `{or_ignore ..}` the number says nothing.
    async fn execute<C: ConnectionTrait>(&self, conn: &C, values: Values) -> Result<u64, DbErr> {
        let statement = self.bind(Engine::of(conn)?, values)?;
        Ok(conn.execute_raw(statement).await?.rows_affected())
    }

    /// Runs it; returns its rows.
    async fn query<C: ConnectionTrait>(
        &self,
        conn: &C,
        values: Values,
    ) -> Result<Vec<QueryResult>, DbErr> {
        let statement = self.bind(Engine::of(conn)?, values)?;
        conn.query_all_raw(statement).await
    }

    /// Runs it; returns its first row.
    async fn first<C: ConnectionTrait>(
        &self,
        conn: &C,
        values: Values,
    ) -> Result<Option<QueryResult>, DbErr> {
        Ok(self.query(conn, values).await?.into_iter().next())
    }
}

impl Run for Statement {
    fn bind(&self, engine: Engine, values: Values) -> Result<sea_orm::Statement, DbErr> {
        let rendered = self.rendered(engine);
        let values = rendered.in_order(self.name, values)?;
        Ok(sea_orm::Statement::from_sql_and_values(
            engine.backend(),
            &*rendered.text,
            values,
        ))
    }
}

impl Run for WithText<'_> {
    fn bind(&self, engine: Engine, values: Values) -> Result<sea_orm::Statement, DbErr> {
        let rendered = self.statement.rendered(engine);
        let values = rendered.in_order(self.statement.name, values)?;
        let text = rendered.text.replace(self.hole, &self.text);
        Ok(sea_orm::Statement::from_sql_and_values(
            engine.backend(),
            text,
            values,
        ))
    }
}

impl Statement {
    /// Runs it for a list of rows: what stands in `{each ..}` is repeated, and the values come row by
    /// row in the order of its parameters.
    pub(in crate::database) fn bind_rows(
        &self,
        engine: Engine,
        rows: usize,
        values: impl IntoIterator<Item = Value>,
    ) -> sea_orm::Statement {
        let text = self.rendered(engine).repeated(rows);
        sea_orm::Statement::from_sql_and_values(engine.backend(), text, values)
    }

    /// Runs a query whose column `payload_bytes` is how many bytes a row has; returns the rows up to
    /// the one that reaches `most`, and whether there were more. Those are dropped as they arrive:
    /// adding the bytes up in the statement would cost every message a tenth more.
    pub(in crate::database) async fn query_up_to<C>(
        &self,
        conn: &C,
        values: Values,
        most: i64,
    ) -> Result<(Vec<QueryResult>, bool), DbErr>
    where
        C: ConnectionTrait + StreamTrait,
    {
        let statement = self.bind(Engine::of(conn)?, values)?;
        let mut stream = pin!(conn.stream_raw(statement).await?);
        let (mut rows, mut bytes, mut more) = (Vec::new(), 0, false);
        while let Some(row) = stream.try_next().await? {
            if bytes >= most {
                more = true;
                continue;
            }
            let size = row.try_get_by::<Option<i64>, _>("payload_bytes")?;
            bytes += size.unwrap_or(0);
            rows.push(row);
        }
        Ok((rows, more))
    }

    /// Runs an INSERT of at most one row into a table that numbers its rows; returns the row's id,
    /// `None` if there was nothing to insert.
    pub(in crate::database) async fn insert<C: ConnectionTrait>(
        &self,
        conn: &C,
        values: Values,
    ) -> Result<Option<i64>, DbErr> {
        let engine = Engine::of(conn)?;
        let statement = self.bind(engine, values)?;
        if words(engine).returning_id.is_empty() {
            // The id comes with the answer to the statement itself.
            let done = conn.execute_raw(statement).await?;
            let id = i64::try_from(done.last_insert_id()).map_err(|_| DbErr::UnpackInsertId)?;
            return Ok((done.rows_affected() > 0).then_some(id));
        }
        let row = conn.query_one_raw(statement).await?;
        row.map(|row| row.try_get_by("id")).transpose()
    }
}

/// Statements that are not prepared but sent as they are: they begin and end transactions. An engine
/// lists its own.
pub(in crate::database) async fn run_unprepared<C: ConnectionTrait>(
    conn: &C,
    text: &'static str,
) -> Result<(), DbErr> {
    conn.execute_unprepared(text).await.map(drop)
}

/// A statement with a condition that is made when it is run.
pub(in crate::database) struct Composed<'s> {
    statement: &'s Statement,
    condition: String,
    values: Vec<(String, Value)>,
}

impl Statement {
    /// With a condition in the place of `{condition}`: its parameters have these values.
    pub(in crate::database) fn with_condition(
        &self,
        condition: String,
        values: Vec<(String, Value)>,
    ) -> Composed<'_> {
        Composed {
            statement: self,
            condition,
            values,
        }
    }
}

impl Run for Composed<'_> {
    fn bind(&self, engine: Engine, values: Values) -> Result<sea_orm::Statement, DbErr> {
        let condition = [("{condition}", &*self.condition)];
        let rendered = Rendered::of(self.statement.text, &condition, engine);
        let values = values
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let values = values.chain(self.values.iter().cloned());
        let values = rendered.in_order(self.statement.name, values)?;
        Ok(sea_orm::Statement::from_sql_and_values(
            engine.backend(),
            rendered.text,
            values,
        ))
    }
}
