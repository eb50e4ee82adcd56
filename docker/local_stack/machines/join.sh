# Lets this machine run jobs of a training stack; `make join-command` prints it with what is set above it.
# It trusts the stack's registry, and only that; it makes the folder of its agent; it joins the swarm as a worker. It may be run
# again.
set -eu
umask 077

fail() {
    echo "error: $*" >&2
    exit 1
}

# The last value of a key in a JSON text.
value() {
    sed -n "s/.*\"$1\": *\"\\([^\"]*\\)\".*/\\1/p" | tail -n 1
}

engine() {
    curl --silent --show-error --max-time 120 --unix-socket "$socket" "$@"
}

ask() {
    curl --silent --noproxy '*' --connect-timeout 5 --max-time 30 --cacert "$folder/ca.crt" "$@"
}

# Whether a port of the first machine can be connected to, whatever speaks there, and however it ends.
reaches() {
    status=0
    took=$(curl --silent --noproxy '*' --connect-timeout 5 --max-time 5 --output /dev/null \
        --write-out '%{time_connect}' "http://$address:$1/") || status=$?
    case $status:$took in
        28:*[1-9]*) ;; # it was connected, and there was no answer in time
        7:* | 28:*) return 1 ;;
    esac
}

main() {
    [ "$(id -u)" = 0 ] || fail "this must be run by root, who may tell the engine whom to trust; use sudo sh"
    command -v curl > /dev/null || fail "curl is missing; install it, for example: apt-get install curl"
    socket=${DOCKER_HOST:-unix:///var/run/docker.sock}
    case $socket in
        unix://*) socket=${socket#unix://} ;;
        *) fail "the engine must be at a unix socket of this machine, got DOCKER_HOST=$socket" ;;
    esac
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    printf '%s\n' "$authority" > "$folder/ca.crt"

    found=$(engine http://engine/version) || fail "no Docker Engine answers at $socket; start it, or set DOCKER_HOST"
    api=$(printf '%s' "$found" | value ApiVersion)
    minor=${api#1.}
    case $minor in '' | *[!0-9]*) fail "the engine's API must be 1.41 or newer, got '$api'" ;; esac
    [ "$minor" -ge 41 ] || fail "the engine must be 20.10 or newer (API 1.41), got API $api; install a newer one"

    for port in $ports; do
        reaches "$port" || fail "port $port/tcp of $address cannot be reached from here; open it in the firewalls between"
    done
    # 401: the registry is there, is who it should be, and wants a token.
    status=$(ask --output /dev/null --write-out '%{http_code}' "https://$registry/v2/") || true
    [ "$status" = 401 ] || fail "the registry at $registry must answer 401 over TLS with the stack's certificate, got $status"

    info=$(engine http://engine/info)
    state=$(printf '%s' "$info" | value LocalNodeState)
    case $state in
        inactive) ;;
        active)
            printf '%s' "$info" | grep -q "\"Addr\": *\"$address:2377\"" ||
                fail "this machine is in another swarm; leave it first: docker swarm leave"
            ;;
        *) fail "the engine's part in a swarm is '$state': $(printf '%s' "$info" | value Error); leave it first: docker swarm leave --force" ;;
    esac

    # From here on things are changed.
    trusted=$certificates/$registry
    (umask 022 && mkdir -p "$trusted" && cp "$folder/ca.crt" "$trusted/.ca.crt.new")
    chmod 644 "$trusted/.ca.crt.new"
    mv "$trusted/.ca.crt.new" "$trusted/ca.crt"
    # For the metrics of this machine's containers, which its agent reads.
    mkdir -p "$metrics"
    if [ "$state" = active ]; then
        echo "this machine is in the swarm of $address already, and trusts its registry"
        return
    fi

    # Not as arguments, which every user of the machine can read.
    printf 'header = "Authorization: Bearer %s"\n' "$token" > "$folder/token"
    answer=$(ask --config "$folder/token" --request POST "$gate/machines:join") || fail "$gate does not answer"
    swarm=$(printf '%s' "$answer" | value token)
    [ -n "$swarm" ] || fail "the first machine refused: $(printf '%s' "$answer" | value error)"
    own=$(ask --output /dev/null --write-out '%{local_ip}' "$gate/health")
    printf '{"ListenAddr": "%s:2377", "AdvertiseAddr": "%s", "DataPathAddr": "%s", "RemoteAddrs": ["%s:2377"], "JoinToken": "%s"}' \
        "$own" "$own" "$own" "$address" "$swarm" > "$folder/join.json"
    status=$(engine --output "$folder/answer" --write-out '%{http_code}' --request POST \
        --header 'Content-Type: application/json' --data "@$folder/join.json" "http://engine/v$api/swarm/join") || true
    [ "$status" = 200 ] || fail "the engine could not join: $(value message < "$folder/answer")"
    echo "this machine has joined as $own; on the first machine, make status shows it"
}

main
