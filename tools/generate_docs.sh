#!/usr/bin/env bash
# Writes docs/config.md from the schema and the tables of layers and models: generate_docs.sh TARN > docs/config.md
set -eu
tarn=$1
cat <<'EOF'
# Configuration

<!-- Made by `make docs` from the schema; edit runtime/config/schema.c, not this file. -->

EOF
"$tarn" help config-markdown
cat <<'EOF'

## `layers:`

`build/tarn help layers` says:

```text
EOF
"$tarn" help layers
cat <<'EOF'
```

## `model:`

`build/tarn help models` says:

```text
EOF
"$tarn" help models
echo '```'
