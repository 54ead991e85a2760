# Sourced by ./run, ./test, ./soak and ./bench: makes the environment in which each of them runs.
#
# It needs only python3, and some Python that has pip. Debian's pip refuses to install into the system, and
# Debian's python3 may come without venv. So pip only fetches uv into .tools, and uv does the rest.
# PYTHON chooses another interpreter: `PYTHON=python3.13 ./test`.

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
python=${PYTHON:-python3}

say() {
    printf 'fencelock: %s\n' "$*" >&2
}

# prepare run|dev|bench: makes .venv/NAME from requirements/NAME.txt, unless it exists and is up to date.
prepare() {
    up_to_date "$1" && return
    mkdir -p "$root/.venv"
    # A lock, because two first runs at the same time would build in the same folder. The subshell closes
    # the descriptor again, because the program that ./run executes must not inherit it.
    (
        flock 9
        up_to_date "$1" || build "$1"
    ) 9> "$root/.venv/lock"
}

up_to_date() {
    [ -f "$root/.venv/$1/stamp" ] && [ "$(< "$root/.venv/$1/stamp")" = "$(fingerprint "$1")" ]
}

# Prints a text that changes when an input of the environment changes: the requirements, the project's own
# metadata, the folder of the checkout (installed scripts contain it), the Python. It does not start Python to
# ask for its version, so a second ./run costs only a few milliseconds. If the Python changes, the link points to
# another file or to none.
fingerprint() {
    cat "$root/requirements/$1.txt" "$root/pyproject.toml" | sha256sum
    echo "$root $python $(readlink -e "$root/.venv/$1/bin/python")"
}

build() {
    local venv=$root/.venv/$1 uv=$root/.tools/bin/uv interpreter
    interpreter=$(find_interpreter) || {
        say "cannot run $python; choose another with PYTHON=python3.x, or say where it is"
        return 1
    }
    "$interpreter" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        say "needs Python 3.11 or newer, and $python is not; choose another with PYTHON=python3.x"
        return 1
    }
    install_uv "$interpreter"
    say "preparing .venv/$1"
    "$uv" venv --quiet --clear --no-python-downloads --python "$interpreter" "$venv" >&2
    "$uv" pip sync --quiet --require-hashes --python "$venv" "$root/requirements/$1.txt" >&2
    # No isolation: the pinned hatchling builds it, not the newest one of today.
    "$uv" pip install --quiet --no-deps --no-build-isolation --python "$venv" -e "$root" >&2
    fingerprint "$1" > "$venv/stamp"
}

# Prints the path of the chosen Python. A shim of pyenv refuses to run a version that is installed but not
# selected in pyenv. Then this chooses the newest installed version with this name.
find_interpreter() {
    local version
    "$python" -c '' 2> /dev/null && command -v "$python" && return
    version=$(pyenv whence "$python" 2> /dev/null | sort -V | tail -n 1)
    [ -n "$version" ] && echo "$(pyenv prefix "$version")/bin/$python"
}

install_uv() {
    local pinned=$root/requirements/uv.txt with_pip
    cmp --quiet "$pinned" "$root/.tools/uv.txt" && return
    with_pip=$(find_pip "$1") || {
        say "needs a Python with pip once, to fetch uv, and found none; on Debian: apt-get install python3-pip"
        return 1
    }
    say "fetching uv"
    rm -rf "$root/.tools"
    "$with_pip" -m pip install -qq --require-hashes --target "$root/.tools" -r "$pinned" >&2
    cp "$pinned" "$root/.tools/uv.txt"
}

# Prints a Python that has pip. A virtual environment may have none: then this tries the Python that it was made
# from, and then any other. uv is a program, so it does not matter which Python fetches it.
find_pip() {
    local each
    while read -r each; do
        "$each" -m pip --version > /dev/null 2>&1 < /dev/null && echo "$each" && return
    done < <(
        echo "$1"
        "$1" -c 'import sys; print(sys._base_executable)'
        type -ap python3
        echo /usr/bin/python3
    )
    return 1
}

# Installs the given Debian packages that are missing. On other systems it does nothing.
install_packages() {
    local package missing=() as_root=()
    command -v apt-get > /dev/null || return 0
    for package; do
        [ "$(dpkg-query -Wf '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] ||
            missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0

    if [ "$(id -u)" != 0 ]; then
        command -v sudo > /dev/null || {
            say "cannot install what is missing; as root: apt-get install ${missing[*]}"
            return 1
        }
        as_root=(sudo)
    fi
    say "installing ${missing[*]}"
    # policy-rc.d prevents packages from starting their services. The tests run private servers, and a server on
    # the standard port could be in the user's way. An existing policy is not changed.
    "${as_root[@]}" bash -euc '
        policy=/usr/sbin/policy-rc.d
        if [ ! -e "$policy" ]; then
            trap "rm -f $policy" EXIT
            printf "#!/bin/sh\nexit 101\n" > "$policy"
            chmod +x "$policy"
        fi
        export DEBIAN_FRONTEND=noninteractive
        apt-get -qq update
        apt-get -qq -o Dpkg::Use-Pty=0 install --no-install-recommends "$@"
    ' bash "${missing[@]}" > /dev/null < /dev/null
}
