//! A server of a test's own, which may be crashed.

use crate::Engine;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A server that exists for one test; started as `scripts/test` starts its own.
pub struct PrivateServer {
    words: &'static Words,
    directory: tempfile::TempDir,
    url: String,
}

/// What to do with a server, in the words of `scripts/servers.sh`.
struct Words {
    start: &'static str,
    crash: &'static str,
    end: &'static str,
    again: &'static str,
}

const POSTGRES: Words = Words {
    start: r#"start_postgres >&2; echo "$OUTBOX_TEST_POSTGRES_URL""#,
    crash: r#"as_postgres "$(find_postgres)/pg_ctl" -D "$SERVERS_DIR/postgres" -m immediate stop >&2"#,
    end: r#"as_postgres "$(find_postgres)/pg_ctl" -D "$SERVERS_DIR/postgres" -m fast -w stop >&2"#,
    again: r#"as_postgres "$(find_postgres)/pg_ctl" -D "$SERVERS_DIR/postgres" \
        -l "$SERVERS_DIR/postgres.log" -w start >&2"#,
};

const MARIADB: Words = Words {
    start: r#"start_mariadb >&2; echo "$OUTBOX_TEST_MYSQL_URL""#,
    crash: r#"kill -9 "$(cat "$SERVERS_DIR/mariadb.pid")""#,
    end: r#"end_mariadb "$(cat "$SERVERS_DIR/mariadb.pid")""#,
    again: "run_mariadb >&2",
};

impl PrivateServer {
    /// Starts one.
    pub fn start(engine: Engine) -> Self {
        let words = match engine {
            Engine::Postgres => &POSTGRES,
            Engine::MySql => &MARIADB,
            Engine::Sqlite => unreachable!("SQLite has no server"),
        };
        let directory = tempfile::tempdir().expect("a temporary directory");
        // The server runs as another user where the test runs as root.
        let readable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), readable).expect("chmod");
        let url = script(directory.path(), words.start).trim().to_owned();
        Self {
            words,
            directory,
            url,
        }
    }

    /// A database on it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What PostgreSQL has written to its log.
    pub fn log(&self) -> String {
        let log = self.directory.path().join("postgres.log");
        String::from_utf8_lossy(&std::fs::read(log).expect("the server's log")).into_owned()
    }

    /// Ends it at once, without writing anything down, and starts it again.
    pub async fn crash(&self) {
        self.start_again_after(self.words.crash).await;
    }

    /// Ends it in order, even with clients connected, and starts it again.
    pub async fn restart(&self) {
        self.start_again_after(self.words.end).await;
    }

    async fn start_again_after(&self, end: &'static str) {
        let directory = self.directory.path().to_owned();
        let again = self.words.again;
        let work = move || {
            script(&directory, end);
            script(&directory, again);
        };
        tokio::task::spawn_blocking(work).await.expect("a restart");
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // It may be down; a failing test has its own message.
        let _ = command(self.directory.path(), self.words.crash).output();
    }
}

fn command(directory: &Path, script: &str) -> Command {
    let mut bash = Command::new("bash");
    let functions = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/servers.sh");
    let script = format!("set -u; . {functions}; SERVERS_DIR=$1; {script}");
    bash.args(["-c", &script, "bash"]).arg(directory);
    bash
}

/// Runs shell code that has the functions of `scripts/servers.sh`; returns its output.
fn script(directory: &Path, script: &str) -> String {
    let done = command(directory, script).output().expect("bash");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "a server of the test's own: {said}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}
