use outbox::prelude::*;
use std::fmt;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub number: String,
}

#[outbox_handler(mode = leased, consumer = "nothing")]
async fn nothing(_: OrderCreated) {}

#[outbox_handler(mode = leased, consumer = "unit")]
async fn unit(_: OrderCreated) -> () {}

#[outbox_handler(mode = leased, consumer = "result")]
async fn result(event: OrderCreated) -> HandlerResult {
    match event.number.parse::<i64>() {
        Ok(_) => HandlerResult::Success,
        Err(error) => HandlerResult::reject(error),
    }
}

#[outbox_handler(mode = leased, consumer = "error")]
async fn error(event: OrderCreated) -> Result<(), HandlerError> {
    let number: i64 = event.number.parse()?;
    String::from_utf8(vec![u8::try_from(number)?])?;
    if number > 100 {
        return Err(HandlerError::reject("too large"));
    }
    if number > 10 {
        let hour = std::time::Duration::from_secs(3600);
        return Err(HandlerError::retry_after(hour, "large"));
    }
    Ok(())
}

#[outbox_handler(mode = leased, consumer = "text")]
async fn text(_: OrderCreated) -> Result<(), String> {
    Err("down".to_owned())
}

#[outbox_handler(mode = leased, consumer = "static_text")]
async fn static_text(_: OrderCreated) -> Result<(), &'static str> {
    Err("down")
}

#[outbox_handler(mode = leased, consumer = "boxed")]
async fn boxed(event: OrderCreated) -> Result<(), Box<dyn std::error::Error>> {
    event.number.parse::<i64>()?;
    Err("down")?
}

#[outbox_handler(mode = leased, consumer = "boxed_send")]
async fn boxed_send(event: OrderCreated) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    event.number.parse::<i64>()?;
    Ok(())
}

#[outbox_handler(mode = leased, consumer = "standard")]
async fn standard(event: OrderCreated) -> Result<(), std::num::ParseIntError> {
    event.number.parse::<i64>().map(drop)
}

/// Like `anyhow::Error`: made of every error, and none itself.
pub struct AnyError(Box<dyn std::error::Error + Send + Sync>);

impl<E: std::error::Error + Send + Sync + 'static> From<E> for AnyError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for AnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { write!(f, "{}: because", self.0) } else { self.0.fmt(f) }
    }
}

type AnyResult<T = ()> = Result<T, AnyError>;

#[outbox_handler(mode = leased, consumer = "any")]
async fn any(event: OrderCreated) -> AnyResult {
    event.number.parse::<i64>()?;
    Ok(())
}

#[outbox_handler(mode = leased, consumer = "never")]
async fn never(_: OrderCreated) -> Result<(), std::convert::Infallible> {
    Ok(())
}

fn main() {
    use outbox::Outcome;
    assert_eq!(outbox::registry().handlers().len(), 11);
    let digit = "x".parse::<i64>().unwrap_err();
    let result = AnyResult::Err(digit.into()).into_result();
    let told = "invalid digit found in string: because";
    assert_eq!(result, HandlerResult::retry(told));
}
