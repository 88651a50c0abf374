package schedule

import (
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// late is how long after its time a run is still on time: the daemon looks at the clock so often.
const late = 2 * look

// Parse parses a crontab line of five fields, or @daily and its like.
func Parse(line string) (cron.Schedule, error) {
	s, err := cron.ParseStandard(line)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "%q is not a schedule: %w", line, err).
			WithHint(`write it as in a crontab, for example "0 19 * * 1-5" for 19:00 from Monday to Friday`)
	}
	if fields := strings.Fields(line); len(fields) == 5 && !strings.HasPrefix(fields[1], "*") {
		return fixedHour{s}, nil
	}
	return s, nil
}

// fixedHour is a schedule of certain hours. As in cron, an hour that a change of the clock repeats
// has its times once.
type fixedHour struct{ cron.Schedule }

func (f fixedHour) Next(t time.Time) time.Time {
	next := f.Schedule.Next(t)
	for !next.IsZero() && next.Add(-time.Hour).Format(time.DateTime) == next.Format(time.DateTime) {
		next = f.Schedule.Next(next)
	}
	return next
}

// maxCounted bounds how many missed times are counted one by one.
const maxCounted = 10_000

// due decides about the times after the last one that was served or left out. run is the time to
// serve now, zero for none; skipped is how many were left out, and last is the newest of all these
// times, or the former last.
func due(times cron.Schedule, missed api.Missed, last, now time.Time) (run time.Time, skipped int, newest time.Time) {
	newest = last
	n := 0
	for next := times.Next(last); !next.IsZero() && !next.After(now); next = times.Next(next) {
		if n++; n > maxCounted {
			next = now // it was away for very long
		}
		newest = next
	}
	switch {
	case n == 0:
		return time.Time{}, 0, last
	case missed == api.MissedSkip && now.Sub(newest) > late:
		return time.Time{}, n, newest
	}
	return newest, n - 1, newest
}
