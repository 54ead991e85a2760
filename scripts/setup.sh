# Sourced by ./run, ./test and ./bench: makes the environment each of them runs in.
#
# All that is taken for granted is python3, and pip in some Python. Debian's pip refuses to install into the
# system and its python3 may come without venv, so pip only fetches uv into .tools, and uv does the rest.
# PYTHON chooses another interpreter: `PYTHON=python3.13 ./test`.

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
python=${PYTHON:-python3}

say() {
    printf 'fencelock: %s\n' "$*" >&2
}

# prepare run|dev|bench: makes .venv/NAME from requirements/NAME.txt, unless it is there and up to date.
prepare() {
    up_to_date "$1" && return
    mkdir -p "$root/.venv"
    # A lock, because two first runs at once would build in the same folder. The subshell closes
    # the descriptor again: a program that ./run turns into must not inherit it.
    (
        flock 9
        up_to_date "$1" || build "$1"
    ) 9> "$root/.venv/lock"
}

up_to_date() {
    [ -f "$root/.venv/$1/stamp" ] && [ "$(< "$root/.venv/$1/stamp")" = "$(fingerprint "$1")" ]
}

# Changes whenever something the environment was made from does: the requirements, the project's
# own metadata, the place of the checkout (scripts name it), the Python. Starts no Python to learn
# its version, so a warm ./run costs a few milliseconds: the link leads to another file, or to none.
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
    # Without isolation it is built by the pinned hatchling, not by whatever is newest today.
    "$uv" pip install --quiet --no-deps --no-build-isolation --python "$venv" -e "$root" >&2
    fingerprint "$1" > "$venv/stamp"
}

# Prints where the chosen Python is. A shim of pyenv refuses to run a version that is installed, but
# is none of those chosen with pyenv: then it is the newest with this name.
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

# Prints a Python that has pip. A virtual environment may come without: then it is the Python that it
# was made from, or any other. uv is a program, so it does not matter which Python fetches it.
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

# Installs those of the given Debian packages that are missing. Elsewhere it trusts the reader.
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
    # policy-rc.d keeps packages from starting their services: the tests run private servers, and
    # one on the standard port would only be in somebody's way. An existing policy is left alone.
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
