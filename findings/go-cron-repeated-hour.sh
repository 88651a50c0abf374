#!/bin/sh
# github.com/netresearch/go-cron v0.9.1 (a maintained fork of robfig/cron v3), Go 1.26
#
# Expected, of a schedule "30 2 * * *" (02:30 each day) in a place with summer time, as Debian's cron(8) says of jobs that
# are not wildcards: in the night in which the clock goes back, the job runs once.
# Seen: in Europe/Berlin Next gives 02:30 twice on 25 October 2026, first in summer time (UTC+2) and an hour later in
# winter time (UTC+1), because it looks for the next moment whose clock reads 02:30. (In spring, when there is no 02:30 on
# 29 March 2026, it gives 03:30, as cron does.) What must happen once a night has to compare readings of the clock itself.
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/cron

go 1.26

require github.com/netresearch/go-cron v0.9.1
M
cat >main.go <<'M'
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/netresearch/go-cron"
)

func main() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	s, err := cron.ParseStandard("30 2 * * *")
	if err != nil {
		panic(err)
	}
	for _, day := range []time.Time{time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), time.Date(2026, 3, 29, 0, 0, 0, 0, berlin)} {
		at := day
		for range 2 {
			at = s.Next(at)
			fmt.Println(at.Format("2006-01-02 15:04 -0700"))
		}
	}
}
M
GOFLAGS=-mod=mod GOWORK=off go run . >seen
cat seen
[ "$(cat seen)" = "2026-10-25 02:30 +0200
2026-10-25 02:30 +0100
2026-03-29 03:30 +0200
2026-03-30 02:30 +0200" ]
