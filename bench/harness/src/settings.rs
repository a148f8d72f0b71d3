//! A workload, as the command line names it: `name=value ...`.

use serde::Serialize;

/// What to run. Every field has a default; not every workload looks at every one.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// `enqueue`, `fill`, `drain`, `whole`, `latency`, `together` or `idle`; `produce` and `serve`
    /// are for other processes of a run.
    pub workload: String,
    /// Where the database is.
    #[serde(skip)]
    pub url: String,
    /// Producers at once.
    pub producers: usize,
    /// Messages per transaction.
    pub per_transaction: usize,
    /// Messages in all, for workloads that end after a count.
    pub count: usize,
    /// Seconds, for workloads that end after a time.
    pub seconds: u64,
    /// Messages a second, of the latency workload.
    pub rate: usize,
    /// Keys the messages are spread over.
    pub keys: usize,
    /// Partitions, for contestants that have them.
    pub partitions: u32,
    /// `leased` or `transactional`, for contestants that have both.
    pub mode: String,
    /// A profile, for contestants that have several.
    pub profile: String,
    /// About how many bytes a payload has.
    pub bytes: usize,
    /// Whether the producer of the latency workload is another process.
    pub elsewhere: bool,
    /// Whether transactions wake the workers after their commit, for contestants that can do that.
    pub wakes: bool,
    /// Processes that work off a backlog.
    pub processes: usize,
    /// Whether other processes are told of messages, for contestants that can do that.
    pub notify: bool,
}

impl Settings {
    /// Reads the command line.
    ///
    /// # Errors
    /// If the command line contains something that is no setting.
    pub fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut settings = Self {
            workload: String::new(),
            url: std::env::var("BENCH_URL").unwrap_or_default(),
            producers: 8,
            per_transaction: 1,
            count: 10_000,
            seconds: 10,
            rate: 50,
            keys: 1_000,
            partitions: 4,
            mode: "leased".into(),
            profile: "default".into(),
            bytes: 200,
            elsewhere: false,
            wakes: false,
            processes: 1,
            notify: false,
        };
        for word in words {
            let Some((name, value)) = word.split_once('=') else {
                settings.workload = word;
                continue;
            };
            let number = || {
                let number = value.parse::<usize>();
                number.map_err(|error| format!("{name}={value}: {error}"))
            };
            match name {
                "producers" => settings.producers = number()?,
                "per_transaction" => settings.per_transaction = number()?,
                "count" => settings.count = number()?,
                "seconds" => settings.seconds = number()? as u64,
                "rate" => settings.rate = number()?,
                "keys" => settings.keys = number()?,
                "partitions" => settings.partitions = number()? as u32,
                "processes" => settings.processes = number()?,
                "bytes" => settings.bytes = number()?,
                "mode" => settings.mode = value.into(),
                "profile" => settings.profile = value.into(),
                "elsewhere" => settings.elsewhere = value == "yes",
                "wakes" => settings.wakes = value == "yes",
                "notify" => settings.notify = value == "yes",
                _ => return Err(format!("`{name}` is no setting")),
            }
        }
        if settings.url.is_empty() {
            return Err("BENCH_URL names no database".into());
        }
        Ok(settings)
    }
}
