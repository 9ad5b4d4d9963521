#!/usr/bin/env bash
# db-2: a copy of db-1 at the first start, and its standby from then on.
set -euo pipefail
data=/var/lib/postgresql/data
if [ ! -s "$data/PG_VERSION" ]; then
    until pg_basebackup -D "$data" -R -c fast -X stream \
        -d "host=db-1 user=kestrel application_name=db-2"; do
        sleep 1
    done
    echo "primary_conninfo = 'host=db-1 user=kestrel application_name=db-2 password=$PGPASSWORD'" \
        >> "$data/postgresql.auto.conf"
    chmod 0700 "$data"
fi
exec postgres -D "$data" -c synchronous_standby_names=
