//! Passing statements on: a user's type that holds a transaction is a connection like it.

/// Makes a type a connection that passes every statement on to its field.
macro_rules! pass_on {
    ($type:ty, $field:ident) => {
        #[async_trait::async_trait]
        impl sea_orm::ConnectionTrait for $type {
            fn get_database_backend(&self) -> sea_orm::DbBackend {
                self.$field.get_database_backend()
            }

            async fn execute_raw(
                &self,
                statement: sea_orm::Statement,
            ) -> Result<sea_orm::ExecResult, sea_orm::DbErr> {
                self.$field.execute_raw(statement).await
            }

            async fn execute_unprepared(
                &self,
                sql: &str,
            ) -> Result<sea_orm::ExecResult, sea_orm::DbErr> {
                self.$field.execute_unprepared(sql).await
            }

            async fn query_one_raw(
                &self,
                statement: sea_orm::Statement,
            ) -> Result<Option<sea_orm::QueryResult>, sea_orm::DbErr> {
                self.$field.query_one_raw(statement).await
            }

            async fn query_all_raw(
                &self,
                statement: sea_orm::Statement,
            ) -> Result<Vec<sea_orm::QueryResult>, sea_orm::DbErr> {
                self.$field.query_all_raw(statement).await
            }
        }
    };
}
pub(crate) use pass_on;
