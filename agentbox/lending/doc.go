// Package lending gives the values of secrets to requests of boxes on other machines, one request at a time,
// and asks for those of boxes that are here for others. No value is written to a disk of the machine
// that asks.
package lending
