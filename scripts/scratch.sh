# Sourced by ./test and ./soak after setup.sh: where tests write their files.

# The tests start many Pythons. Each module should be compiled only once, so the bytecode is kept, even if the
# caller's environment switches that off. It goes into .venv, where it is not in the way.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$root/.venv/bytecode

# Servers that flush to a disk wait for everything else that writes to it. On a shared machine this may take
# seconds. Their data is deleted after the run anyway, so it is kept in memory if there is room.
use_memory() {
    [ "$(df --output=avail -B1G /dev/shm 2> /dev/null | tail -n 1)" -ge 6 ] 2> /dev/null || return 0
    memory=$(mktemp -d /dev/shm/fencelock.XXXXXX)
    chmod 711 "$memory" # PostgreSQL does not run as root
    trap 'rm -rf "$memory"' EXIT
    export TMPDIR=$memory
}
