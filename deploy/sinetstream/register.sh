#!/usr/bin/env bash
# Registers SINETStream's two connectors, s3-sink-data and s3-sink-timestamp, as the .env beside
# this file says. Waits until the service answers. Run it again to apply a changed .env.
#   ./register.sh                    the service on this machine, at REST_PORT of the .env
#   ./register.sh http://host:8083   another one
# For a service that requires credentials: KAFKEEP_REST_TOKEN, or KAFKEEP_REST_USER and
# KAFKEEP_REST_PASSWORD. REGISTER_TIMEOUT: seconds to wait for the service (default 300).
# It needs bash and curl.

# All in a subshell, so that ". ./register.sh" leaves the caller's shell as it was.
register() (
  set -euo pipefail
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  env_file=$here/.env
  answer=$(mktemp)
  trap 'rm -f "$answer"' EXIT

  main() {
    command -v curl >/dev/null || fail "curl is not installed"
    [[ -r $env_file ]] || fail "there is no $env_file; copy example.env to it and fill it in"
    local name
    for name in KAFKA_TOPIC S3_BUCKET_NAME; do
      [[ -n $(setting "$name" "") ]] || fail "$name is not set in $env_file"
    done
    url=${1:-http://localhost:$(setting REST_PORT 8083)}
    url=${url%/}
    deadline=$((SECONDS + ${REGISTER_TIMEOUT:-300}))
    define s3-sink-data "$(data_connector)"
    define s3-sink-timestamp "$(timestamp_connector)"
  }

  fail() {
    echo "register.sh: $*" >&2
    exit 1
  }

  # A variable of the .env, or the default: NAME=value, in quotes or not, with a comment or not.
  setting() {
    local value
    value=$(sed -n -e 's/\r$//' \
      -e "s/^[[:space:]]*\(export[[:space:]]\{1,\}\)\{0,1\}$1[[:space:]]*=[[:space:]]*//p" \
      "$env_file" | tail -n 1)
    case $value in
      \"*) value=${value#\"} value=${value%%\"*} ;;
      \'*) value=${value#\'} value=${value%%\'*} ;;
      \#*) value= ;;
      *)
        value=${value%%[[:space:]]#*}
        value=${value%"${value##*[![:space:]]}"}
        ;;
    esac
    printf '%s' "${value:-$2}"
  }

  # The same as the text of a JSON string.
  text() {
    local value
    value=$(setting "$1" "$2")
    value=${value//\\/\\\\}
    printf '"%s"' "${value//\"/\\\"}"
  }

  define() {
    local status waited=
    while true; do
      status=$(call PUT "/connectors/$1/config" "$2")
      case $status in
        201) echo "$1: created" && return ;;
        200) echo "$1: registered" && return ;;
        000 | 404 | 409 | 5??) ;; # not there yet, or busy
        *) fail "$1 was answered with $status by $url: $(cat "$answer")" ;;
      esac
      ((SECONDS < deadline)) || fail "no service took $1 at $url (answer $status)"
      [[ -n $waited ]] || echo "waiting for the service at $url" >&2
      waited=yes
      sleep 1
    done
  }

  # The credentials are written to curl's standard input, so that no list of processes shows them.
  call() {
    credentials | curl --silent --config - --request "$1" --header 'Content-Type: application/json' \
      --noproxy localhost --max-time 60 --output "$answer" --write-out '%{http_code}' --data "$3" "$url$2" || true
  }

  credentials() {
    if [[ -n ${KAFKEEP_REST_TOKEN:-} ]]; then
      printf 'header = "Authorization: Bearer %s"\n' "$KAFKEEP_REST_TOKEN"
    elif [[ -n ${KAFKEEP_REST_USER:-} ]]; then
      printf 'user = "%s:%s"\n' "$KAFKEEP_REST_USER" "${KAFKEEP_REST_PASSWORD:-}"
    fi
  }

  data_connector() {
    cat <<JSON
{
  $(common),
  "group.id": "kafka-connect-s3-sink-data",
  "transforms": "ExtractField,ByteArrayCast",
  "transforms.ExtractField.field": "msg",
  "format.bytearray.extension": $(text S3_OBJECT_EXTENSION .bin)
}
JSON
  }

  timestamp_connector() {
    cat <<JSON
{
  $(common),
  "group.id": "kafka-connect-s3-sink-timestamp",
  "transforms": "Timestamp,ExtractField,ByteArrayCast",
  "transforms.Timestamp.type": "jp.ad.sinet.sinetstream.connect.transforms.MicrosecondTimestampConverter\$Value",
  "transforms.Timestamp.field": "tstamp",
  "transforms.Timestamp.format": "yyyy-MM-dd'T'HH:mm:ss.SSS",
  "transforms.Timestamp.target.type": "string",
  "transforms.ExtractField.field": "tstamp",
  "format.bytearray.extension": "-timestamp.txt"
}
JSON
  }

  common() {
    cat <<JSON
"connector.class": "io.confluent.connect.s3.S3SinkConnector",
  "value.converter": "jp.ad.sinet.sinetstream.connect.converters.SinetStreamConverter",
  "format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
  "format.bytearray.separator": "",
  "storage.class": "io.confluent.connect.s3.storage.S3Storage",
  "tasks.max": "1",
  "flush.size": "1",
  "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
  "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
  "partition.duration.ms": "3600000",
  "timestamp.extractor": "Record",
  "locale": "C",
  "timezone": "Asia/Tokyo",
  "transforms.ExtractField.type": "org.apache.kafka.connect.transforms.ExtractField\$Value",
  "transforms.ByteArrayCast.type": "jp.ad.sinet.sinetstream.connect.transforms.ByteArrayCast\$Value",
  "topics": $(text KAFKA_TOPIC ""),
  "s3.bucket.name": $(text S3_BUCKET_NAME ""),
  "s3.region": $(text S3_REGION us-east-1)
JSON
    if [[ -n $(setting S3_ENDPOINT_URL "") ]]; then
      echo "  , \"store.url\": $(text S3_ENDPOINT_URL "")"
    fi
  }

  main "$@"
)

register "$@"
