// Package console keeps what a guest and its VMM say: bounded, on disk and for error messages. It
// does not understand it.
package console
