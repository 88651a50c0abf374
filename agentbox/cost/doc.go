// Package cost tells what a task comes to by the rates that a user has written down. It knows no
// prices: without a table there are amounts and no money.
package cost
