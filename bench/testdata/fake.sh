#!/bin/sh
# Stands in for agentbox: boxes are files that hold their state. $TROUBLE is a verb that fails or, after a dash, hangs.
boxes=$AGENTBOX_HOME/boxes
echo "$(basename "$AGENTBOX_HOME") $*" >>"$FAKE_LOG"
fail() { printf -- '- step  0.01 s\nagentbox: %s\nhint: none\n' "$1" >&2; exit 125; }
id() { printf '%012d' "$(printf %s "$1" | cksum | cut -d' ' -f1)"; }
box() {
	printf '{"id":"%s","name":"%s","state":"%s","isolation":"microvm","accel":"tcg","usage":{"pss":52428800}}' \
		"$(id "$1")" "$1" "$(cat "$boxes/$1")"
}
set_state() { mkdir -p "$boxes" "$AGENTBOX_HOME/run" && echo "$2" | tr -d '\n' >"$boxes/$1" && touch "$AGENTBOX_HOME/run/daemon.sock"; }
[ "$1" = "$TROUBLE" ] && fail "$1 does not work today"
[ "-$1" = "$TROUBLE" ] && exec sleep 60
case $1 in
policy) printf '{"digest":"%s","plan":%s}' "${FAKE_DIGEST:-d1}" "${FAKE_PLAN:-null}" ;;
up | fork) set_state "$3" running ;;
pause) set_state "$2" paused ;;
resume | reset) set_state "$2" running ;;
exec)
	[ -f "$boxes/$2" ] || fail "no box $2"
	[ "$6" != false ] || fail "it says no"
	case "$*" in *import*"${FAKE_FAILS-none}"*) printf 'no \033[1m%s\n' "$FAKE_FAILS" >&2 && exit 1 ;; esac
	;;
show) box "$3" ;;
ls)
	comma=
	printf '['
	for f in "$boxes"/*; do
		[ -f "$f" ] || continue
		printf %s "$comma"
		box "$(basename "$f")"
		comma=,
	done
	printf ']'
	;;
rm)
	for f in "$boxes"/*; do
		case " $* " in *" $(id "$(basename "$f")") "*) rm "$f" ;; esac
	done
	;;
daemon)
	[ "$2" = stop ] && rm -f "$AGENTBOX_HOME/run/daemon.sock"
	printf '{"pool":2}'
	;;
doctor)
	printf '{"checks":[{"name":"disk","ok":false,"detail":"full"}],"kinds":["microvm","gvisor"]}'
	exit 1
	;;
*) fail "no verb $1" ;;
esac
