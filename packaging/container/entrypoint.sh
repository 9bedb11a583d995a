#!/bin/sh
# Entry point of an image whose worker is supervised by a daemon outside: the image's command is the worker's.
#
#   MOSAIC_TARGET            HOST:PORT of the daemon (required)
#   MOSAIC_RUN_ID            the container's run (required)
#   MOSAIC_TOKEN_FILE        file with the run's session token, if the daemon requires one
#   MOSAIC_TLS_CA            file with the certificate authority of the daemon's certificate, for TLS
#   MOSAIC_TLS_SERVER_NAME   the name in that certificate, if it differs from the target's
#
# As process 1 the portable form of mosaic passes signals on, waits for orphans and exits with the worker's exit code.
set -eu
: "${MOSAIC_TARGET:?set MOSAIC_TARGET to HOST:PORT of the daemon}"
: "${MOSAIC_RUN_ID:?set MOSAIC_RUN_ID to the run this container carries out}"
[ $# -gt 0 ] || { echo "entrypoint: give the worker's command" >&2; exit 2; }
exec mosaic proxy --target "$MOSAIC_TARGET" --run-id "$MOSAIC_RUN_ID" --mirror \
  ${MOSAIC_TOKEN_FILE:+--token-file "$MOSAIC_TOKEN_FILE"} ${MOSAIC_TLS_CA:+--tls-ca "$MOSAIC_TLS_CA"} -- "$@"
