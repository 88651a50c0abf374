// Package cost computes what a task costs by the rates that a user has written down. It knows no
// prices: without a table there are amounts and no money.
//
// The table is rates.yaml of a home; docs/costs.md describes it. agentbox/host/egress
// gives it to the supervisor of a task's box, which ends the box at a limit in money; the daemon
// computes the sum that people see with the same function. Money is a float64 in the table's
// currency, as rates are estimates.
package cost
