// Package schedule submits tasks at the times of a crontab line. It runs nothing itself: it calls
// Submit, and looks in the tasks that exist whether a time was served already, so that a daemon that
// is killed at that moment submits neither twice nor, after Submit has begun, a second time.
//
// Each schedule is a file, DIR/<id>.json, an api.Schedule. Times are those of this machine's zone, by
// the rules of github.com/netresearch/go-cron: a time that a change of the clock skips is served at
// the next one that exists.
//
// A time is missed when no daemon ran, or the machine slept. Of all that were missed together, one is
// made up for as soon as it can be (api.MissedOnce) or none (api.MissedSkip), and the schedule counts
// those that were left out.
package schedule
