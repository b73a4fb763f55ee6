# Shared by the scripts: paths, and progress messages. Sourced, not run.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

# LLVM's folder; .cargo/config.toml has the same default.
export MLIR_SYS_220_PREFIX="${MLIR_SYS_220_PREFIX:-/usr/lib/llvm-22}"
venv="$root/.venv"
python="$venv/bin/python"

# Python caches compiled modules, but not next to their sources. Without the cache each process that imports torch would
# compile thousands of files again, which takes longer than most tests.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="${PYTHONPYCACHEPREFIX:-$root/target/pycache}"

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }

# step "what" command…: prints what, runs the command quietly, shows the end of its output if it fails.
step() {
  local what="$1" log start
  shift
  log="$(mktemp)"
  start=$SECONDS
  printf '    %s … ' "$what" >&2
  if "$@" >"$log" 2>&1; then
    printf '%ds\n' $((SECONDS - start)) >&2
    rm -f "$log"
  else
    printf 'failed\n' >&2
    tail -n 60 "$log" >&2
    rm -f "$log"
    return 1
  fi
}
