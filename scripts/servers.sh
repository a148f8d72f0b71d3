# Private database servers for the scripts beside this file: sourced, not run.
#
#   servers_need      installs what is missing, or says what to install
#   servers_start     starts PostgreSQL and MariaDB on free loopback ports and
#                     exports OUTBOX_TEST_POSTGRES_URL and OUTBOX_TEST_MYSQL_URL
#   servers_stop      stops what servers_start started; for an EXIT trap
#   valgrind_need     installs valgrind if it is missing, or says how to
#   faketime_need     installs libfaketime if it is missing, or says loudly that it is
#
# A server whose URL is already in the environment is used as it is. Data is in
# a temporary directory and is removed. Durability is off, unless SERVERS_DURABLE is
# set: nothing in these servers is needed after a test run.

SERVERS_DIR=
SERVERS_POSTGRES_DATA=
SERVERS_MARIADB_PID=

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Debian keeps PostgreSQL's server programs out of PATH; take the newest version.
# The client packages create such a directory too, so look for the server itself.
find_postgres() {
    local server
    server=$(command -v postgres) && { dirname "$(readlink -f "$server")"; return; }
    server=$(ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null | sort -V | tail -n 1)
    [ -z "$server" ] || dirname "$server"
}
find_mariadbd() { PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v mariadbd; }

servers_need() {
    local missing=()
    [ -n "${OUTBOX_TEST_POSTGRES_URL:-}" ] || [ -n "$(find_postgres)" ] || missing+=(postgresql)
    [ -n "${OUTBOX_TEST_MYSQL_URL:-}" ] || [ -n "$(find_mariadbd)" ] || missing+=(mariadb-server)
    need "(PostgreSQL 13+, MariaDB 10.6+), or set OUTBOX_TEST_POSTGRES_URL and OUTBOX_TEST_MYSQL_URL" "${missing[@]}"
}

# Counts instructions, for the test of what a message costs.
valgrind_need() { command -v valgrind >/dev/null || need "" valgrind; }

