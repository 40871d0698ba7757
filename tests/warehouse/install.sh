#!/usr/bin/env bash
# Debian's PostgreSQL for the tests of warehouses, where it is missing and can be installed.
set -euo pipefail
if compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || command -v initdb >/dev/null 2>&1; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "error: the warehouse tests need a PostgreSQL server. Install it: apt-get install postgresql" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# No cluster of its own is wanted: the tests make theirs.
mkdir -p /etc/postgresql-common
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
  echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends postgresql
