# What ./test and ./soak share, to be sourced after setup.sh: where tests leave their traces.

# They start many Pythons: none of them shall compile again what another has compiled. This may be switched off
# where they run, so that nothing is left behind, but in here nobody minds.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$root/.venv/bytecode

# Servers that flush to a disk wait for whoever else writes to it, and on a shared machine that may be seconds.
# What they flush is gone with the run anyway, so it is kept in memory where there is room for it.
use_memory() {
    [ "$(df --output=avail -B1G /dev/shm 2> /dev/null | tail -n 1)" -ge 6 ] 2> /dev/null || return 0
    memory=$(mktemp -d /dev/shm/fencelock.XXXXXX)
    chmod 711 "$memory" # PostgreSQL does not run as root
    trap 'rm -rf "$memory"' EXIT
    export TMPDIR=$memory
}