# need HINT PACKAGE...: installs packages, or says how to.
need() {
    local hint=$1
    shift
    [ $# -gt 0 ] || return 0
    command -v apt-get >/dev/null || die "install $* $hint"
    [ "$(id -u)" -eq 0 ] ||
        die "missing: $*. Run: sudo apt-get install --no-install-recommends $*"
    apt_install "$@" || die "apt-get could not install $*"
}

# Without it scripts/chaos leaves out one fault: the wall clock that moves.
faketime_need() {
    local found=(/usr/lib/*/faketime/libfaketimeMT.so.1)
    [ -e "${found[0]}" ] && return
    { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null && apt_install libfaketime; } ||
        say "WARNING: libfaketime is missing and cannot be installed: no wall clock is moved" >&2
}

# Installs Debian packages; needs apt and root.
apt_install() {
    say "installing $*"
    # Installing must not start the system's own servers.
    local policy=/usr/sbin/policy-rc.d ours= installed=0
    if [ ! -e "$policy" ]; then
        ours=yes
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    apt-get update -qq >/dev/null || say "apt-get update failed, trying with the lists there are"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
        installed=1
    [ -z "$ours" ] || rm -f "$policy"
    return $installed
}

# Below the ports that systems give to clients (32768 and up on Linux). A port that some client
# has, or had a minute ago, does not answer, but a server cannot listen on it.
free_port() {
    local port
    for _ in $(seq 100); do
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
    die "no free port on 127.0.0.1"
}

# PostgreSQL refuses to run as root.
as_postgres() {
    if [ "$(id -u)" -ne 0 ]; then "$@"; return; fi
    local user=nobody
    id postgres >/dev/null 2>&1 && user=postgres
    (cd / && runuser -u "$user" -- "$@")
}

servers_start() {
    SERVERS_DIR=$(mktemp -d "${TMPDIR:-/tmp}/outbox-servers.XXXXXX")
    chmod 755 "$SERVERS_DIR"
    [ -n "${OUTBOX_TEST_POSTGRES_URL:-}" ] || start_postgres
    [ -n "${OUTBOX_TEST_MYSQL_URL:-}" ] || start_mariadb
}

start_postgres() {
    local bin data port log=$SERVERS_DIR/postgres.log
    bin=$(find_postgres) port=$(free_port) data=$SERVERS_DIR/postgres
    mkdir "$data"
    touch "$log"
    [ "$(id -u)" -ne 0 ] || chown "$(as_postgres id -un)" "$data" "$log"
    as_postgres "$bin/initdb" -D "$data" -U outbox -A trust -E UTF8 --no-sync >"$log.init" 2>&1 ||
        die "initdb failed: $(cat "$log.init")"
    cat >>"$data/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = '$data'
max_connections = 300
shared_buffers = 256MB
${SERVERS_DURABLE:+#}fsync = off
${SERVERS_DURABLE:+#}full_page_writes = off
shared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.max = 50000
CONF
    as_postgres "$bin/pg_ctl" -D "$data" -l "$log" -w start >/dev/null ||
        die "PostgreSQL did not start: $(tail -n 20 "$log")"
    SERVERS_POSTGRES_DATA=$data
    export OUTBOX_TEST_POSTGRES_URL="postgres://outbox@127.0.0.1:$port/postgres"
    say "PostgreSQL $("$bin/postgres" --version | awk '{print $3}') on 127.0.0.1:$port"
}

start_mariadb() {
    local data=$SERVERS_DIR/mariadb log=$SERVERS_DIR/mariadb.log user=()
    if [ "$(id -u)" -eq 0 ]; then user=(--user=mysql); fi
    # Its temporary tables have the same names each time. Two at once in one folder for temporary files
    # delete each other's ("Unknown table 'mysql.tmp_user_sys'"), so each has a folder of its own.
    mkdir -p -m 777 "$SERVERS_DIR/mariadb.tmp"
    TMPDIR=$SERVERS_DIR/mariadb.tmp mariadb-install-db --no-defaults "${user[@]}" --datadir="$data" \
        --auth-root-authentication-method=normal --skip-test-db >"$log.init" 2>&1 ||
        die "mariadb-install-db failed: $(tail -n 20 "$log.init")"
    free_port >"$SERVERS_DIR/mariadb.port"
    run_mariadb
    local port
    port=$(cat "$SERVERS_DIR/mariadb.port")
    export OUTBOX_TEST_MYSQL_URL="mysql://root@127.0.0.1:$port/mysql"
    say "MariaDB $("$(find_mariadbd)" --version | sed 's/.*Ver \([0-9.]*\).*/\1/') on 127.0.0.1:$port"
}

# Runs the server on the data and port that start_mariadb chose; also after a crash.
run_mariadb() {
    local data=$SERVERS_DIR/mariadb log=$SERVERS_DIR/mariadb.log user=()
    if [ "$(id -u)" -eq 0 ]; then user=(--user=mysql); fi
    "$(find_mariadbd)" --no-defaults "${user[@]}" --datadir="$data" --socket="$data/s" \
        --bind-address=127.0.0.1 --port="$(cat "$SERVERS_DIR/mariadb.port")" --skip-name-resolve \
        --max-connections=300 --innodb-flush-log-at-trx-commit="$([ -n "${SERVERS_DURABLE:-}" ] && echo 1 || echo 2)" --innodb-buffer-pool-size=256M \
        >>"$log" 2>&1 </dev/null &
    SERVERS_MARIADB_PID=$!
    echo "$SERVERS_MARIADB_PID" >"$SERVERS_DIR/mariadb.pid"
    for _ in $(seq 300); do
        kill -0 "$SERVERS_MARIADB_PID" 2>/dev/null || die "MariaDB did not start: $(tail -n 20 "$log")"
        mariadb-admin --no-defaults --socket="$data/s" -u root ping >/dev/null 2>&1 && return
        sleep 0.1
    done
    die "MariaDB does not answer: $(tail -n 20 "$log")"
}

# Ends the server of this process id in order and waits for its end.
end_mariadb() {
    kill "$1"
    for _ in $(seq 600); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    die "MariaDB does not end"
}

servers_stop() {
    if [ -n "$SERVERS_POSTGRES_DATA" ]; then
        as_postgres "$(find_postgres)/pg_ctl" -D "$SERVERS_POSTGRES_DATA" -m immediate stop >/dev/null 2>&1
    fi
    if [ -n "$SERVERS_MARIADB_PID" ]; then
        kill "$SERVERS_MARIADB_PID" 2>/dev/null
        wait "$SERVERS_MARIADB_PID" 2>/dev/null
    fi
    [ -z "$SERVERS_DIR" ] || rm -rf "$SERVERS_DIR"
    return 0
}
