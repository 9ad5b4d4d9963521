#!/usr/bin/env bash
# Of the first start of db-1: its standby may connect.
set -euo pipefail
echo "host replication kestrel all scram-sha-256" >> "$PGDATA/pg_hba.conf"
