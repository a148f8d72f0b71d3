//! A small service: POST an order, GET its state, health and readiness. Its shutdown
//! finishes what has begun.
//!
//! ```text
//! cargo run --example axum_service            serves on PORT, or 8080, until Ctrl-C
//! curl -d '{"customer":"ada"}' -H 'content-type: application/json' localhost:8080/orders
//! curl localhost:8080/orders/1
//! cargo run --example axum_service -- try     serves, tries itself, and stops
//! ```

use axum::extract::{Path, State as Shared};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use outbox::prelude::*;
use outbox_examples::{connect, eventually, say};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, Schema};
use std::error::Error;
use tokio::net::TcpListener;

mod order {
    use sea_orm::entity::prelude::*;

    #[derive(
        Clone, Debug, PartialEq, Eq, DeriveEntityModel, serde::Serialize, serde::Deserialize,
    )]
    #[sea_orm(table_name = "example_service_order")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub customer: String,
        pub shipped: bool,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

#[outbox_event(queue = "example.service", partitions = 4, name = "order.placed", key = order_id)]
#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order_id: i32,
}

/// Writes to the same database, so it is transactional.
#[outbox_handler(mode = transactional)]
async fn ship(placed: OrderPlaced, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
    let shipped = order::ActiveModel {
        id: Set(placed.order_id),
        shipped: Set(true),
        ..Default::default()
    };
    shipped.update(tx).await?;
    Ok(())
}

#[derive(Clone)]
struct Service {
    db: DatabaseConnection,
    outbox: Outbox,
}

#[derive(Serialize, Deserialize)]
struct NewOrder {
    customer: String,
}

/// The order and its event, or neither.
async fn place(
    Shared(service): Shared<Service>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<order::Model>), Failure> {
    // The commit of this transaction wakes the sequencer at once. `db.begin()` works too.
    let tx = service.outbox.begin().await?;
    let order = order::ActiveModel {
        customer: Set(new.customer),
        shipped: Set(false),
        ..Default::default()
    };
    let order = order.insert(&tx).await?;
    OrderPlaced { order_id: order.id }.emit(&tx).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(order)))
}

async fn look(
    Shared(service): Shared<Service>,
    Path(id): Path<i32>,
) -> Result<Json<order::Model>, Failure> {
    let order = order::Entity::find_by_id(id).one(&service.db).await?;
    order.map(Json).ok_or(Failure(StatusCode::NOT_FOUND))
}

/// Ready if the database answers and the lag is not so large that an operator should look.
async fn ready(Shared(service): Shared<Service>) -> Result<String, Failure> {
    let stats = service.outbox.stats().await?;
    let consumers = stats.queues.iter().flat_map(|queue| &queue.consumers);
    let lag: u64 = consumers.map(|consumer| consumer.lag).sum();
    match lag {
        0..10_000 => Ok(format!("ready, {lag} to go")),
        _ => Err(Failure(StatusCode::SERVICE_UNAVAILABLE)),
    }
}

/// What the client is told; the cause goes to the log.
struct Failure(StatusCode);

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        eprintln!("{error}");
        Self(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl axum::response::IntoResponse for Failure {
    fn into_response(self) -> axum::response::Response {
        self.0.into_response()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let trying = std::env::args().nth(1).as_deref() == Some("try");
    let example = connect().await?;
    let db = example.db.clone();
    outbox::migrate(&db).await?;
    let mut table = Schema::new(db.get_database_backend()).create_table_from_entity(order::Entity);
    db.execute(table.if_not_exists()).await?;

    let running = Outbox::builder(db.clone()).start().await?;
    let service = Service {
        db,
        outbox: running.outbox().clone(),
    };
    let routes = Router::new()
        .route("/orders", post(place))
        .route("/orders/{id}", get(look))
        .route("/health", get(async || "alive"))
        .route("/ready", get(ready))
        .with_state(service);
    let port = std::env::var("PORT").unwrap_or(if trying { "0" } else { "8080" }.into());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let url = format!("http://{}", listener.local_addr()?);
    say("listening", &url);

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = axum::serve(listener, routes).with_graceful_shutdown(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            Ok(()) = stopped => {}
        }
    });
    let serving = tokio::spawn(server.into_future());
    if trying {
        try_it(&url).await?;
        let _ = stop.send(());
    }
    // First no new requests, then no new deliveries. Requests and handlers that run are finished.
    serving.await??;
    let report = running.stop().await;
    say("stopped", format!("cleanly: {}", report.clean));
    Ok(())
}

/// What a client does.
async fn try_it(url: &str) -> Result<(), Box<dyn Error>> {
    let client = reqwest::Client::new();
    let customer = "ada".to_owned();
    let new = client
        .post(format!("{url}/orders"))
        .json(&NewOrder { customer });
    let order: order::Model = new.send().await?.error_for_status()?.json().await?;
    say("placed", format!("order {}", order.id));
    let look = async || {
        let answer = reqwest::get(format!("{url}/orders/{}", order.id)).await?;
        answer.json::<order::Model>().await
    };
    eventually("the order to be shipped", async || {
        look().await.is_ok_and(|order| order.shipped)
    })
    .await?;
    say(
        "shipped",
        format!("order {}, by a handler in the background", order.id),
    );
    for path in ["health", "ready"] {
        let answer = reqwest::get(format!("{url}/{path}"))
            .await?
            .error_for_status()?;
        say(path, answer.text().await?);
    }
    Ok(())
}
