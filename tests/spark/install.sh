#!/usr/bin/env bash
# Java for the Spark tests, from Debian's packages, where it is missing and can be installed.
set -euo pipefail
if command -v java >/dev/null 2>&1 || [ -x "${JAVA_HOME:-/nonexistent}/bin/java" ]; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "error: the Spark tests need Java 17. Install it: apt-get install openjdk-17-jre-headless" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# Debian 13 has 21 instead of 17; Spark 4 runs on both.
apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless ||
  apt-get install -y -qq --no-install-recommends openjdk-21-jre-headless
