// Package sources serves the calls about what boxes are made from: captured checkouts (package source) and
// snapshots of work (package snapshot), which are in the store. It makes no boxes.
package sources
