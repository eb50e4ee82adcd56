#!/bin/sh
# What docker/compose.yaml needs of the official image's entry point: the first start makes the databases.
set -eu
if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb --pgdata="$PGDATA" --username=postgres --pwfile="$POSTGRES_PASSWORD_FILE" --auth=scram-sha-256 --auth-local=trust
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  for file in /docker-entrypoint-initdb.d/*.sql; do
    # One statement a line, as single-user mode wants it.
    postgres --single -D "$PGDATA" postgres < "$file" > /dev/null
  done
fi
exec "$@"
